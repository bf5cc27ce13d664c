// SPDX-License-Identifier: Apache-2.0
#include "engine/checked/channel.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "engine/checked/call_matcher.hpp"

namespace rankmesh::detail {
namespace {

/// A channel whose ranks compare each call before the engine gets it. If calls differ, all their ranks throw,
/// no data moves, and the channel stays usable.
///
/// A call reaches the engine as soon as it has been compared: inside this call, or another call on any
/// checked channel. Collectives keep their order, messages the order of their two ranks.
class CheckedChannel final : public Channel {
public:
    CheckedChannel(std::shared_ptr<Channel> engine, std::shared_ptr<Channel> comparisons, const Ranks& ranks,
                   int group_rank, std::shared_ptr<PendingBuffers> buffers)
        : engine_(std::move(engine)),
          group_rank_(group_rank),
          size_(static_cast<std::size_t>(ranks.size())),
          buffers_(std::move(buffers)),
          matcher_(std::make_shared<CallMatcher>(std::move(comparisons), ranks, group_rank, true,
                                                 [this](CheckedCall& part) { hand_over(part); })) {}
    /// Another thread may still use the matcher, so the calls of this channel are withdrawn from it.
    ~CheckedChannel() override {
        const auto lock = matcher_->lock();
        for (auto& [number, ticket] : tickets_)
            for (auto& part : ticket.parts) matcher_->withdraw(part);
    }

    void run(const Call& call, const Label& label, Duration timeout) override {
        const auto blocks = !is_point_to_point(call.operation) && (mixes_ || is_idle());
        wait(start({&call, 1}, label, blocks), label, timeout);
    }
    std::uint64_t start(std::span<const Call> calls, const Label& label) override {
        return start(calls, label, false);
    }
    void wait(std::uint64_t ticket, const Label& label, Duration timeout) override {
        const auto lock = matcher_->lock();
        auto& parts = tickets_.at(ticket).parts;
        matcher_->settle(parts, timeout);
        for (auto& part : parts) finish(part, timeout);
        for (const auto& part : parts)
            if (part.from_any) set_sender(part.call.argument);
        const auto ended = tickets_.extract(ticket);
        throw_error(ended.mapped().parts, label);
    }
    bool done(std::uint64_t ticket) override {
        const auto lock = matcher_->lock();
        matcher_->advance();
        return std::ranges::all_of(tickets_.at(ticket).parts,
                                   [this](const CheckedCall& part) { return is_over(part); });
    }
    std::optional<Message> probe(const Call& call, const Label& label,
                                 std::optional<Duration> timeout) override {
        const auto lock = matcher_->lock();
        auto part = CheckedCall{.call = OwnedCall(call, size_), .label = &label};
        try {
            return matcher_->probe(part, timeout);
        } catch (const UsageError&) {
            throw;
        } catch (...) {
            const auto why = failure(label);
            if (why) fail(why);
            if (why) std::rethrow_exception(why);
            throw;
        }
    }
    void leave(std::uint64_t ticket, const Label& label) noexcept override {
        const auto lock = matcher_->lock();
        auto& parts = tickets_.at(ticket).parts;
        auto over = true;
        for (auto& part : parts) {
            try {
                over = over && is_over(part);
            } catch (const std::exception&) {
                over = false;
            }
            matcher_->withdraw(part);
            if (part.ticket) engine_->leave(*part.ticket, label);
        }
        if (!over) leave();  // from here on the engine touches no buffer
        tickets_.erase(ticket);
    }
    void leave() noexcept override {
        engine_->leave();
        matcher_->leave();
    }
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

