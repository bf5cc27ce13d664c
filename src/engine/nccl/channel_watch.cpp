// SPDX-License-Identifier: Apache-2.0
// The completion and failure of a channel's works in flight. All but `watch`, `let_go`, `in_other_words` and
// `with_names` is called under the lock.
#include <utility>

#include "engine/diagnosis/attendance.hpp"
#include "engine/nccl/channel.hpp"
#include "engine/record/recorder.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {

bool NcclChannel::is_over(const Work& work) const {
    if (!work.flying) return true;
    const auto result = cuda_.query(work.over);
    if (result != cudaErrorNotReady) cuda_.check(result, "a work on the device");
    return result == cudaSuccess;
}

/// Takes works that the device has completed off the list of those in flight.
void NcclChannel::reap() {
    while (!flying_.empty() && !flying_.front()->error && is_over(*flying_.front())) {
        auto& work = *flying_.front();
        flying_.pop_front();
        work.flying = false;
        if (!work.held) free_.push_back(&work);
    }
}

/// Releases a work from its ticket.
void NcclChannel::release(Work& work) {
    work.held = false;
    if (!work.flying) free_.push_back(&work);
}

std::string NcclChannel::text(const Work& work) const {
    return cat(numbered(work.call, work.number, &work.label->ranks), " on ", work.label->text_with_group());
}

std::exception_ptr NcclChannel::timeout_of(const Work& work) const {
    const auto is_message = is_point_to_point(work.call.operation);
    const auto statuses = ring() && parts_.host
                              ? parts_.host->ask(ring()->key(), is_message ? 0 : work.number)
                              : std::vector<PeerStatus>{};
    try {
        if (parts_.host) parts_.host->throw_if_broken(*work.label);
    } catch (...) {  // a rank has ended meanwhile
        return std::current_exception();
    }
    if (statuses.empty())
        return Failure{
            .kind = Failure::Kind::timeout,
            .why = cat("the timeout of ", to_text(work.timeout), " expired on rank ", parts_.device->rank,
                       " in ", text(work), "; NCCL does not say who is missing")}
            .error(*work.label);
    auto awaited = std::vector<int>{};
    if (is_message) awaited.push_back(work.call.argument);
    if (work.call.operation == Operation::send_recv) awaited.push_back(work.call.source);
    return timeout_failure(work.timeout, parts_.device->rank,
                           numbered(work.call, work.number, &work.label->ranks), *work.label,
                           Attendance::of(*work.label, parts_.group_rank, awaited, statuses))
        .error(*work.label);
}

/// Fails all works in flight, and every later call, with the first error.
void NcclChannel::break_with(std::exception_ptr error) noexcept {
    if (error_) return;
    try {
        reap();
    } catch (...) {  // a device that does not answer is broken, too
    }
    error_ = std::move(error);
    for (auto* work : flying_) work->error = error_;
    if (parts_.comm) parts_.comm->stop();
}

void NcclChannel::watch() noexcept {
    const auto lock = std::lock_guard(mutex_);
    try {
        if (error_) return;
        reap();
        if (flying_.empty()) return;
        const auto now = std::chrono::steady_clock::now();
        for (const auto* work : flying_)
            if (now >= work->until) return break_with(timeout_of(*work));
        if (!parts_.comm) return;
        parts_.host->throw_if_broken(*parts_.label);
        const auto result = parts_.comm->error();
        if (result == ncclRemoteError) {
            alone_since_ = std::min(alone_since_, now);
            if (now - alone_since_ < host_lag) return;
        }
        if (result != ncclSuccess)
            break_with(with_names(parts_.comm->failure(result, text(*flying_.front()))));
    } catch (...) {
        break_with(std::current_exception());
    }
}

/// The error of the host's engine if it has one, else `error`, of a work that could not be enqueued.
std::exception_ptr NcclChannel::in_other_words(std::exception_ptr error, const Work& work) const {
    if (!parts_.host) return error;
    auto until = std::chrono::steady_clock::now();
    auto expired = false;
    try {
        std::rethrow_exception(error);
    } catch (const PeerLost&) {
        until += host_lag;
    } catch (const Timeout&) {
        expired = true;
    } catch (...) {
    }
    try {
        parts_.host->throw_if_broken(*parts_.label);
        while (std::chrono::steady_clock::now() < until) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            parts_.host->throw_if_broken(*parts_.label);
        }
    } catch (...) {
        return std::current_exception();
    }
    return expired ? timeout_of(work) : with_names(error);
}

/// A loss that names nobody as that of the peers that have this channel no more, or do not answer.
std::exception_ptr NcclChannel::with_names(std::exception_ptr error) const {
    try {
        std::rethrow_exception(error);
    } catch (const PeerLost& lost) {
        if (!lost.ranks.empty() || !ring() || !parts_.host) return error;
        auto ranks = std::vector<int>{};
        const auto statuses = parts_.host->ask(ring()->key(), 0);
        try {
            parts_.host->throw_if_broken(*parts_.label);
        } catch (...) {  // the host's engine has found out meanwhile, and has waited for no more answers
            return std::current_exception();
        }
        for (std::size_t i = 0; i < statuses.size(); ++i)
            if (!statuses[i].answers || statuses[i].ended)
                ranks.push_back(parts_.label->ranks[static_cast<int>(i)]);
        if (ranks.empty()) return error;
        return Failure{.kind = Failure::Kind::gone,
                       .why = cat(lost.what(), "; ended by ", parts_.label->named(ranks)),
                       .lost = ranks}
            .error(*parts_.label);
    } catch (...) {
        return error;
    }
}

/// Waits until the device no longer uses the buffers of a work that has failed.
void NcclChannel::let_go(const Work& work) const noexcept {
    const auto until = std::chrono::steady_clock::now() + buffers_in_use;
    while (cuda_.query(work.over) == cudaErrorNotReady && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
}

}  // namespace rankmesh::detail
