// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "engine/channel.hpp"
#include "engine/gloo/monitor/peer_monitor.hpp"
#include "engine/gloo/transport/connections.hpp"

namespace rankmesh::detail {

/// One group on Gloo.
///
/// A blocking collective runs on the thread that calls it, started ones on up to four threads of the channel,
/// each of which takes the one that was started first: members start them in the same order, so that the
/// first that is not complete is run by all. Messages and shifts are handed to Gloo at once, so that none can
/// wait for another.
class GlooChannel final : public Channel {
public:
    GlooChannel(std::shared_ptr<Connections> connections, std::vector<int> ranks,
                std::shared_ptr<Ended> ended);
    ~GlooChannel() override;

    void run(const Call& call, const Label& label, Duration timeout) override;
    std::uint64_t start(std::span<const Call> calls, const Label& label) override;
    void wait(std::uint64_t ticket, const Label& label, Duration timeout) override;
    bool done(std::uint64_t ticket) override;
    void leave(std::uint64_t ticket, const Label& label) noexcept override;
    void leave() noexcept override;
    void throw_if_broken(const Label& label) override {
        if (monitor_.is_broken()) monitor_.throw_failure(label);
    }

private:
    using Buffer = std::unique_ptr<::gloo::transport::UnboundBuffer>;
    /// Half of a message.
    struct Half {
        Buffer buffer;
        int group_rank;  // of the other end
        bool receives;
    };
    struct Started {
        Call call;
        std::uint64_t number = 0;  // among this member's collectives, or its messages
        std::vector<std::size_t> in_counts = {};
        std::vector<std::size_t> out_counts = {};
        std::vector<char> held = {};  // what an operation in place reads
        std::vector<Half> halves = {};
    };
    struct Ticket {
        std::deque<Started> started = {};  // which do not move
        int open = 0;                      // collectives that the thread has not done
        bool failed = false;
        std::thread watcher = {};  // waits for its messages, if anybody asked whether they are done
    };

    Started& add(Ticket& ticket, const Call& call);
    void post(Started& started);
    void finish_messages(Ticket& ticket, bool tells);
    void work();
    [[noreturn]] void fail_with(const std::string& text, const Label& label);
    int rank() const { return ranks_[static_cast<std::size_t>(connections_->rank)]; }

    const std::shared_ptr<Connections> connections_;
    const std::vector<int> ranks_;
    PeerMonitor monitor_;
    std::uint64_t collectives_ = 0;
    std::uint64_t messages_ = 0;
    std::map<std::uint64_t, std::unique_ptr<Ticket>> tickets_;
    std::uint64_t next_ticket_ = 0;

    // Under the monitor's lock.
    std::deque<std::pair<Ticket*, Started*>> queue_;
    bool stopping_ = false;
    std::size_t idle_ = 0;  // threads that wait for a collective
    std::vector<std::thread> workers_;
};

}  // namespace rankmesh::detail
