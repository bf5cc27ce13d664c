// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/channel.hpp"
#include "engine/diagnosis/failure.hpp"
#include "engine/gloo/monitor/alarm.hpp"
#include "engine/gloo/monitor/call_history.hpp"
#include "engine/gloo/transport/connections.hpp"
#include "engine/hosts/local_processes.hpp"
#include "engine/record/recorder.hpp"

namespace rankmesh::detail {

/// The ranks of a world whose connections to this process broke without a goodbye: as far as it can tell,
/// their processes have ended.
class Ended {
public:
    explicit Ended(std::shared_ptr<const LocalProcesses> processes) : processes_(std::move(processes)) {}
    void add(const std::vector<int>& ranks) {
        const auto lock = std::lock_guard(mutex_);
        ranks_.insert(ranks_.end(), ranks.begin(), ranks.end());
    }
    std::vector<int> ranks() const {
        const auto lock = std::lock_guard(mutex_);
        return ranks_;
    }

    const LocalProcesses& processes() const { return *processes_; }

private:
    const std::shared_ptr<const LocalProcesses> processes_;
    mutable std::mutex mutex_;
    std::vector<int> ranks_;
};

/// Exchanges control messages between the ranks of a channel, on a thread of its own: what each has called
/// when a call takes long, which ranks have arrived at one whose timeout expires, that a rank leaves, and why
/// the channel failed.
///
/// A peer whose connection breaks without a goodbye is gone. The first failure stands; it is sent to all
/// others before their connections are cut, so that every rank gives the same reason.
class PeerMonitor {
public:
    /// Ranks that are gone are added to `ended`; peers that wait for this rank are told what `recorder` has.
    /// Throws Connections::Unreachable for one that is gone already.
    PeerMonitor(std::shared_ptr<Connections> connections, std::vector<int> ranks,
                std::shared_ptr<Ended> ended, std::shared_ptr<Recorder> recorder);
    /// Sends a goodbye to all peers, unless the channel has failed.
    ~PeerMonitor();

    /// The call that is being waited for, as answers to peers and the error of an expired timeout name it.
    struct Waiting {
        const Call* call = nullptr;
        const Label* label = nullptr;
        std::uint64_t number = 0;  // of the collective or message
        int awaited = -1;          // the group rank that a message waits for, else -1
        Duration timeout = {};
    };
    /// Starts the timeout of a call; the caller waits for it, and calls `arrive` when it is complete.
    void wait_for(const Waiting& waiting);
    void await(int group_rank);
    void arrive();
    /// Notes the next collective that this rank calls, and its number; returns the mark of its data.
    std::uint64_t called(const Call& call, std::uint64_t number);
    /// The same for a message to or from a group rank.
    std::uint64_t called(CallHistory::Kind kind, int peer, const Call& call);

    /// What the other ranks say of another channel of theirs, recorded as `key`, by group rank: whether they
    /// have called its collective of that number, and what they do. Waits a while for their answers.
    std::vector<Channel::PeerStatus> ask(const std::string& key, std::uint64_t number);

    bool is_broken() const { return broken_.load(std::memory_order_acquire); }
    /// Makes the channel unusable on all its ranks, unless it is already.
    void fail(Failure failure) noexcept;
    /// Finds the failure behind an operation that threw `text`: that of a peer, if one arrives soon, else its
    /// own.
    void explain(const std::string& text) noexcept;
    /// Throws the failure as an error on the group of `label`; called once there is one.
    [[noreturn]] void throw_failure(const Label& label) const;
    std::optional<Failure> failure() const;
    /// A line about the call that is being waited for, "" without one, for the terminate handler.
    std::string terminate_report() const;
    /// Blocks until `condition` holds; it is evaluated after each `change` and when there is a failure.
    template <class Condition>
    void wait(Condition&& condition) {
        auto lock = std::unique_lock(mutex_);
        changed_.wait(lock, condition);
    }
    /// Runs `change` under the lock and wakes all that wait for a condition.
    template <class Change>
    auto change(Change&& change) {
        const auto lock = std::lock_guard(mutex_);
        changed_.notify_all();
        return change();
    }

private:
    struct Message;
    enum class MessageKind : std::uint32_t {
        question,
        answer,
        failure,
        goodbye,
        compare,     // the text lists what the sender has called
        difference,  // the receiver has called something else
        which,       // what was called as that number
        that,
        inquiry,  // about a channel of devices
        reply
    };

