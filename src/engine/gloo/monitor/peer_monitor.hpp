// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <set>

#include "engine/bell.hpp"
#include "engine/channel.hpp"
#include "engine/diagnosis/failure.hpp"
#include "engine/gloo/monitor/alarm.hpp"
#include "engine/gloo/monitor/call_history.hpp"
#include "engine/gloo/monitor/message_box.hpp"
#include "engine/gloo/transport/connections.hpp"
#include "engine/hosts/local_processes.hpp"
#include "engine/membership/renewal.hpp"
#include "engine/record/recorder.hpp"

namespace rankmesh::detail {

/// The ranks of a world whose connections to this process broke without a goodbye: it assumes that their
/// processes have ended. And the renewal of the world.
class Ended {
public:
    explicit Ended(std::shared_ptr<const LocalProcesses> processes) : processes_(std::move(processes)) {}
    void add(const std::vector<int>& ranks) {
        const auto lock = std::lock_guard(mutex_);
        ranks_.insert(ranks.begin(), ranks.end());
    }
    /// In order.
    std::vector<int> ranks() const {
        const auto lock = std::lock_guard(mutex_);
        return {ranks_.begin(), ranks_.end()};
    }

    const LocalProcesses& processes() const { return *processes_; }
    Renewal renewal;

private:
    const std::shared_ptr<const LocalProcesses> processes_;
    mutable std::mutex mutex_;
    std::set<int> ranks_;
};

/// Exchanges control messages between the ranks of a channel, on a thread of its own:
/// - what each rank has called, when a call takes long;
/// - which ranks have arrived at a call, when its timeout expires;
/// - that a rank leaves;
/// - why the channel failed.
///
/// A peer whose connection breaks without a goodbye is gone. The first failure stands. It is sent to all
/// other ranks before their connections are cut, so every rank gives the same reason.
class PeerMonitor final : private Renewal::Part {
public:
    /// Adds ranks that are gone to `ended`. Peers that wait for this rank get what `recorder` has recorded.
    /// Throws Connections::Unreachable for a peer that is gone already.
    PeerMonitor(std::shared_ptr<Connections> connections, std::vector<int> ranks,
                std::shared_ptr<Ended> ended, std::shared_ptr<Recorder> recorder);
    /// Sends a goodbye to all peers, unless the channel has failed.
    ~PeerMonitor();

    /// The call that this rank waits for, as replies to peers and the error of an expired timeout name it.
    struct Waiting {
        const Call* call = nullptr;
        const Label* label = nullptr;
        std::uint64_t number = 0;  // of the collective or message
        int awaited = -1;          // the group rank that a message waits for, or any_source, else -1
        bool unposted = false;     // Gloo does not know of it, and so does not tell that the rank has left
        Duration timeout = {};
    };
    /// Starts the timeout of a call. The caller waits for the call, and calls `arrive` when it is complete.
    void wait_for(const Waiting& waiting);
    void await(int group_rank, bool unposted = false);
    void arrive() {
        alarm_.clear();
        const auto lock = std::lock_guard(mutex_);
        waiting_ = std::nullopt;
    }
    /// Adds the next collective of this rank, and its number, to the history. Returns the mark of its data.
    std::uint64_t called(const Call& call, std::uint64_t number);
    /// Adds a message to or from a group rank, and returns its mark.
    std::uint64_t called(CallHistory::Kind kind, int peer, const Call& call);

    /// The mark of the next message from a group rank, if that is as `call`, a recv.
    std::uint64_t mark_of_next(int from, const Call& call) {
        const auto lock = std::lock_guard(mutex_);
        return history_.mark_of_next(from, call);
    }

    /// Asks the other ranks about another channel of theirs, recorded as `key`: whether they have called its
    /// collective of that number, and what they do. Returns the replies by group rank; waits at most
    /// `reply_time` for them.
    std::vector<Channel::PeerStatus> ask(const std::string& key, std::uint64_t number);

    bool is_broken() const { return broken_.load(std::memory_order_acquire); }
    bool has_left(int peer) const { return gone_[static_cast<std::size_t>(peer)]; }
    /// Makes the channel unusable on all its ranks, unless it already is.
    void fail(Failure failure) noexcept;
    /// Fails because an operation threw `text`: with the failure of a peer if one arrives within a second,
    /// else with its own.
    void explain(const std::string& text) noexcept;
    /// Throws the failure as an error on the group of `label`; called once there is one.
    [[noreturn]] void throw_failure(const Label& label) const {
        const auto lock = std::lock_guard(mutex_);
        failure_->raise(label);
    }
    std::optional<Failure> failure() const {
        const auto lock = std::lock_guard(mutex_);
        return failure_;
    }
    /// A line about the call that this rank waits for, for the terminate handler; "" without such a call.
    std::string terminate_report() const;
    /// Blocks until `condition` holds. Evaluates it after each `change` and after a failure.
    template <class Condition>
    void wait(Condition&& condition) {
        auto lock = std::unique_lock(mutex_);
        changed_.wait(lock, condition);
    }
    /// Runs `change` under the lock and wakes all threads that wait for a condition.
    template <class Change>
    auto change(Change&& change) {
        const auto lock = std::lock_guard(mutex_);
        changed_.notify_all();
        if (bell_) bell_->ring();
        return change();
    }
    /// Runs `look` under the lock and wakes nobody.
    template <class Look>
    auto look(Look&& look) {
        const auto lock = std::lock_guard(mutex_);
        return look();
    }
    /// Sets what rings after each `change` and after a failure, null: nothing.
    void set_bell(Bell* bell) {
        change([this, bell] { bell_ = bell; });
    }

private:
    using Message = MonitorMessage;

