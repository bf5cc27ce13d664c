// SPDX-License-Identifier: Apache-2.0
#include "engine/mpi/channel.hpp"

#include <array>
#include <cstdio>
#include <map>
#include <mutex>
#include <utility>

#include "engine/combine.hpp"
#include "engine/diagnosis/failure.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

/// The channels of this process, by which MPI's error handler finds them.
class Channels {
public:
    static Channels& of_process() {
        static auto& channels = *new Channels;  // which MPI may outlive
        return channels;
    }
    void add(MPI_Comm comm, MpiChannel& channel) {
        const auto lock = std::lock_guard(mutex_);
        channels_[comm] = &channel;
    }
    void remove(MPI_Comm comm) {
        const auto lock = std::lock_guard(mutex_);
        channels_.erase(comm);
    }
    MpiChannel* find(MPI_Comm comm) {
        const auto lock = std::lock_guard(mutex_);
        const auto found = channels_.find(comm);
        return found == channels_.end() ? nullptr : found->second;
    }

private:
    std::mutex mutex_;
    std::map<MPI_Comm, MpiChannel*> channels_;
};

std::string text_of_error(int code) {
    auto text = std::array<char, MPI_MAX_ERROR_STRING>{};
    auto length = 0;
    MPI_Error_string(code, text.data(), &length);
    return {text.data(), static_cast<std::size_t>(length)};
}

extern "C" void rankmesh_on_mpi_error(MPI_Comm* comm, int* code, ...) {
    if (ReturnsErrors::in_effect()) return;
    if (const auto* channel = Channels::of_process().find(*comm)) return channel->on_error(*code);
    std::fprintf(stderr, "rankmesh: MPI reports an error outside its calls: %s\n",
                 text_of_error(*code).c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/// True for the error of a message that is longer than what receives it.
bool is_truncation(int code) {
    auto kind = MPI_SUCCESS;
    MPI_Error_class(code, &kind);
    return kind == MPI_ERR_TRUNCATE;
}

}  // namespace

MpiChannel::MpiChannel(std::shared_ptr<Runtime> runtime, std::shared_ptr<PeerQuery> world, MPI_Comm comm,
                       std::uint64_t key, std::shared_ptr<const Label> label,
                       std::shared_ptr<Recorder> recorder, std::shared_ptr<Cause> cause)
    : runtime_(std::move(runtime)),
      cause_(std::move(cause)),
      comm_(comm),
      label_(std::move(label)),
      watched_call_(key, std::move(world), std::move(recorder)) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    Channels::of_process().add(comm_, *this);
    auto handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_create_errhandler(rankmesh_on_mpi_error, &handler);
    MPI_Comm_set_errhandler(comm_, handler);
    if (runtime_->has_initialised()) MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Errhandler_free(&handler);
    runtime_->watchdog().add(watched_call_);
}

MpiChannel::~MpiChannel() {
    runtime_->watchdog().remove(watched_call_);
    const auto comm = comm_;
    if (runtime_->is_usable() && !is_littered()) MPI_Comm_free(&comm_);
    Channels::of_process().remove(comm);
}

/// True if unreceived messages may be pending on the communicator: then it is never freed, since MPICH
/// delivers them to the next one that gets the same context id.
bool MpiChannel::is_littered() const {
    auto flag = 0;
    if (!abandoned_) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &flag, MPI_STATUS_IGNORE);
    return abandoned_ || flag != 0;
}

