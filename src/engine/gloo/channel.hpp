// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <memory>

#include "engine/channel.hpp"
#include "engine/diagnosis/cause.hpp"
#include "engine/gloo/monitor/peer_monitor.hpp"
#include "engine/gloo/transport/connections.hpp"
#include "engine/roles.hpp"

namespace rankmesh::detail {

/// One group on Gloo.
///
/// A blocking collective runs on the calling thread; started ones run on up to four threads of the channel,
/// oldest first: all ranks start them in the same order, so the first incomplete one is run by all ranks.
/// Messages and shifts are posted to Gloo at once, so that none waits for another.
class GlooChannel final : public Channel {
public:
    GlooChannel(std::shared_ptr<Connections> connections, std::vector<int> ranks,
                std::shared_ptr<Ended> ended, std::shared_ptr<Recorder> recorder,
                std::shared_ptr<Cause> cause)
        : ranks_(std::move(ranks)),
          group_rank_(connections->rank),
          ended_(std::move(ended)),
          recorder_(std::move(recorder)),
          cause_(std::move(cause)) {
        restore(std::move(connections));
    }
    ~GlooChannel() override;

    void run(const Call& call, const Label& label, Duration timeout) override;
    std::uint64_t start(std::span<const Call> calls, const Label& label) override {
        return start(calls, label, false);
    }
    void wait(std::uint64_t ticket, const Label& label, Duration timeout) override {
        wait_for(ticket, label, timeout, {});
    }
    bool wait_for(std::uint64_t ticket, const Label& label, Duration timeout,
                  const Purpose& purpose) override;
    bool done(std::uint64_t ticket) override;
    std::optional<Message> probe(const Call& call, const Label& label,
                                 std::optional<Duration> timeout) override;
    bool has_left(int group_rank) const override { return monitor_ && monitor_->has_left(group_rank); }
    void leave(std::uint64_t ticket, const Label& label) noexcept override;
    void leave() noexcept override {
        if (!monitor_) return;
        monitor_->fail(cause_->of_leaving(rank(), cat("rank ", rank(), " left by an exception")));
    }
    void throw_if_broken(const Label& label) override {
        if (!monitor_ || !monitor_->is_broken()) return;
        cause_->set(monitor_->failure());
        monitor_->throw_failure(label);
    }
    std::vector<PeerStatus> ask(const std::string& key, std::uint64_t number) override {
        return monitor_ ? monitor_->ask(key, number) : std::vector<PeerStatus>{};
    }
    bool set_bell(Bell* bell) override {
        monitor_->set_bell(bell);
        return true;
    }
    bool is_pending() override { return !tickets_.empty(); }
    void release() override {
        stop_workers();
        stopping_ = false;
        monitor_.reset();  // which says goodbye
        connections_ = nullptr;
    }
    Holding holding() override {
        const auto each = connections_ ? connections_->size - 1 : 0;
        return {.connections = each, .descriptors = each};
    }
    /// Uses these connections after it was released.
    void restore(std::shared_ptr<Connections> connections) {
        monitor_.emplace(connections, ranks_, ended_, recorder_);
        connections_ = std::move(connections);
        collectives_ = 0;
        messages_ = 0;
    }

private:
    /// One send or receive.
    struct Half {
        std::unique_ptr<Connections::Buffer> buffer;
        int group_rank;  // of the peer
        bool receives;
    };
    struct Started {
        OwnedCall call;
        std::uint64_t number = 0;  // among this rank's collectives, or its messages
        std::uint64_t mark = 0;    // of a collective
        std::vector<Half> halves = {};
    };
    struct Ticket {
        std::deque<Started> started = {};  // which do not move
        bool defers = false;               // some of its receives were not posted at once
        int unposted = 0;                  // those that are not posted yet; under receiving_
        int sender = -1;                   // of what a recv from any rank receives; under receiving_
        int open = 0;                      // collectives that no thread has completed
        bool failed = false;
        std::thread watcher = {};          // waits for its messages once done() was called
        std::atomic<int> awaited = -1;     // the group rank whose message is awaited
        std::atomic<bool> waited = false;  // in wait(), whose timeout runs
    };

    std::uint64_t start(std::span<const Call> calls, const Label& label, bool blocks);
    Started& add(Ticket& ticket, const Call& call);
    void post(Ticket& ticket, Started& started);
    void receive(Started& started, int from);
    std::optional<Message> announced(int from, const Call& receive, std::span<const int> but);
    void post_announced();
    template <class Look>
    void await_announced(Look&& look);
    void await_posted(Ticket& ticket);
    void receive_announced();
    void withdraw(Ticket& ticket);
    void finish_messages(Ticket& ticket, bool polls);
    bool await_collectives(const Ticket& ticket, const std::function<bool()>& is_interrupted);
    static bool await_first(Ticket& ticket);
    void work();
    [[noreturn]] void fail_with(const std::string& text, const Label& label);
    int rank() const { return ranks_[static_cast<std::size_t>(group_rank_)]; }
    void stop_workers();

    std::shared_ptr<Connections> connections_;  // null while it is released
    const std::vector<int> ranks_;
    const int group_rank_;
    const std::shared_ptr<Ended> ended_;
    const std::shared_ptr<Recorder> recorder_;
    const std::shared_ptr<Cause> cause_;
    std::optional<PeerMonitor> monitor_;
    std::uint64_t collectives_ = 0;
    std::uint64_t messages_ = 0;
    std::map<std::uint64_t, std::unique_ptr<Ticket>> tickets_;
    std::uint64_t next_ticket_ = 0;

    /// A receive that is not posted: its sender is not known, or who sends to one before it is not.
    struct Unposted {
        Ticket* ticket;
        Started* started;
    };
    std::mutex receiving_;
    std::deque<Unposted> unposted_;     // under receiving_: in the order of the calls
    std::atomic<bool> defers_ = false;  // there are some
    bool stops_receiving_ = false;      // under receiving_
    std::thread receiver_;              // posts them while this rank is elsewhere

    // Under the monitor's lock.
    std::deque<std::pair<Ticket*, Started*>> queue_;
    bool stopping_ = false;
    std::size_t idle_ = 0;  // threads that wait for a collective
    std::vector<std::thread> workers_;
};

/// Runs one collective to its end by Gloo's algorithm of that name; `tag` is equal on all ranks and different
/// from that of any other call in flight. A scan, which Gloo lacks, is made of messages.
void run_collective(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag);

/// Every rank sends each other rank a part of `call.in`, and combines what it receives, in the order of
/// ranks, in `call.out`: one step, whatever the size of the group. The part for rank i begins `i * stride`
/// bytes into `call.in` and is as long as `call.out`.
void fan_in(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag,
            std::size_t stride);

}  // namespace rankmesh::detail
