// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

namespace rankmesh::detail {

/// The pause between two polls: short at first, since most peers arrive soon.
class Pause {
public:
    /// Sleeps after so many turns.
    explicit Pause(int short_turns = 1000) : short_turns_(short_turns) {}
    void operator()() {
        if (++turns_ < short_turns_)
            std::this_thread::yield();
        else
            std::this_thread::sleep_for(std::chrono::microseconds(50));
    }

private:
    const int short_turns_;
    int turns_ = 0;
};

}  // namespace rankmesh::detail
