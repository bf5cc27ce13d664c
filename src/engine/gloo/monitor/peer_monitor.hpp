// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/channel.hpp"
#include "engine/gloo/monitor/alarm.hpp"
#include "engine/gloo/monitor/ended.hpp"
#include "engine/gloo/monitor/failure.hpp"
#include "engine/gloo/transport/connections.hpp"

namespace rankmesh::detail {

/// What members of a channel tell each other beside its data, on a thread of its own: who has come to a call
/// whose timeout expires, that a member leaves, and why the channel is broken.
///
/// A member whose connection breaks without a word is gone. The first failure stands; it is told to all
/// others before their connections are cut, so that every member gives the same reason.
class PeerMonitor {
public:
    /// `ended` hears of members that are gone.
    PeerMonitor(std::shared_ptr<Connections> connections, std::vector<int> ranks,
                std::shared_ptr<Ended> ended);
    /// Says goodbye, unless there is a failure.
    ~PeerMonitor();

    /// What is being waited for: told to those who ask, and in an expired timeout.
    struct Waiting {
        const Call* call = nullptr;
        const Label* label = nullptr;
        std::uint64_t number = 0;  // of the collective or message
        int awaited = -1;          // the group rank that a message waits for, else -1
        Duration timeout = {};
    };
    /// From here the timeout runs; the caller waits, and calls `arrive` when that has ended.
    void wait_for(const Waiting& waiting);
    void await(int group_rank);
    void arrive();
    /// This member has called so many collectives.
    void calls(std::uint64_t collectives) { collectives_.store(collectives, std::memory_order_release); }

    bool is_broken() const { return broken_.load(std::memory_order_acquire); }
    /// Makes the channel unusable for all members, unless it is already.
    void fail(Failure failure) noexcept;
    /// Why an operation failed that threw `text`: soon known, if a peer is gone or has given a failure.
    void explain(const std::string& text) noexcept;
    /// Throws what the failure says, in the words of a label; called once there is one.
    [[noreturn]] void throw_failure(const Label& label) const;
    /// A line that says what is being waited for, "" while nothing is; for when the process ends.
    std::string terminate_report() const;
    /// Blocks until `condition` holds, which is looked at whenever `changed` was called or there is a
    /// failure.
    template <class Condition>
    void wait(Condition&& condition) {
        auto lock = std::unique_lock(mutex_);
        changed_.wait(lock, condition);
    }
    /// Changes what conditions look at.
    template <class Change>
    auto change(Change&& change) {
        const auto lock = std::lock_guard(mutex_);
        changed_.notify_all();
        return change();
    }

private:
    struct Message;
    enum class MessageKind : std::uint32_t { question, answer, failure, goodbye, probe };

    void listen();
    void hear(int from, const Message& message);
    bool take_messages();
    void find_lost(const std::string& text);
    void look_at_timeout();
    void conclude();
    void expect(int from);
    bool tell(int to, MessageKind kind, std::uint64_t number, std::uint32_t yes,
              const std::string& text) noexcept;
    void send_failure() noexcept;
    void send_goodbye() noexcept;
    void wake() noexcept;
    Message& inbox(int from) const;
    int size() const { return static_cast<int>(ranks_.size()); }

    const std::shared_ptr<Connections> connections_;
    const std::vector<int> ranks_;
    const std::shared_ptr<Ended> ended_;
    const int group_rank_;

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<Failure> failure_;
    std::atomic<bool> broken_ = false;
    std::atomic<std::uint64_t> collectives_ = 0;
    std::optional<Waiting> waiting_;
    std::uint64_t turns_ = 0;  // how often was waited
    TimePoint until_;          // the timeout of what is waited for

    // Of the thread that listens.
    std::unique_ptr<Message[]> inbox_;
    std::vector<std::uint64_t> heard_;     // how many messages, by member
    std::vector<std::atomic<bool>> gone_;  // members that have said goodbye
    std::optional<std::uint64_t> asked_;   // the turn whose members were asked
    std::uint64_t question_ = 0;           // the number that they were asked for
    std::vector<char> answered_;           // by member: 0 not yet, 1 not there, 2 there
    TimePoint patience_ = TimePoint::max();

    struct Sent;
    std::mutex sending_;
    std::vector<std::unique_ptr<Sent>> sent_;
    std::vector<std::uint64_t> told_;  // how many messages, by member

    std::unique_ptr<::gloo::transport::UnboundBuffer> listening_;
    std::atomic<bool> stopping_ = false;
    Alarm alarm_;
    Alarm second_;
    std::thread thread_;
};

}  // namespace rankmesh::detail
