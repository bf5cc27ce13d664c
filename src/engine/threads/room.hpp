// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/channel.hpp"

namespace rankmesh::detail {

/// Where the ranks of one group meet: each posts its call, the last one does the work of all under the lock.
///
/// Written to be read: the room is the reference that every other engine is compared with.
class Room {
public:
    explicit Room(std::vector<int> ranks);

    const std::vector<int>& ranks() const { return ranks_; }

    /// Posts the next call of the member at `position`; the number counts that member's calls.
    std::uint64_t post(int position, const Call& call, const Label& label);
    /// Returns once call `number` is complete; throws Deadline, Lost, or Disagreement if the calls do not
    /// match.
    void wait(int position, std::uint64_t number, const Label& label, Duration deadline);
    bool done(std::uint64_t number);
    /// Takes the buffers of call `number` back, poisoning the room if the call was not complete.
    void withdraw(int position, std::uint64_t number, const Label& label) noexcept;
    /// Makes every present and later call of every member throw Lost.
    void poison(int rank, const std::string& why) noexcept;

private:
    struct Round {
        std::vector<std::optional<Call>> calls;  // by position
        int posted = 0;
        int collected = 0;
        bool done = false;
        std::string disagreement;
        std::vector<int> odd_ranks;
    };
    struct Poison {
        std::string why;
        std::vector<int> lost;     // left by exception, or
        std::vector<int> arrived;  // a deadline passed
        std::vector<int> missing;
    };

    Round& round(std::uint64_t number) { return rounds_[static_cast<std::size_t>(number - first_)]; }
    void perform(Round& round);
    /// One member more has its result; rounds that all members have are forgotten.
    void collect(Round& round);
    void compare(Round& round, const Label& label);
    [[noreturn]] void throw_poison(const Label& label) const;

    std::mutex mutex_;
    std::condition_variable changed_;
    const std::vector<int> ranks_;
    std::vector<std::uint64_t> next_;  // by position: the number of its next call
    std::deque<Round> rounds_;
    std::uint64_t first_ = 0;  // the number of rounds_.front()
    std::optional<Poison> poison_;
};

}  // namespace rankmesh::detail
