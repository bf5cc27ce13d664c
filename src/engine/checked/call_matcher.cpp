// SPDX-License-Identifier: Apache-2.0
#include "engine/checked/call_matcher.hpp"

#include <array>

#include "engine/diagnosis/attendance.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

/// The matchers with calls of this thread that may not be settled yet.
thread_local std::vector<std::weak_ptr<CallMatcher>> of_this_thread;

Attendance attendance_of(const Timeout& passed) {
    return {.arrived = passed.arrived, .missing = passed.missing, .seen = passed.seen};
}

constexpr auto short_turns = 20;
/// How long a rank waits for a message from any rank before it asks what the others do.
constexpr auto before_question = std::chrono::milliseconds(50);

}  // namespace

void CallMatcher::add(CheckedCall& part) {
    if (broken_) std::rethrow_exception(broken_);
    part.number = part.is_collective() ? ++called_ : ++messages_called_;
    if (part.call.operation == Operation::send_recv) {  // a message to this rank itself
        part.settled = true;
        return settled_(part);
    }
    open_.push_back(&part);
    ++count_;
    const auto is_this = [this](const std::weak_ptr<CallMatcher>& other) {
        return other.lock().get() == this;
    };
    if (std::ranges::none_of(of_this_thread, is_this)) {
        std::erase_if(of_this_thread, [](const auto& other) { return other.expired(); });
        of_this_thread.push_back(weak_from_this());
    }
    try {
        if (part.is_collective())
            collectives_.add(part);
        else
            messages_.add(part);
        advance_own();
    } catch (const UsageError&) {
        withdraw(part);
        if (part.is_collective()) --called_;
        throw;
    } catch (...) {
        break_with(std::current_exception());
    }
}

void CallMatcher::break_with(std::exception_ptr error) {
    broken_ = error;
    try {
        std::rethrow_exception(error);
    } catch (const Timeout&) {
        has_expired_ = true;
    } catch (...) {
    }
    collectives_.clear();
    messages_.clear();
    while (!open_.empty()) {
        open_.front()->error = error;
        settled(*open_.front());
    }
}

void CallMatcher::advance_own() {
    try {
        collectives_.advance();
        messages_.advance();
    } catch (const UsageError&) {
        throw;
    } catch (const Timeout& passed) {  // on another rank: this one only looks
        if (open_.empty()) return break_with(std::current_exception());
        const auto& label = *open_.front()->label;
        break_with(timeout_failure_elsewhere(label, attendance_of(passed)).error(label));
    } catch (...) {
        break_with(std::current_exception());
    }
}

void CallMatcher::advance() {
    advance_own();
    for (const auto& each : of_this_thread)
        if (const auto other = each.lock(); other && other.get() != this)
            // A thread that is in a call on it advances it there.
            if (const auto lock = std::unique_lock(other->mutex_, std::try_to_lock)) other->advance_own();
    std::erase_if(of_this_thread, [](const std::weak_ptr<CallMatcher>& each) {
        const auto other = each.lock();
        return !other || other->count_ == 0;
    });
}

/// True if nothing else of this thread is to be compared but `own` parts here.
bool CallMatcher::is_last(int own) const {
    return count_ <= own &&
           std::ranges::none_of(of_this_thread, [this](const std::weak_ptr<CallMatcher>& each) {
               const auto other = each.lock();
               return other && other.get() != this && other->count_ > 0;
           });
}

void CallMatcher::settle(std::deque<CheckedCall>& parts, Duration timeout) {
    auto stuck = std::vector<CheckedCall*>{};
    for (auto& part : parts)
        if (!settle(part, timeout, !stuck.empty())) stuck.push_back(&part);
    if (stuck.empty() || broken_) return;
    const auto error = meet(stuck, timeout);
    for (auto* part : stuck) {
        part->error = error;  // though another may have ended all comparisons meanwhile
        if (!part->settled) settled(*part);
    }
}

