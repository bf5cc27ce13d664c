// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
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
    AlarmClock();
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
    Alarm(std::shared_ptr<AlarmClock> clock, std::function<void()> ring);
    ~Alarm();
    Alarm(const Alarm&) = delete;
    Alarm& operator=(const Alarm&) = delete;

    /// Calls it once at `at`, and no longer at the time set before.
    void set(TimePoint at);
    void clear() { set(TimePoint::max()); }

private:
    friend class AlarmClock;
    const std::shared_ptr<AlarmClock> clock_;
    const std::function<void()> ring_;
    TimePoint at_ = TimePoint::max();
};

}  // namespace rankmesh::detail
