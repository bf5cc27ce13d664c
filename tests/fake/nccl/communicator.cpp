// SPDX-License-Identifier: Apache-2.0
#include "fake/nccl/communicator.hpp"

#include <algorithm>

#include "fake/seen.hpp"

namespace fake_nccl {

std::uint64_t hash(const std::string& parts) {
    auto value = std::uint64_t{14695981039346656037u};
    for (const auto each : parts) value = (value ^ static_cast<unsigned char>(each)) * 1099511628211u;
    return value;
}

void Gate::enter(const char* call, const std::string& where) {
    const auto self = std::this_thread::get_id();
    {
        const auto lock = std::lock_guard(mutex_);
        if (depth_ > 0 && inside_ != self)
            violation(call, " on ", where, " while another thread is inside ", call_,
                      "; hold one lock around every call");
        ++depth_;
        if (depth_ > 1) return;
        inside_ = self;
        call_ = call;
        const auto comes_after_another = last_ != std::thread::id{} && last_ != self;
        last_ = self;
        if (!comes_after_another) return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(setting("FAKE_LAG", 50)));
}

void Gate::leave() {
    const auto lock = std::lock_guard(mutex_);
    --depth_;
}

namespace {
thread_local auto gates = std::vector<std::shared_ptr<Gate>>{};
}

void enter(const std::shared_ptr<Gate>& gate, const char* call, const std::string& where) {
    gate->enter(call, where);
    gates.push_back(gate);
}

std::size_t entered() { return gates.size(); }

void leave_gates(std::size_t kept) {
    for (; gates.size() > kept; gates.pop_back()) gates.back()->leave();
}

std::shared_ptr<Gate> gate_of_device(int device) {
    static auto& mutex = *new std::mutex();
    static auto& all = *new std::map<int, std::shared_ptr<Gate>>();
    const auto lock = std::lock_guard(mutex);
    auto& found = all[device];
    if (!found) found = std::make_shared<Gate>();
    return found;
}

void Communicator::begin_job() {
    ++jobs_;
    linked_ = true;
    set_state(ncclInProgress, {});
}

void Communicator::end_job(ncclResult_t result, const std::string& why) {
    {
        const auto lock = std::lock_guard(mutex_);
        if (result_ == ncclInProgress) {
            result_ = result;
            if (!why.empty()) why_ = why;
        }
    }
    --jobs_;
}

ncclResult_t Communicator::poll() {
    const auto now = state();
    if (now == ncclSuccess) linked_ = false;
    return now;
}

void Communicator::stick(const Failure& failure) {
    if (!is_blocking()) set_state(failure.result, failure.what);
}

ncclResult_t Communicator::state() const {
    {
        const auto lock = std::lock_guard(mutex_);
        if (result_ != ncclSuccess) return result_;
    }
    return connection && used && !revoked && !finalized && failed_rank() >= 0 ? ncclRemoteError : ncclSuccess;
}

void Communicator::set_state(ncclResult_t result, const std::string& why) {
    const auto lock = std::lock_guard(mutex_);
    result_ = result;
    if (!why.empty()) why_ = why;
}

std::string Communicator::last_error() const {
    const auto lock = std::lock_guard(mutex_);
    return why_;
}

int Communicator::failed_rank() const {
    for (int each = 0; each < size(); ++each) {
        const auto peer = connection_rank(each);
        if (connection->has({id, Kind::left, peer, 0})) continue;
        if (connection->has({id, Kind::aborted, peer, 0}) || connection->is_lost(peer)) return each;
    }
    return -1;
}

std::string Communicator::failure() const {
    const auto who = failed_rank();
    const auto aborted = connection->has({id, Kind::aborted, connection_rank(who), 0});
    return text("rank ", who, " of communicator ", name, aborted ? " has aborted it" : " is gone");
}

std::shared_ptr<fake_cuda::Mark> Communicator::tail() const {
    const auto lock = std::lock_guard(mutex_);
    return tail_;
}

void Communicator::set_tail(std::shared_ptr<fake_cuda::Mark> tail) {
    const auto lock = std::lock_guard(mutex_);
    tail_ = std::move(tail);
}

bool Communicator::has_pending_work() const {
    const auto last = tail();
    return last && !last->happened();
}

void Communicator::wait_for_work() const {
    if (const auto last = tail()) last->wait();
}

std::vector<std::string> Communicator::exchange(const std::string& call, const std::string& brought) {
    return exchange(ranks, id, exchanges++, call, brought);
}

std::vector<std::string> Communicator::exchange(const std::vector<int>& among, std::uint64_t under,
                                                std::uint64_t number, const std::string& call,
                                                const std::string& brought) {
    const auto until = out_of_patience();
    for (const auto each : among)
        connection->send(each, under, Kind::exchange, number, {call, brought},
                         [&] { return stop->aborted.load(); });
    auto all = std::vector<std::string>{};
    for (const auto each : among) {
        const auto number_of = std::find(ranks.begin(), ranks.end(), each) - ranks.begin();
        const auto gone = [&] {
            return connection->is_lost(each) || connection->has({id, Kind::aborted, each, 0}) ||
                   connection->has({id, Kind::left, each, 0});
        };
        auto frame = Frame{};
        if (!connection->take({under, Kind::exchange, each, number}, frame, until,
                              [&] { return stop->aborted || gone(); })) {
            if (stop->aborted) throw Failure{ncclInternalError, text(call, ": the communicator was aborted")};
            if (gone())
                throw Failure{ncclRemoteError, text(call, ": rank ", number_of, " of communicator ", name,
                                                    " is gone or has aborted it")};
            violation(call, " on communicator ", name, ": rank ", rank, " waits in vain for rank ", number_of,
                      "; all of its ranks must call it");
        }
        if (frame.about != call)
            violation("communicator ", name, ": rank ", rank, " calls ", call, ", rank ", number_of, " ",
                      frame.about);
        all.push_back(frame.data);
    }
    return all;
}

void Communicator::leave(Kind how) {
    const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    const auto given_up = [&] { return how == Kind::aborted && std::chrono::steady_clock::now() > soon; };
    for (const auto each : ranks)
        if (each != connection->rank()) connection->send(each, id, how, 0, {}, given_up);
    connection->close(id);
}

}  // namespace fake_nccl

