// SPDX-License-Identifier: Apache-2.0
#include "engine/checked/channel.hpp"

#include <algorithm>

namespace rankmesh::detail {

CheckedChannel::CheckedChannel(std::shared_ptr<Channel> engine, std::shared_ptr<Channel> beside,
                               const Ranks& ranks, int position)
    : engine_(std::move(engine)),
      position_(position),
      size_(static_cast<std::size_t>(ranks.size())),
      comparer_(std::make_shared<Comparer>(std::move(beside), ranks, position,
                                           [this](Part& part) { hand_over(part); })) {}

/// Another thread may hold the comparer, but from here on it has nothing to hand over.
CheckedChannel::~CheckedChannel() {
    const auto lock = comparer_->lock();
    for (auto& [ticket, parts] : tickets_)
        for (auto& part : parts) comparer_->withdraw(part);
}

void CheckedChannel::run(const Call& call, const Label& label, Duration deadline) {
    wait(start({&call, 1}, label), label, deadline);
}

std::uint64_t CheckedChannel::start(std::span<const Call> calls, const Label& label) {
    const auto lock = comparer_->lock();
    auto& parts = tickets_[next_ticket_];
    try {
        for (const auto& call : calls)
            each_half(call, position_, [&](const Call& half) { add(parts, half, label); });
    } catch (...) {
        for (auto& part : parts) comparer_->withdraw(part);
        tickets_.erase(next_ticket_);
        throw;
    }
    return next_ticket_++;
}

void CheckedChannel::add(Parts& parts, const Call& call, const Label& label) {
    auto& part =
        parts.emplace_back(Part{.call = call,
                                .label = &label,
                                .number = is_point_to_point(call.operation) ? ++messages_ : ++collectives_});
    if (call.in_counts) {
        part.in_counts.assign(call.in_counts, call.in_counts + size_);
        part.call.in_counts = part.in_counts.data();
    }
    if (call.out_counts) {
        part.out_counts.assign(call.out_counts, call.out_counts + size_);
        part.call.out_counts = part.out_counts.data();
    }
    if (call.operation != Operation::send_recv) return comparer_->add(part);
    part.settled = true;  // it is to this member itself
    hand_over(part);
}

void CheckedChannel::hand_over(Part& part) {
    if (part.error) return;
    try {
        part.ticket = engine_->start({&part.call, 1}, *part.label);
    } catch (...) {
        give_up(part);
    }
}

/// The engine has failed on this member: those that still wait to compare with it must hear of that too. A
/// monitored barrier tells all members itself.
void CheckedChannel::give_up(Part& part) {
    part.error = engine_failure_ = std::current_exception();
    if (part.call.operation != Operation::monitored_barrier) comparer_->leave();
}

/// Why the channel can not be used any more, null while it can: the engine's own reason, where it has one.
std::exception_ptr CheckedChannel::failure(const Label& label) {
    try {
        if (!engine_failure_ && comparer_->broken()) engine_->start({}, label);  // starts nothing
    } catch (...) {
        engine_failure_ = std::current_exception();
    }
    return engine_failure_ ? engine_failure_ : comparer_->broken();
}

void CheckedChannel::wait(std::uint64_t ticket, const Label& label, Duration deadline) {
    const auto lock = comparer_->lock();
    auto& parts = tickets_.at(ticket);
    for (auto& part : parts) comparer_->settle(part, deadline);
    for (auto& part : parts) finish(part, deadline);
    auto error = std::exception_ptr{};
    for (const auto& part : parts)
        if (part.error && !error) error = part.error;
    tickets_.erase(ticket);
    const auto uncompared = error && error == comparer_->broken();
    if (const auto why = failure(label)) {
        fail(why);
        if (uncompared) error = why;
    }
    if (error) std::rethrow_exception(error);
}

/// Throws Misuse only, which leaves all as it was.
void CheckedChannel::finish(Part& part, Duration deadline) {
    if (part.ticket) {
        comparer_->meanwhile([&] { return engine_->done(*part.ticket); }, deadline);
        try {
            engine_->wait(*part.ticket, *part.label, deadline);
        } catch (const Misuse&) {
            throw;
        } catch (const Disagreement&) {
            part.error = std::current_exception();
        } catch (...) {
            give_up(part);
        }
        part.ticket = std::nullopt;
    }
    comparer_->tell(part, deadline);
}

bool CheckedChannel::done(std::uint64_t ticket) {
    const auto lock = comparer_->lock();
    comparer_->advance();
    return std::ranges::all_of(tickets_.at(ticket), [this](const Part& part) { return is_over(part); });
}

bool CheckedChannel::is_over(const Part& part) {
    return part.settled && (!part.ticket || engine_->done(*part.ticket)) && comparer_->is_told(part);
}

void CheckedChannel::leave(std::uint64_t ticket, const Label& label) noexcept {
    const auto lock = comparer_->lock();
    auto& parts = tickets_.at(ticket);
    auto over = true;
    for (auto& part : parts) {
        try {
            over = over && is_over(part);
        } catch (const std::exception&) {
            over = false;
        }
        comparer_->withdraw(part);
        if (part.ticket) engine_->leave(*part.ticket, label);
    }
    if (!over) leave();  // from here on nobody touches what the parts hold
    tickets_.erase(ticket);
}

void CheckedChannel::leave() noexcept {
    engine_->leave();
    comparer_->leave();
}

}  // namespace rankmesh::detail