    /// How long a rank waits for replies: peers may be short of processor time, and TCP resends a lost packet
    /// after 200 ms.
    static constexpr auto reply_time = std::chrono::seconds(1);
    /// How long it waits once calls are known to differ. A rank whose reply is late cannot be told apart from
    /// the ranks that called what most did.
    static constexpr auto reply_time_in_dispute = std::chrono::seconds(5);
    /// How long a call takes before its rank compares its calls with those of its peers. Grows each time.
    static constexpr auto before_comparison = std::chrono::milliseconds(500);
    /// How long peers have to receive a failure.
    static constexpr auto delivery = std::chrono::milliseconds(100);

    void renew(const Failure& why) noexcept override { fail(why); }
    void listen();
    void await_goodbyes();
    /// Sends nothing more to a peer.
    void mark_gone(int from) {
        gone_[static_cast<std::size_t>(from)] = true;
        messages_.give_up(from);
    }
    void receive_message(int from, const Message& message);
    bool take_messages();
    void find_lost(const std::string& text);
    void find_who_left();
    bool compare_calls();
    void handle_calls(int from, const Message& message);
    void handle_difference(int from, const Message& message);
    void answer_call_query(int from, std::uint64_t number);
    void handle_call_reply(int from, const Message& message);
    void settle_dispute();
    void answer_device_query(int from, const Message& message);
    void handle_device_reply(int from, const Message& message);
    void check_timeout();
    void report_missing();
    Channel::PeerStatus silence_of(std::size_t peer) const;
    void send_failure() noexcept;
    void collect_failures() noexcept;
    void send_goodbye() noexcept;
    int size() const { return static_cast<int>(ranks_.size()); }

    const std::shared_ptr<Connections> connections_;
    const std::vector<int> ranks_;
    const std::shared_ptr<Ended> ended_;
    const std::shared_ptr<Recorder> recorder_;
    const int group_rank_;

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    Bell* bell_ = nullptr;
    std::optional<Failure> failure_;
    std::atomic<bool> broken_ = false;
    std::atomic<std::uint64_t> collectives_ = 0;
    std::optional<Waiting> waiting_;
    std::uint64_t turns_ = 0;  // the number of waits so far
    TimePoint until_;          // when the timeout of the wait expires
    CallHistory history_;
    std::uint64_t device_query_ = 0;                           // the number of the last device_query
    std::vector<std::optional<Channel::PeerStatus>> replies_;  // to it, by group rank
    Duration compare_after_;
    TimePoint compare_at_ = TimePoint::max();  // when calls are compared with those of peers

    /// A collective that ranks have called differently. `texts` has what each rank has called, "" if nothing.
    struct Dispute {
        std::uint64_t number = 0;
        std::vector<std::optional<std::string>> texts = {};  // by group rank
        bool of_two = false;                                 // of counts, which only two ranks must agree on
        TimePoint until = TimePoint::max();
    };

    // Used by the monitor's thread alone.
    const Label* compared_ = nullptr;  // of the call whose wait compared calls last
    std::optional<Dispute> dispute_;
    std::vector<std::atomic<bool>> gone_;       // ranks that have sent a goodbye
    std::vector<std::atomic<bool>> failed_;     // ranks that have sent a failure
    std::vector<std::uint64_t> calls_of_gone_;  // how many collectives a rank that is gone has called
    std::atomic<std::uint64_t> fewest_calls_of_gone_ = std::numeric_limits<std::uint64_t>::max();
    std::optional<std::uint64_t> asked_;  // the wait for which peers were asked
    std::uint64_t queried_ = 0;           // the call number in the last arrival_query
    std::vector<char> answered_;          // by group rank: 0 not yet, 1 has not arrived, 2 has arrived
    std::vector<std::string> doing_;      // by group rank: what a rank that has not arrived does
    TimePoint replies_until_ = TimePoint::max();

    std::mutex asking_;  // held during a device_query

    MessageBox messages_;
    std::atomic<bool> leaving_ = false;   // once this rank has begun to send goodbyes
    std::atomic<bool> stopping_ = false;  // once it has sent all of them
    Alarm alarm_;
    Alarm reply_alarm_;
    std::atomic<std::thread::id> listener_ = {};
    std::thread thread_;
};

}  // namespace rankmesh::detail
