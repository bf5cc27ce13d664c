// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/monitor/alarm.hpp"

#include <algorithm>

namespace rankmesh::detail {

std::shared_ptr<AlarmClock> AlarmClock::of_process() {
    static std::weak_ptr<AlarmClock> running;
    const auto lock = std::lock_guard(process_mutex());
    auto clock = running.lock();
    // A child that a process forks has that process's clock, but not its thread.
    if (!clock || clock->is_foreign()) running = clock = std::make_shared<AlarmClock>();
    return clock;
}

AlarmClock::~AlarmClock() {
    {
        const auto lock = std::lock_guard(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void AlarmClock::run() {
    auto lock = std::unique_lock(mutex_);
    while (!stopping_) {
        const auto next = std::ranges::min_element(alarms_, {}, &Alarm::at_);
        wakes_ = next == alarms_.end() ? TimePoint::max() : (*next)->at_;
        if (wakes_ == TimePoint::max()) {
            changed_.wait(lock);
            continue;
        }
        if (std::chrono::steady_clock::now() < wakes_) {
            changed_.wait_until(lock, wakes_);
            continue;
        }
        auto& alarm = **next;
        alarm.at_ = TimePoint::max();
        ringing_ = &alarm;
        lock.unlock();
        alarm.ring_();
        lock.lock();
        ringing_ = nullptr;
        changed_.notify_all();
    }
}

}  // namespace rankmesh::detail