/// What a handle points to; it is kept, so that one that is no more can be told.
struct ncclComm {
    std::shared_ptr<fake_nccl::Communicator> live;
};

namespace fake_nccl {
namespace {

struct Handles {
    static Handles& get() {
        static auto& handles = *new Handles();
        return handles;
    }
    std::mutex mutex;
    std::set<ncclComm_t> all = {};
};

const struct Leaks {
    ~Leaks() {
        if (setting("FAKE_LEAKS", 0) == 0) return;
        auto& handles = Handles::get();
        const auto lock = std::lock_guard(handles.mutex);
        auto names = std::string{};
        auto count = 0;
        for (const auto each : handles.all) {
            if (!each->live) continue;
            names += text(count++ > 0 ? ", " : "", each->live->name, " (rank ", each->live->rank, ")");
        }
        if (count > 0) violation(count, " communicators were neither destroyed nor aborted: ", names);
    }
} leaks;

}  // namespace

std::shared_ptr<Communicator> peek(ncclComm_t handle, const char* call) {
    if (!handle) throw Failure{ncclInvalidArgument, text(call, ": the communicator is null")};
    auto& handles = Handles::get();
    const auto lock = std::lock_guard(handles.mutex);
    if (!handles.all.contains(handle)) violation(call, " was given what is no communicator");
    if (!handle->live) violation(call, " was given a communicator that was destroyed or aborted before");
    return handle->live;
}

std::shared_ptr<Communicator> of(ncclComm_t handle, const char* call) {
    auto communicator = peek(handle, call);
    enter(communicator->gate, call, text("communicator ", communicator->name));
    return communicator;
}

void wait_for_others(const Communicator& communicator, const char* call) {
    auto others = std::vector<std::shared_ptr<Communicator>>{};
    {
        auto& handles = Handles::get();
        const auto lock = std::lock_guard(handles.mutex);
        for (const auto each : handles.all)
            if (each->live && each->live.get() != &communicator && each->live->device == communicator.device)
                others.push_back(each->live);
    }
    const auto until = out_of_patience();
    for (const auto& each : others)
        if (const auto tail = each->tail(); tail && !tail->wait_until(until))
            violation(call, " of communicator ", communicator.name,
                      " waits in vain for work of communicator ", each->name, " on the same device");
}

void demand_nothing_in_progress(Communicator& communicator, const char* call) {
    if (communicator.poll() == ncclInProgress)
        throw Failure{ncclInvalidArgument,
                      text("Attempt to use communicator before the previous operation returned ncclSuccess (",
                           call, " on communicator ", communicator.name, ")")};
}

std::shared_ptr<Communicator> ready(ncclComm_t handle, const char* call) {
    fail_where_planted(call);
    auto communicator = of(handle, call);
    demand_nothing_in_progress(*communicator, call);
    const auto state = communicator->state();
    if (state == ncclRemoteError && communicator->last_error().empty())
        throw Failure{state, text(call, ": ", communicator->failure())};
    if (state != ncclSuccess) throw Failure{state, communicator->last_error()};
    if (communicator->stop->aborted)
        violation(call, ": communicator ", communicator->name,
                  " shares its resources (splitShare) with one that was aborted");
    return communicator;
}

void fail_where_planted(const char* call) {
    const auto here = text(call, "@", fake_cuda::current_device());
    if (fake_common::is_planted(call) || fake_common::is_planted(here.c_str()))
        throw Failure{ncclSystemError, text(call, " fails, as FAKE_FAIL says")};
}

ncclComm_t publish(std::shared_ptr<Communicator> communicator) {
    auto& handles = Handles::get();
    const auto lock = std::lock_guard(handles.mutex);
    auto* handle = new ncclComm{std::move(communicator)};
    handles.all.insert(handle);
    return handle;
}

void forget(ncclComm_t handle) {
    auto& handles = Handles::get();
    const auto lock = std::lock_guard(handles.mutex);
    handle->live = nullptr;
}

}  // namespace fake_nccl

bool fake::share(ncclComm_t a, ncclComm_t b) {
    return fake_nccl::peek(a, __func__)->stop == fake_nccl::peek(b, __func__)->stop;
}

ncclConfig_t fake::config(ncclComm_t communicator) { return fake_nccl::peek(communicator, __func__)->config; }
