// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace support {

/// Ranks that make no call, and have not returned, until those that wait for them have ended.
class Absent {
public:
    /// Makes the calls that wait for the absent ranks, and then lets those return.
    template <class Calls>
    void outlast(Calls&& calls) {
        const auto end = End{over_};
        calls();
    }
    void stay() const { over_.wait(false); }

private:
    struct End {
        std::atomic<bool>& over;
        ~End() {
            over = true;
            over.notify_all();
        }
    };
    std::atomic<bool> over_ = false;
};

}  // namespace support