    void listen();
    void hear_goodbyes();
    void note_gone(int from);
    void receive_message(int from, const Message& message);
    bool take_messages();
    void find_lost(const std::string& text);
    void find_who_left();
    bool compare_calls();
    void compare_with(int from, const Message& message);
    void hear_difference(int from, const Message& message);
    void tell_which(int from, std::uint64_t number);
    void hear_which(int from, const Message& message);
    void settle_dispute();
    void hear_inquiry(int from, const Message& message);
    void hear_reply(int from, const Message& message);
    void look_at_timeout();
    void conclude();
    Channel::PeerStatus silence_of(std::size_t peer) const;
    void expect(int from);
    bool send_message(int to, MessageKind kind, std::uint64_t number, std::uint32_t yes,
                      const std::string& text) noexcept;
    void send_failure() noexcept;
    void hear_failures() noexcept;
    void send_goodbye() noexcept;
    void wake() noexcept;
    Message& inbox(int from) const;
    bool has_message(int from) const;
    int size() const { return static_cast<int>(ranks_.size()); }

    const std::shared_ptr<Connections> connections_;
    const std::vector<int> ranks_;
    const std::shared_ptr<Ended> ended_;
    const std::shared_ptr<Recorder> recorder_;
    const int group_rank_;

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<Failure> failure_;
    std::atomic<bool> broken_ = false;
    std::atomic<std::uint64_t> collectives_ = 0;
    std::optional<Waiting> waiting_;
    std::uint64_t turns_ = 0;  // the number of waits so far
    TimePoint until_;          // when the timeout of the wait expires
    CallHistory history_;
    std::uint64_t inquiry_ = 0;                                // the number of the last
    std::vector<std::optional<Channel::PeerStatus>> replies_;  // to it, by group rank
    Duration compare_after_;
    TimePoint compare_at_ = TimePoint::max();  // when calls are compared with those of peers

    /// A collective that ranks have called differently, and what each has called, "" if it has not called it.
    struct Dispute {
        std::uint64_t number = 0;
        std::vector<std::optional<std::string>> texts = {};  // by group rank
        bool of_two = false;                                 // of counts, which only two ranks must agree on
        TimePoint until = TimePoint::max();
    };

    // Used by the monitor's thread alone.
    const Label* compared_ = nullptr;  // of the call whose wait compared calls last
    std::optional<Dispute> dispute_;
    std::unique_ptr<Message[]> inbox_;
    std::vector<std::uint64_t> received_count_;  // the number of messages, by group rank
    std::vector<std::atomic<bool>> gone_;        // ranks that have sent a goodbye
    std::vector<std::atomic<bool>> failed_;      // ranks that have told a failure
    std::vector<std::uint64_t> calls_of_gone_;   // how many collectives each of them has called, set before
    std::atomic<std::uint64_t> fewest_calls_of_gone_ = std::numeric_limits<std::uint64_t>::max();
    std::optional<std::uint64_t> asked_;  // the wait for which peers were asked
    std::uint64_t question_ = 0;          // the call number of the question
    std::vector<char> answered_;          // by group rank: 0 not yet, 1 has not arrived, 2 has arrived
    std::vector<std::string> doing_;      // by group rank: what it does, of those that have not arrived
    TimePoint patience_ = TimePoint::max();

    std::mutex asking_;  // held during an inquiry

    struct Sent;
    std::mutex sending_;
    std::vector<std::unique_ptr<Sent>> sent_;
    std::vector<std::uint64_t> sent_count_;  // the number of messages, by group rank

    std::unique_ptr<::gloo::transport::UnboundBuffer> listening_;
    std::atomic<bool> leaving_ = false;   // from when this rank says goodbye
    std::atomic<bool> stopping_ = false;  // from when it has said it to all
    Alarm alarm_;
    Alarm second_;
    std::atomic<std::thread::id> listener_ = {};
    std::thread thread_;
};

}  // namespace rankmesh::detail
