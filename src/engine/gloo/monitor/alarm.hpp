// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <thread>
#include <vector>

#include "engine/fork.hpp"

namespace rankmesh::detail {

using TimePoint = std::chrono::steady_clock::time_point;

class Alarm;

/// The thread of this process that runs the callbacks of alarms.
class AlarmClock final : public OfOneProcess {
public:
    /// The clock of this process; it ends with its last user.
    static std::shared_ptr<AlarmClock> of_process();
    AlarmClock() : thread_([this] { run(); }) {}
    ~AlarmClock() override;

private:
    friend class Alarm;
    void run();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Alarm*> alarms_;
    const Alarm* ringing_ = nullptr;
    TimePoint wakes_ = TimePoint::max();
    bool stopping_ = false;
    std::thread thread_;
};

/// Calls a function at a set time, on the clock's thread: the function must be short.
class Alarm {
public:
    Alarm(std::shared_ptr<AlarmClock> clock, std::function<void()> ring)
        : clock_(std::move(clock)), ring_(std::move(ring)) {
        const auto lock = std::lock_guard(clock_->mutex_);
        clock_->alarms_.push_back(this);
    }
    ~Alarm() {
        auto lock = std::unique_lock(clock_->mutex_);
        std::erase(clock_->alarms_, this);
        clock_->changed_.wait(lock, [this] { return clock_->ringing_ != this; });
    }
    Alarm& operator=(Alarm&&) = delete;

    /// Calls it once at `at`, and no longer at the time set before.
    void set(TimePoint at) {
        const auto lock = std::lock_guard(clock_->mutex_);
        at_ = at;
        if (at < clock_->wakes_) clock_->changed_.notify_all();
    }
    void clear() { set(TimePoint::max()); }

private:
    friend class AlarmClock;
    const std::shared_ptr<AlarmClock> clock_;
    const std::function<void()> ring_;
    TimePoint at_ = TimePoint::max();
};

}  // namespace rankmesh::detail