/// Returns true once `part` is settled, false if it can never be. `refuses`: this rank waits for it although
/// another part of its call is stuck.
bool CallMatcher::settle(CheckedCall& part, Duration timeout, bool refuses) {
    const auto until = end_of_wait(timeout);
    const auto begin = std::chrono::steady_clock::now();
    auto look = begin + Channel::between_looks;
    for (auto pause = Pause(short_turns); !part.settled;) {
        const auto now = std::chrono::steady_clock::now();
        try {
            if (!part.is_collective() && messages_.is_stuck(part.call, called_)) return false;
            const auto is_unbound = !part.is_collective() && messages_.is_unbound(part);
            if (is_unbound && now >= begin + before_question) messages_.ask(part.call, *part.label, called_);
            const auto in = part.is_collective() ? collectives_.first() : refuses ? called_ + 1 : 0;
            if (in > 0 && now >= look) {
                messages_.refuse(*part.label, in);
                look = now + Channel::between_looks;
            }
            const auto polls = !is_last(1) || refuses || (is_unbound && now < begin + before_question);
            if (!polls || now >= until) {
                const auto passed = PassedBefore(passed_before + (now - begin));
                await(part, timeout);
                continue;
            }
            advance();
        } catch (const UsageError&) {
            throw;
        } catch (const Timeout& passed) {
            break_with(expired_in_comparison(part, timeout, passed));
        } catch (...) {
            break_with(std::current_exception());
        }
        if (!part.settled) pause();
    }
    return true;
}

/// Compares messages that can never be settled, as one call, with the next collective of their peers. Returns
/// the difference.
std::exception_ptr CallMatcher::meet(std::span<CheckedCall* const> stuck, Duration timeout) {
    auto meeting =
        CheckedCall{.call = OwnedCall(stuck.front()->call, 0), .label = stuck.front()->label, .meets = true};
    for (auto* part : stuck) messages_.give_up(*part);
    add(meeting);
    settle(meeting, timeout, false);
    return meeting.error;
}

std::optional<Message> CallMatcher::probe(CheckedCall& part, std::optional<Duration> timeout) {
    if (broken_) std::rethrow_exception(broken_);
    part.number = timeout ? ++messages_called_ : messages_called_ + 1;
    const auto begin = std::chrono::steady_clock::now();
    const auto until = end_of_wait(timeout.value_or(Duration{}));
    for (auto pause = Pause(short_turns);; pause()) {
        try {
            if (auto found = messages_.probe(part.call, *part.label)) return found;
            if (!timeout) return std::nullopt;
            const auto now = std::chrono::steady_clock::now();
            if (messages_.is_stuck(part.call, called_)) {
                const auto stuck = std::array{&part};
                std::rethrow_exception(meet(stuck, *timeout));
            }
            if (now >= begin + before_question) messages_.ask(part.call, *part.label, called_);
            if ((is_last(0) && now >= begin + before_question) || now >= until)
                messages_.wait_for_any(part.call.argument, *part.label, *timeout);
            else
                advance();
        } catch (const Disagreement&) {
            throw;
        } catch (const UsageError&) {
            throw;
        } catch (const Timeout& passed) {
            break_with(expired_in_comparison(part, *timeout, passed));
        } catch (...) {
            break_with(std::current_exception());
        }
        if (broken_) std::rethrow_exception(broken_);
    }
}

/// The error names the call that is compared, not the comparison.
std::exception_ptr CallMatcher::expired_in_comparison(const CheckedCall& part, Duration timeout,
                                                      const Timeout& passed) const {
    const auto& label = *part.label;
    if (passed.arrived.empty() || contains(passed.arrived, rank_))
        return timeout_failure(timeout, rank_, part.text(), label, attendance_of(passed)).error(label);
    // Others have waited for it in another call.
    if (!contains(passed.missing, rank_))
        return timeout_failure_elsewhere(label, attendance_of(passed)).error(label);
    // They miss this rank, which misses them, or the other end of its message.
    const auto missing = part.call.is_from_any() ? passed.arrived
                         : is_point_to_point(part.call.operation)
                             ? std::vector{label.ranks[part.call.argument]}
                             : passed.arrived;
    const auto seen = last_seen(missing, label, [&](int each) {
        return contains(passed.arrived, each) ? "waits in another call of this communicator"
                                              : "has not called it";
    });
    return timeout_failure(timeout, rank_, part.text(), label,
                           {.arrived = {rank_}, .missing = missing, .seen = seen})
        .error(label);
}

void CallMatcher::meanwhile(const std::function<bool()>& is_over, Duration timeout) {
    const auto until = end_of_wait(timeout);
    for (auto pause = Pause(short_turns); !is_last(0) && std::chrono::steady_clock::now() < until; pause()) {
        if (is_over()) return;
        advance();
    }
}

void CallMatcher::wait_for_notice(CheckedCall& part, Duration timeout) {
    if (!part.notice_ticket) return;
    if (!broken_) {
        meanwhile([&] { return channel_->done(*part.notice_ticket); }, timeout);
        try {
            channel_->wait(*part.notice_ticket, *part.label, timeout);
            messages_.heard(part);
        } catch (const UsageError&) {
            throw;
        } catch (...) {
            break_with(std::current_exception());
        }
    }
    part.notice_ticket = std::nullopt;
}

}  // namespace rankmesh::detail
