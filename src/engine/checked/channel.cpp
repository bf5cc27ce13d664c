// SPDX-License-Identifier: Apache-2.0
#include "engine/checked/channel.hpp"

#include <algorithm>
#include <utility>

namespace rankmesh::detail {

CheckedChannel::CheckedChannel(std::shared_ptr<Channel> engine, std::shared_ptr<Channel> comparisons,
                               const Ranks& ranks, int group_rank, std::shared_ptr<PendingBuffers> buffers)
    : engine_(std::move(engine)),
      group_rank_(group_rank),
      size_(static_cast<std::size_t>(ranks.size())),
      buffers_(std::move(buffers)),
      matcher_(std::make_shared<CallMatcher>(std::move(comparisons), ranks, group_rank, true,
                                             [this](CheckedCall& part) { hand_over(part); })) {}

/// Another thread may still use the matcher, so the calls of this channel are withdrawn from it.
CheckedChannel::~CheckedChannel() {
    const auto lock = matcher_->lock();
    for (auto& [number, ticket] : tickets_)
        for (auto& part : ticket.parts) matcher_->withdraw(part);
}

/// `blocks`: this rank waits for it next.
std::uint64_t CheckedChannel::start(std::span<const Call> calls, const Label& label, bool blocks) {
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

void CheckedChannel::hand_over(CheckedCall& part) {
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
void CheckedChannel::give_up(CheckedCall& part) {
    part.error = engine_failure_ = std::current_exception();
    if (part.call.operation != Operation::monitored_barrier) matcher_->leave();
}

/// The error that made the channel unusable, null while there is none: the engine's own, if it has one.
std::exception_ptr CheckedChannel::failure(const Label& label) {
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

void CheckedChannel::wait(std::uint64_t ticket, const Label& label, Duration timeout) {
    const auto lock = matcher_->lock();
    auto& parts = tickets_.at(ticket).parts;
    matcher_->settle(parts, timeout);
    for (auto& part : parts) finish(part, timeout);
    for (const auto& part : parts)
        if (part.from_any) set_sender(part.call.argument);
    const auto ended = tickets_.extract(ticket);
    throw_error(ended.mapped().parts, label);
}

/// Throws the error of the parts, if there is one. The error of a part that was compared says more than the
/// error that ended all comparisons.
void CheckedChannel::throw_error(const CheckedCalls& parts, const Label& label) {
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

/// Calls `body`, which completes the part on the engine; throws UsageError only, and then has no effect.
template <class Body>
void CheckedChannel::on_engine(CheckedCall& part, Body&& body) {
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

void CheckedChannel::finish(CheckedCall& part, Duration timeout) {
    if (std::exchange(part.blocks, false) && !part.error && !part.complete) {
        if (matcher_->is_idle())
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

bool CheckedChannel::done(std::uint64_t ticket) {
    const auto lock = matcher_->lock();
    matcher_->advance();
    return std::ranges::all_of(tickets_.at(ticket).parts,
                               [this](const CheckedCall& part) { return is_over(part); });
}

std::optional<Message> CheckedChannel::probe(const Call& call, const Label& label,
                                             std::optional<Duration> timeout) {
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

bool CheckedChannel::is_over(const CheckedCall& part) {
    return part.settled && (!part.ticket || engine_->done(*part.ticket)) && matcher_->has_sent_notice(part);
}

void CheckedChannel::leave(std::uint64_t ticket, const Label& label) noexcept {
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

void CheckedChannel::leave() noexcept {
    engine_->leave();
    matcher_->leave();
}

}  // namespace rankmesh::detail
