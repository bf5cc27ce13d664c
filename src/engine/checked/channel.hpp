// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <memory>

#include "engine/checked/call_matcher.hpp"
#include "engine/pending_buffers.hpp"

namespace rankmesh::detail {

/// A channel whose ranks compare each call before the engine gets it. If calls differ, all their ranks throw,
/// no data moves, and the channel stays usable.
///
/// A call reaches the engine as soon as it has been compared: inside this call, or another call on any
/// checked channel. Collectives keep their order, messages the order of their two ranks.
class CheckedChannel final : public Channel {
public:
    /// `comparisons` is a second channel of the same ranks, used only to compare calls. `buffers` has the
    /// buffers of all pending calls of this rank.
    CheckedChannel(std::shared_ptr<Channel> engine, std::shared_ptr<Channel> comparisons, const Ranks& ranks,
                   int group_rank, std::shared_ptr<PendingBuffers> buffers);
    ~CheckedChannel() override;

    void run(const Call& call, const Label& label, Duration timeout) override {
        const auto blocks = !is_point_to_point(call.operation) && engine_->blocking_matches_started();
        wait(start({&call, 1}, label, blocks), label, timeout);
    }
    std::uint64_t start(std::span<const Call> calls, const Label& label) override {
        return start(calls, label, false);
    }
    void wait(std::uint64_t ticket, const Label& label, Duration timeout) override;
    bool done(std::uint64_t ticket) override;
    std::optional<Message> probe(const Call& call, const Label& label,
                                 std::optional<Duration> timeout) override;
    void leave(std::uint64_t ticket, const Label& label) noexcept override;
    void leave() noexcept override;
    void throw_if_broken(const Label& label) override { engine_->throw_if_broken(label); }

    std::vector<PeerStatus> ask(const std::string& key, std::uint64_t number) override {
        return engine_->ask(key, number);
    }

    Channel& engine_channel() override { return *engine_; }
    bool is_pending() override { return !tickets_.empty(); }
    Holding holding() override {
        auto held = engine_->holding();
        held.add(matcher_->holding());
        return held;
    }

private:
    using CheckedCalls = std::deque<CheckedCall>;  // which do not move
    struct Ticket {
        explicit Ticket(PendingBuffers::Use buffers) : use(std::move(buffers)) {}
        PendingBuffers::Use use;
        CheckedCalls parts = {};
    };

    std::uint64_t start(std::span<const Call> calls, const Label& label, bool blocks);
    void hand_over(CheckedCall& part);
    void give_up(CheckedCall& part);
    void finish(CheckedCall& part, Duration timeout);
    template <class Body>
    void on_engine(CheckedCall& part, Body&& body);
    void throw_error(const CheckedCalls& parts, const Label& label);
    bool is_over(const CheckedCall& part);
    std::exception_ptr failure(const Label& label);

    const std::shared_ptr<Channel> engine_;
    const int group_rank_;
    const std::size_t size_;
    const std::shared_ptr<PendingBuffers> buffers_;
    std::map<std::uint64_t, Ticket> tickets_;
    std::uint64_t next_ticket_ = 0;
    std::exception_ptr engine_failure_;
    const std::shared_ptr<CallMatcher> matcher_;  // destroyed before the engine's channel
};

}  // namespace rankmesh::detail