    /// `blocks`: this rank waits for it next.
    std::uint64_t start(std::span<const Call> calls, const Label& label, bool blocks) {
        const auto lock = matcher_->lock();
        auto use = PendingBuffers::Use(buffers_, calls, group_rank_, label);
        auto& parts = tickets_.try_emplace(next_ticket_, std::move(use)).first->second.parts;
        try {
            for (const auto& call : calls)
                each_half(call, group_rank_, [&](const Call& half) {
                    matcher_->add(parts.emplace_back(
                        CheckedCall{.call = OwnedCall(half, size_), .label = &label, .blocks = blocks}));
                });
        } catch (...) {
            for (auto& part : parts) matcher_->withdraw(part);
            tickets_.erase(next_ticket_);
            throw;
        }
        return next_ticket_++;
    }
    bool is_idle() {
        const auto lock = matcher_->lock();
        return matcher_->is_idle();
    }
    void hand_over(CheckedCall& part) {
        part.blocks = part.blocks && (mixes_ || part.all_block);
        if (part.error || part.complete || part.meets || part.blocks) return;
        const Call& call = part.call;
        try {
            part.ticket = engine_->start({&call, 1}, *part.label);
        } catch (...) {
            give_up(part);
        }
    }
    /// The engine has failed on this rank: ranks that still wait to compare with it must hear of that too. A
    /// monitored barrier informs all ranks itself.
    void give_up(CheckedCall& part) {
        part.error = engine_failure_ = std::current_exception();
        if (part.call.operation != Operation::monitored_barrier) matcher_->leave();
    }
    void finish(CheckedCall& part, Duration timeout) {
        if (std::exchange(part.blocks, false) && !part.error && !part.complete) {
            if (!mixes_ || matcher_->is_idle())
                return on_engine(part, [&] { engine_->run(part.call, *part.label, timeout); });
            hand_over(part);
        }
        if (part.ticket) {
            matcher_->meanwhile([&] { return engine_->done(*part.ticket); }, timeout);
            on_engine(part, [&] { engine_->wait(*part.ticket, *part.label, timeout); });
            part.ticket = std::nullopt;
        }
        matcher_->wait_for_notice(part, timeout);
    }
    /// Calls `body`, which completes the part on the engine; throws UsageError only, and then has no effect.
    template <class Body>
    void on_engine(CheckedCall& part, Body&& body) {
        try {
            body();
        } catch (const UsageError&) {
            throw;
        } catch (const Disagreement&) {
            part.error = std::current_exception();
        } catch (...) {
            give_up(part);
        }
    }
    /// Throws the error of the parts, if there is one. The error of a part that was compared says more than
    /// the error that ended all comparisons.
    void throw_error(const CheckedCalls& parts, const Label& label) {
        auto error = std::exception_ptr{};
        for (const auto& part : parts)
            if (part.error && (!error || error == matcher_->broken())) error = part.error;
        const auto uncompared = error && error == matcher_->broken();
        if (const auto why = failure(label)) {
            fail(why);
            if (uncompared) error = why;
        }
        if (error) std::rethrow_exception(error);
    }
    bool is_over(const CheckedCall& part) {
        return part.settled && (!part.ticket || engine_->done(*part.ticket)) &&
               matcher_->has_sent_notice(part);
    }
    /// The error that made the channel unusable, null while there is none: the engine's own, if it has one.
    std::exception_ptr failure(const Label& label) {
        try {
            if (!engine_failure_ && matcher_->has_expired())
                engine_failure_ = matcher_->broken();  // the engine may only know which ranks left since
            if (!engine_failure_ && matcher_->broken())
                engine_->start({}, label);  // only to get the engine's error
        } catch (...) {
            engine_failure_ = std::current_exception();
        }
        return engine_failure_ ? engine_failure_ : matcher_->broken();
    }

