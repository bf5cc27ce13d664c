// SPDX-License-Identifier: Apache-2.0
#include "engine/nccl/channel.hpp"

#include <rankmesh/engine/detail/make_call.hpp>

#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

cudaStream_t stream_of(const Call& call) { return static_cast<cudaStream_t>(call.stream.handle); }

}  // namespace

NcclChannel::NcclChannel(Parts parts) : cuda_(Libraries::get().cuda), parts_(std::move(parts)) {
    parts_.device->use();
    group_ = {.comm = parts_.comm ? parts_.comm->handle() : nullptr,
              .group_rank = parts_.group_rank,
              .size = parts_.size,
              .barrier = parts_.device->word()};
    parts_.device->add(*this);
}

/// Returns once nothing is in flight, or the channel has failed.
void NcclChannel::settle_all() {
    for (auto pause = std::chrono::microseconds(10);;
         pause = std::min(2 * pause, std::chrono::microseconds(5000))) {
        watch();
        {
            const auto lock = std::lock_guard(mutex_);
            if (error_ || flying_.empty()) break;
        }
        std::this_thread::sleep_for(pause);
    }
}

void NcclChannel::release() {
    if (!parts_.comm) return;
    settle_all();
    throw_if_broken(*parts_.label);
    parts_.device->use();
    // NCCL's ranks suspend together. Where one cannot, or fails, all make another one later.
    const auto can = all_say(parts_.comm->can_suspend());
    if (can && all_say(try_on(&NcclComm::suspend, "suspend, releasing"))) return;
    auto comm = std::unique_ptr<NcclComm>{};
    {
        const auto lock = std::lock_guard(mutex_);
        comm = std::move(parts_.comm);
        group_.comm = nullptr;
    }
    if (!can) parts_.device->reaper()->retire(std::move(comm));  // else some are suspended, and all abort
}

/// True if all ranks of the group say so.
bool NcclChannel::all_say(bool it) {
    auto all = it ? 1 : 0;
    parts_.host->run(reducing(Operation::all_reduce, all, all, rankmesh::min), *parts_.label, parts_.timeout);
    return all == 1;
}

/// False if NCCL fails, or a peer does not come: then another communicator can be made.
bool NcclChannel::try_on(void (NcclComm::*step)(const NcclComm::Phase&), const char* what) {
    auto half = phase(what);
    half.timeout /= 2;  // the other half is for the ranks that wait for the outcome
    try {
        (parts_.comm.get()->*step)(half);
        return true;
    } catch (const EngineFailure&) {
        return false;
    } catch (const Timeout& timeout) {
        if (!timeout.missing.empty()) throw;
        return false;
    }
}

void NcclChannel::restore(const std::function<std::unique_ptr<NcclComm>(const NcclComm::Phase&)>& make) {
    parts_.device->use();
    if (parts_.comm && all_say(try_on(&NcclComm::resume, "resume, bringing back"))) return;
    auto comm = make(phase("resume, making"));
    const auto lock = std::lock_guard(mutex_);
    parts_.comm = std::move(comm);
    group_.comm = parts_.comm->handle();
}

NcclChannel::~NcclChannel() {
    settle_all();
    parts_.device->remove(*this);
    cuda_.set_device(parts_.device->number);
    if (parts_.comm) parts_.comm->wait_for_abort(buffers_in_use);
    for (const auto& work : works_) cuda_.event_destroy(work.over);
    if (ready_) cuda_.event_destroy(ready_);
    if (own_) cuda_.stream_destroy(own_);
    parts_.device->reaper()->retire(std::move(parts_.comm));
}

void NcclChannel::run(const Call& call, const Label& label, Duration timeout) {
    check_stream(call, label);
    auto& work = launch({&call, 1}, label, stream_of(call));
    const auto lock = std::lock_guard(mutex_);
    limit(work, timeout);
    publish(work, {&call, 1}, label, false);
}