/// Throws Disagreement before data moves if ranks have called something else, where that is looked at.
void MpiChannel::compare(const Call& call, std::uint64_t number, const Label& label) {
    const auto own = comparison_.note(call, number, false, rank_);
    if (!own) return;
    auto sides = Comparison::Sides();
    auto request = MPI_REQUEST_NULL;
    Comparison::post(*own, comm_, sides, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    Comparison::check(sides, number, label);
}

/// Throws Disagreement if ranks have called something else than what was started. The data is under way by
/// then, and MPI cannot cancel it: if it does not arrive, that ends the job.
void MpiChannel::await_comparisons(Slot& slot, const Label& label) {
    for (std::size_t i = 0; i < slot.calls; ++i) {
        auto& started = slot.started[i];
        if (!started.comparison) continue;
        const auto returns = ReturnsErrors();  // of the data, of which more is said below
        if (!slot.complete) MPI_Wait(&slot.requests[*started.comparison], MPI_STATUS_IGNORE);
        try {
            Comparison::check(started.sides, started.number, label);
        } catch (const Disagreement& error) {
            constexpr auto to_arrive = std::chrono::milliseconds(200);
            const auto until = from_now(to_arrive);
            auto arrived = slot.complete ? 1 : 0;
            while (arrived == 0 && std::chrono::steady_clock::now() < until)
                MPI_Testall(static_cast<int>(slot.requests.size()), slot.requests.data(), &arrived,
                            MPI_STATUSES_IGNORE);
            if (arrived == 0) runtime_->abort(cat(error.what(), "; MPI cannot cancel the started call"));
            slot.taken = false;
            throw;
        }
    }
}

std::size_t MpiChannel::free_slot() {
    auto ticket = std::size_t{0};
    while (ticket < slots_.size() && slots_[ticket]->taken) ++ticket;
    if (ticket == slots_.size()) slots_.push_back(std::make_unique<Slot>());
    auto& slot = *slots_[ticket];
    slot.taken = true;
    slot.requests.clear();
    slot.receives.clear();
    slot.complete = false;
    slot.calls = 0;
    return ticket;
}

void MpiChannel::run(const Call& call, const Label& label, Duration timeout) {
    if (!is_one_call(call)) return wait(start({&call, 1}, label), label, timeout);
    runtime_->check_thread();
    cause_->clear();
    const auto number = number_of(call, false);
    const auto watched = WhileWatched(watched_call_, call, label, timeout, number);
    if (!is_point_to_point(call.operation)) compare(call, number, label);
    run_now(call, number, label);
}

std::uint64_t MpiChannel::start(std::span<const Call> calls, const Label&) {
    runtime_->check_thread();
    cause_->clear();
    const auto ticket = free_slot();
    auto& slot = *slots_[ticket];
    for (const auto& call : calls) {
        if (slot.calls == slot.started.size()) slot.started.emplace_back();
        auto& started = slot.started[slot.calls++];
        started.call = call;
        started.number = number_of(call, true);
        const auto own = is_point_to_point(call.operation)
                             ? std::nullopt
                             : comparison_.note(call, started.number, true, rank_);
        started.comparison = own ? std::optional(slot.requests.size()) : std::nullopt;
        if (own) Comparison::post(*own, comm_, started.sides, &slot.requests.emplace_back(MPI_REQUEST_NULL));
        post(started, slot);
    }
    return ticket;
}

/// Tests until all is complete; false if it was interrupted before.
bool MpiChannel::completes(std::uint64_t ticket, const std::function<bool()>& is_interrupted) {
    auto look = from_now(between_looks);
    for (auto pause = Pause(); !done(ticket); pause()) {
        if (std::chrono::steady_clock::now() < look) continue;
        if (is_interrupted()) return false;
        look = from_now(between_looks);
    }
    return true;
}

bool MpiChannel::wait_for(std::uint64_t ticket, const Label& label, Duration timeout,
                          const Purpose& purpose) {
    runtime_->check_thread();
    auto& slot = *slots_[static_cast<std::size_t>(ticket)];
    const auto& first = slot.started.front();
    if (first.call.operation == Operation::monitored_barrier) return monitor(slot, label, timeout), true;
    if (passed_before > Duration{}) [[unlikely]]
        watched_call_.has_passed(passed_before);
    const auto watched = WhileWatched(watched_call_, first.call, label, timeout, first.number, purpose);
    if (purpose.is_interrupted && !completes(ticket, purpose.is_interrupted)) return false;
    await_comparisons(slot, label);
    complete(slot);
    for (std::size_t i = 0; i < slot.calls; ++i) {
        const auto& call = slot.started[i].call;
        if (!reduces(call.operation)) continue;
        if (needs_all(call.reduction))
            finish_gathering(slot.started[i]);
        else
            finish(call);
    }
    slot.taken = false;
    check_lengths(slot, label);
    return true;
}

void MpiChannel::complete(Slot& slot) {
    if (slot.complete) return;
    const auto n = slot.requests.size();
    auto* statuses = statuses_of(slot);
    const auto returns = ReturnsErrors(statuses != MPI_STATUSES_IGNORE);
    if (statuses != MPI_STATUSES_IGNORE) {  // one by one, since each has an error of its own
        for (std::size_t i = 0; i < n; ++i)
            if (slot.requests[i] != MPI_REQUEST_NULL)
                statuses[i].MPI_ERROR = MPI_Wait(&slot.requests[i], &statuses[i]);
    } else if (n == 1) {
        MPI_Wait(slot.requests.data(), MPI_STATUS_IGNORE);  // is cheaper for one request
    } else {
        MPI_Waitall(static_cast<int>(n), slot.requests.data(), MPI_STATUSES_IGNORE);
    }
    slot.complete = true;
}

/// Where the statuses of the requests go: only what is received has one that matters.
MPI_Status* MpiChannel::statuses_of(Slot& slot) {
    slot.statuses.resize(slot.receives.empty() ? 0 : slot.requests.size());
    return slot.receives.empty() ? MPI_STATUSES_IGNORE : slot.statuses.data();
}

void MpiChannel::check_lengths(const Slot& slot, const Label& label) {
    for (const auto& receive : slot.receives) {
        const auto& started = slot.started[receive.call];
        const auto& status = slot.statuses[receive.request];
        const auto from = receive.from == any_source ? status.MPI_SOURCE : receive.from;
        check_length(started.call, started.number, label, status, status.MPI_ERROR, receive.count, from);
        if (receive.from == any_source) set_sender(from);
    }
}

std::optional<Message> MpiChannel::probe(const Call& call, const Label& label,
                                         std::optional<Duration> timeout) {
    runtime_->check_thread();
    auto status = MPI_Status{};
    auto found = 1;
    if (timeout) {
        const auto watched = WhileWatched(watched_call_, call, label, *timeout, number_of(call, false));
        MPI_Probe(source_of(call), message_tag(call), comm_, &status);
    } else {
        MPI_Iprobe(source_of(call), message_tag(call), comm_, &found, &status);
    }
    if (found == 0) return std::nullopt;
    auto bytes = MPI_Count{0};
    MPI_Get_elements_x(&status, MPI_BYTE, &bytes);
    return Message{status.MPI_SOURCE, static_cast<std::size_t>(bytes)};
}

/// Throws Disagreement unless a message that was received is as long as expected; `code` is what MPI has
/// returned for it.
void MpiChannel::check_length(const Call& call, std::uint64_t number, const Label& label,
                              const MPI_Status& status, int code, std::size_t expected, int from) const {
    if (from < 0) return;
    auto count = 0;
    if (code == MPI_SUCCESS) {
        if (expected > mpi_count_limit) return;
        MPI_Get_count(&status, type_of(call.dtype), &count);
        if (count == static_cast<int>(expected)) return;
    } else if (is_truncation(code)) {
#ifndef MPICH_VERSION  // whose status then counts what any message before it was
        MPI_Get_count(&status, type_of(call.dtype), &count);
#endif
    } else {
        throw EngineFailure(cat(numbered(call, number, &label.ranks), " on ", label.text_with_group(),
                                ": MPI reports: ", text_of_error(code)));
    }
    const auto text = [&](std::size_t elements) {
        return elements_text(elements, call.dtype, elements % call.unit == 0 ? call.unit : 1);
    };
    const auto is_known =
        code == MPI_SUCCESS || count > static_cast<int>(std::min(expected, mpi_count_limit));
    const auto ranks = std::pair(label.ranks[from], label.ranks[rank_]);
    throw Disagreement(cat(numbered(call, number, &label.ranks), " on ", label.text_with_group(), ": ",
                           label.named({ranks.first}), " has sent ",
                           is_known ? text(static_cast<std::size_t>(count)) : "more", " to ",
                           label.named({ranks.second}), ", which receives ", text(expected)),
                       {std::min(ranks.first, ranks.second), std::max(ranks.first, ranks.second)});
}

void MpiChannel::on_error(int code) const noexcept {
    auto name = std::array<char, MPI_MAX_OBJECT_NAME>{};
    auto length = 0;
    MPI_Comm_get_name(comm_, name.data(), &length);
    const auto call = watched_call_.described();
    runtime_->abort(cat("MPI reports an error", call.empty() ? "" : " in ", call, " on communicator ",
                        name.data(), ": ", text_of_error(code),
                        "; the ranks of a group may have called different things, which checked mode "
                        "(RANKMESH_CHECK=1) says"));
}

void MpiChannel::monitor(Slot& slot, const Label& label, Duration timeout) {
    // The operation checks its own timeout; the watchdog only answers peers' queries about it.
    const auto watched = WhileWatched(watched_call_, slot.started.front().call, label, Duration::max(),
                                      slot.started.front().number);
    slot.taken = false;
    try {
        await_arrivals(comm_, slot.requests, label, timeout);
    } catch (const Timeout&) {
        abandoned_ = true;
        fail(std::current_exception());
        throw;
    }
}

bool MpiChannel::done(std::uint64_t ticket) {
    runtime_->check_thread();
    auto& slot = *slots_[static_cast<std::size_t>(ticket)];
    if (slot.started.front().call.operation == Operation::monitored_barrier)
        return all_arrived(comm_, slot.requests);
    if (slot.complete) return true;
    for (std::size_t i = 0; i < slot.calls; ++i) {
        auto& started = slot.started[i];
        auto flag = 0;
        if (started.comparison) MPI_Test(&slot.requests[*started.comparison], &flag, MPI_STATUS_IGNORE);
        if (flag != 0 && started.sides.differ()) return true;  // as its wait says
    }
    auto* statuses = statuses_of(slot);
    if (statuses == MPI_STATUSES_IGNORE) {
        auto flag = 0;
        MPI_Testall(static_cast<int>(slot.requests.size()), slot.requests.data(), &flag, statuses);
        slot.complete = flag != 0;
        return slot.complete;
    }
    const auto returns = ReturnsErrors();
    slot.complete = true;
    for (std::size_t i = 0; i < slot.requests.size(); ++i) {
        if (slot.requests[i] == MPI_REQUEST_NULL) continue;  // it has completed
        auto flag = 0;
        const auto code = MPI_Test(&slot.requests[i], &flag, &statuses[i]);
        statuses[i].MPI_ERROR = code;
        if (flag == 0 && code == MPI_SUCCESS) slot.complete = false;
    }
    return slot.complete;
}

void MpiChannel::leave(std::uint64_t ticket, const Label& label) noexcept {
    // MPI may still write into buffers that are about to be destroyed, and cannot cancel a collective.
    const auto rank = label.ranks[rank_];
    const auto& call = slots_[static_cast<std::size_t>(ticket)]->started.front().call;
    runtime_->abort(cause_
                        ->of_leaving(rank, cat(label.named({rank}), " left by an exception with a pending ",
                                               to_string(call), " on ", label.text()))
                        .why);
}

void MpiChannel::leave() noexcept { runtime_->leave_by_exception(); }

}  // namespace rankmesh::detail