    const std::shared_ptr<Channel> engine_;
    const bool mixes_ = engine_->blocking_matches_started();
    const int group_rank_;
    const std::size_t size_;
    const std::shared_ptr<PendingBuffers> buffers_;
    std::map<std::uint64_t, Ticket> tickets_;
    std::uint64_t next_ticket_ = 0;
    std::exception_ptr engine_failure_;
    const std::shared_ptr<CallMatcher> matcher_;  // destroyed before the engine's channel
};

/// A device's channel whose ranks compare each call on the host before the device gets it.
///
/// The host waits in a call until all ranks have made theirs: work that a program enqueues on the stream
/// after the call must run after it, so the call cannot be enqueued later. A call that throws has not been
/// enqueued.
class CheckedDeviceChannel final : public Channel {
public:
    CheckedDeviceChannel(std::shared_ptr<Channel> engine, std::shared_ptr<Channel> comparisons,
                         const Ranks& ranks, int group_rank, Duration timeout)
        : engine_(std::move(engine)),
          size_(static_cast<std::size_t>(ranks.size())),
          group_rank_(group_rank),
          timeout_(timeout),
          matcher_(std::make_shared<CallMatcher>(std::move(comparisons), ranks, group_rank, false,
                                                 [](CheckedCall&) {})) {}

    void run(const Call& call, const Label& label, Duration timeout) override {
        compare({&call, 1}, label, timeout);
        engine_->run(call, label, timeout);
    }
    std::uint64_t start(std::span<const Call> calls, const Label& label) override {
        compare(calls, label, timeout_);
        return engine_->start(calls, label);
    }
    void wait(std::uint64_t ticket, const Label& label, Duration timeout) override {
        engine_->wait(ticket, label, timeout);
    }
    void synchronize(std::uint64_t ticket, const Label& label, Duration timeout) override {
        engine_->synchronize(ticket, label, timeout);
    }
    bool done(std::uint64_t ticket) override { return engine_->done(ticket); }
    void forget(std::uint64_t ticket) noexcept override { engine_->forget(ticket); }
    void leave(std::uint64_t ticket, const Label& label) noexcept override {
        engine_->leave(ticket, label);
        matcher_->leave();
    }
    void leave() noexcept override {
        engine_->leave();
        matcher_->leave();
    }
    void throw_if_broken(const Label& label) override { engine_->throw_if_broken(label); }

    Channel& engine_channel() override { return *engine_; }
    bool is_pending() override { return engine_->is_pending(); }
    Holding holding() override {
        auto held = engine_->holding();
        held.add(matcher_->holding());
        return held;
    }

private:
    void compare(std::span<const Call> calls, const Label& label, Duration timeout) {
        const auto lock = matcher_->lock();
        auto parts = std::deque<CheckedCall>{};
        try {
            for (const auto& call : calls)
                each_half(call, group_rank_, [&](const Call& half) {
                    matcher_->add(
                        parts.emplace_back(CheckedCall{.call = OwnedCall(half, size_), .label = &label}));
                });
            matcher_->settle(parts, timeout);
            for (auto& part : parts) matcher_->wait_for_notice(part, timeout);
        } catch (...) {
            for (auto& part : parts) matcher_->withdraw(part);
            throw;
        }
        if (matcher_->broken()) fail(matcher_->broken());
        for (const auto& part : parts)
            if (part.error) std::rethrow_exception(part.error);
    }

    const std::shared_ptr<Channel> engine_;
    const std::size_t size_;
    const int group_rank_;
    const Duration timeout_;
    const std::shared_ptr<CallMatcher> matcher_;
};

}  // namespace

std::shared_ptr<Channel> checked_channel(std::shared_ptr<Channel> engine,
                                         std::shared_ptr<Channel> comparisons, const Ranks& ranks,
                                         int group_rank, std::shared_ptr<PendingBuffers> buffers) {
    return std::make_shared<CheckedChannel>(std::move(engine), std::move(comparisons), ranks, group_rank,
                                            std::move(buffers));
}

std::shared_ptr<Channel> checked_device_channel(std::shared_ptr<Channel> engine,
                                                std::shared_ptr<Channel> comparisons, const Ranks& ranks,
                                                int group_rank, Duration timeout) {
    return std::make_shared<CheckedDeviceChannel>(std::move(engine), std::move(comparisons), ranks,
                                                  group_rank, timeout);
}

}  // namespace rankmesh::detail