std::uint64_t NcclChannel::start(std::span<const Call> calls, const Label& label) {
    const auto stream = stream_of(calls.front());
    check_stream(calls.front(), label);
    if (!own_) {
        parts_.device->use();
        auto priority = 0;  // the default priority, which is the lowest
        if (parts_.high_priority)
            cuda_.check(cuda_.priority_range(nullptr, &priority), "cudaDeviceGetStreamPriorityRange");
        cuda_.check(cuda_.stream_create(&own_, cudaStreamNonBlocking, priority),
                    "cudaStreamCreateWithPriority");
        cuda_.check(cuda_.event_create(&ready_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    }
    if (!stream) parts_.device->use();
    cuda_.check(cuda_.event_record(ready_, stream), "cudaEventRecord");
    cuda_.check(cuda_.stream_wait(own_, ready_, 0), "cudaStreamWaitEvent");
    auto& work = launch(calls, label, own_);
    const auto lock = std::lock_guard(mutex_);
    publish(work, calls, label, true);
    return work.ticket;
}

/// Enqueues calls on a stream; the work has no ticket yet.
NcclChannel::Work& NcclChannel::launch(std::span<const Call> calls, const Label& label, cudaStream_t stream) {
    auto& work = fresh();
    try {
        for (const auto& call : calls) {
            check_nccl(call, label, group_.group_rank);
            check_memory(call, label);
        }
    } catch (...) {
        const auto lock = std::lock_guard(mutex_);
        free_.push_back(&work);
        throw;
    }
    parts_.device->use();  // NCCL uses the current device, and a null stream is that device's default stream
    if (latest_ && last_ != stream)
        cuda_.check(cuda_.stream_wait(stream, latest_->over, 0), "cudaStreamWaitEvent");
    try {
        auto scratch = Scratch();
        const auto enqueue_all = [&](ncclComm_t) {
            const auto alone = std::lock_guard(parts_.device->enqueuing());
            return enqueue(calls, group_, stream, scratch);
        };
        if (const auto result = parts_.comm ? parts_.comm->call(enqueue_all) : enqueue_all(nullptr);
            result != ncclSuccess)
            parts_.comm->settle(result, {cat(to_string(calls.front()), " on ", label.text(), " on rank ",
                                             parts_.device->rank),
                                         parts_.timeout, [&] { parts_.host->throw_if_broken(label); }});
        cuda_.check(cuda_.event_record(work.over, stream), "cudaEventRecord");
    } catch (...) {
        work.call = calls.front();
        work.label = &label;
        work.number = next_number(work.call);
        work.timeout = parts_.timeout;
        const auto error = in_other_words(std::current_exception(), work);
        if (parts_.comm) parts_.comm->wait_for_abort(buffers_in_use);
        const auto lock = std::lock_guard(mutex_);
        free_.push_back(&work);
        break_with(error);
        fail(error_);
        std::rethrow_exception(error_);
    }
    last_ = stream;
    latest_ = &work;
    if (parts_.cause) parts_.cause->clear();
    return work;
}

/// Throws UsageError for a stream that cannot be used.
void NcclChannel::check_stream(const Call& call, const Label& label) {
    const auto stream = stream_of(call);
    if (!stream || stream == cudaStreamLegacy) return;
    if (stream == cudaStreamPerThread)
        throw UsageError(
            cat(to_string(call), " on ", label.text(),
                " was called on cudaStreamPerThread, which is another stream on the thread on which "
                "NCCL launches; call it on a stream that the program has created"));
    auto status = cudaStreamCaptureStatusNone;
    if (cuda_.is_capturing(stream, &status) != cudaSuccess) cuda_.last_error();
    if (status != cudaStreamCaptureStatusNone)
        throw UsageError(
            cat(to_string(call), " on ", label.text(),
                " was called on a stream that is being captured, and rankmesh cannot be captured; "
                "call it before the capture begins or after it ends"));
}

/// Throws UsageError for memory that is not the device's.
void NcclChannel::check_memory(const Call& call, const Label& label) {
    const auto used = used_buffers(call, group_.group_rank);
    for (const auto* address : {used.in, used.out}) {
        if (!address) continue;
        // A loop calls with the same buffers each time.
        auto& known = known_[(reinterpret_cast<std::uintptr_t>(address) >> 9) % known_.size()];
        if (known == address) continue;
        // A runtime of another version than the headers writes a larger one: 88 bytes in CUDA 13.5, 24 in 12.
        struct {
            cudaPointerAttributes attributes;
            char more[256];
        } padded = {};
        const auto& attributes = padded.attributes;
        const auto error = cuda_.pointer_attributes(&padded.attributes, address);
        if (error != cudaSuccess) cuda_.last_error();
        if (error != cudaSuccess ||
            (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged))
            throw UsageError(cat(to_string(call), " on ", label.text(),
                                 " was given host memory as that of a device; copy it there, or call it on "
                                 "host()"));
        if (attributes.type == cudaMemoryTypeDevice && attributes.device != parts_.device->number)
            throw UsageError(cat(to_string(call), " on ", label.text(), " was given memory of device ",
                                 attributes.device, "; that of this rank is ", parts_.device->number));
        known = address;
    }
}

/// A new work with an event; throws the channel's error if it has failed.
NcclChannel::Work& NcclChannel::fresh() {
    const auto lock = std::lock_guard(mutex_);
    if (error_) {
        fail(error_);
        std::rethrow_exception(error_);
    }
    if (free_.empty()) reap();
    if (free_.empty()) {
        parts_.device->use();
        auto over = cudaEvent_t{};
        cuda_.check(cuda_.event_create(&over, cudaEventDisableTiming), "cudaEventCreateWithFlags");
        works_.push_back({.ticket = works_.size(), .over = over});
        free_.push_back(&works_.back());
    }
    auto* work = free_.back();
    free_.pop_back();
    *work = {.ticket = work->ticket, .over = work->over};
    return *work;
}

// Under the lock.

void NcclChannel::publish(Work& work, std::span<const Call> calls, const Label& label, bool held) {
    const auto& call = calls.front();
    work.stream = stream_of(call);
    work.call = call;
    work.label = &label;
    work.number = next_number(call);
    for (const auto& each : calls) ++(is_point_to_point(each.operation) ? messages_ : collectives_);
    work.held = held;
    work.flying = true;
    work.error = error_;  // set while the lock was released
    flying_.push_back(&work);
}

void NcclChannel::limit(Work& work, Duration timeout) {
    if (work.until != TimePoint::max()) return;
    work.timeout = timeout;
    work.until = from_now(timeout);
}

void NcclChannel::wait(std::uint64_t ticket, const Label&, Duration timeout) {
    auto& work = works_[ticket];
    auto lock = std::unique_lock(mutex_);
    limit(work, timeout);
    if (!work.error) {
        if (!work.stream) parts_.device->use();
        cuda_.check(cuda_.stream_wait(work.stream, work.over, 0), "cudaStreamWaitEvent");
        return;
    }
    const auto error = work.error;
    release(work);
    lock.unlock();
    let_go(work);
    fail(error);
    std::rethrow_exception(error);
}

void NcclChannel::synchronize(std::uint64_t ticket, const Label&, Duration timeout) {
    auto& work = works_[ticket];
    auto lock = std::unique_lock(mutex_);
    limit(work, timeout);
    for (auto pause = std::chrono::microseconds(0); !work.error && !is_over(work);) {
        if (std::chrono::steady_clock::now() >= work.until) {
            break_with(timeout_of(work));
            break;
        }
        lock.unlock();
        std::this_thread::sleep_for(pause);
        pause = std::min(pause + std::chrono::microseconds(5), std::chrono::microseconds(200));
        lock.lock();
    }
    const auto error = work.error;
    release(work);
    lock.unlock();
    if (!error) return;
    let_go(work);
    fail(error);
    std::rethrow_exception(error);
}

void NcclChannel::throw_if_broken(const Label&) {
    const auto lock = std::lock_guard(mutex_);
    if (error_) std::rethrow_exception(error_);
}

void NcclChannel::leave(std::uint64_t ticket, const Label& label) noexcept {
    auto& work = works_[ticket];
    {
        const auto lock = std::lock_guard(mutex_);
        auto pending = true;
        try {
            pending = !work.error && !is_over(work);
        } catch (...) {  // then it is
        }
        if (pending && parts_.comm) {
            parts_.host->leave();  // which tells the peers
            const auto rank = parts_.device->rank;
            break_with(
                std::make_exception_ptr(PeerLost(cat("rank ", rank, " left by an exception with a pending ",
                                                     to_string(work.call), " on ", label.text()),
                                                 {rank})));
        }
        release(work);
    }
    let_go(work);
}

}  // namespace rankmesh::detail
