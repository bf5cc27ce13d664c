// SPDX-License-Identifier: Apache-2.0
#include "engine/nccl/reaper.hpp"

#include <condition_variable>
#include <deque>
#include <vector>

#include "engine/nccl/comm.hpp"
#include "engine/system.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {

/// The time that the last user of a device waits for peers that still have its communicators.
constexpr auto patience = std::chrono::seconds(10);
/// The time after that until which NCCL must have aborted them.
constexpr auto abort_time = std::chrono::seconds(5);

struct NcclReaper::State {
    explicit State(int device) : device(device) {}

    /// Runs until it is told to end and nothing is left.
    void work();
    bool finalize_the_retired();

    const int device;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Dead> dead;
    std::vector<std::unique_ptr<NcclComm>> arrivals;  // to be retired
    std::vector<void*> memory;                        // to be freed at the end
    bool ending = false;
    std::chrono::steady_clock::time_point until = {};  // for the peers, once it is ending
    bool is_over = false;

    std::vector<std::unique_ptr<NcclComm>> retired;  // the thread's own
};

/// Returns true if none is left.
bool NcclReaper::State::finalize_the_retired() {
    std::erase_if(retired, [](const auto& comm) { return comm->end(); });
    return retired.empty();
}

void NcclReaper::State::work() {
    const auto& libraries = Libraries::get();
    libraries.cuda.set_device(device);
    auto pause = std::chrono::microseconds(10);
    for (auto lock = std::unique_lock(mutex);;) {
        const auto has_news = [this] { return !dead.empty() || !arrivals.empty(); };
        if (!has_news() && retired.empty()) {
            if (ending) break;
            changed.wait(lock, [&] { return ending || has_news(); });
        } else if (!has_news()) {
            changed.wait_for(lock, pause, has_news);
            pause = std::min(2 * pause, std::chrono::microseconds(2000));
        }
        if (has_news()) pause = std::chrono::microseconds(10);
        auto next = Dead{};
        const auto has_one = !dead.empty();
        if (has_one) {
            next = std::move(dead.front());
            dead.pop_front();
        }
        std::ranges::move(arrivals, std::back_inserter(retired));
        arrivals.clear();
        const auto gives_up = ending && std::chrono::steady_clock::now() >= until;
        lock.unlock();
        if (next.comm) libraries.nccl.abort(next.comm);
        if (has_one) next.over.set_value();
        next = {};  // a child that it has, too, is aborted next
        if (!finalize_the_retired() && gives_up) retired.clear();
        lock.lock();
    }
    for (auto* each : memory) libraries.cuda.free(each);  // which may wait: without the lock
    const auto lock = std::lock_guard(mutex);
    is_over = true;
    changed.notify_all();
}

NcclReaper::NcclReaper(int device) : state_(std::make_shared<State>(device)) {}

NcclReaper::~NcclReaper() {
    auto lock = std::unique_lock(state_->mutex);
    if (!state_->memory.empty()) start();
    if (!thread_.joinable()) return;
    state_->ending = true;
    state_->until = from_now(patience);
    state_->changed.notify_all();
    const auto own = thread_.get_id() == std::this_thread::get_id();
    const auto is_over =
        !own && state_->changed.wait_for(lock, patience + abort_time, [this] { return state_->is_over; });
    lock.unlock();
    if (is_over)
        thread_.join();
    else
        thread_.detach();
}

/// Called under the lock.
void NcclReaper::start() {
    if (!thread_.joinable()) thread_ = thread_without_signals([state = state_] { state->work(); });
    state_->changed.notify_all();
}

void NcclReaper::retire(std::unique_ptr<NcclComm> comm) {
    if (!comm) return;
    comm->enter_reaper();
    const auto lock = std::lock_guard(state_->mutex);
    state_->arrivals.push_back(std::move(comm));
    start();
}

void NcclReaper::free_last(void* memory) {
    const auto lock = std::lock_guard(state_->mutex);
    state_->memory.push_back(memory);
}

std::shared_future<void> NcclReaper::abort(Dead dead) {
    if (dead.child) dead.child->enter_reaper();
    auto over = dead.over.get_future().share();
    const auto lock = std::lock_guard(state_->mutex);
    state_->dead.push_back(std::move(dead));
    start();
    return over;
}

}  // namespace rankmesh::detail
