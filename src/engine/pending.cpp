// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/pending.hpp>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "engine/channel.hpp"
#include "engine/record/recorded.hpp"

namespace rankmesh {

Pending::Pending() = default;
Pending::Pending(std::shared_ptr<detail::CommunicatorState> state, std::uint64_t ticket,
                 detail::RecordPlaces record, std::unique_ptr<detail::Staged> staged)
    : state_(std::move(state)),
      ticket_(ticket),
      staged_(std::move(staged)),
      exceptions_(std::uncaught_exceptions()),
      record_(record) {}

Pending::Pending(Pending&& other) noexcept
    : state_(std::move(other.state_)),
      before_(std::move(other.before_)),
      ticket_(other.ticket_),
      staged_(std::move(other.staged_)),
      ordered_(other.ordered_),
      exceptions_(std::min(other.exceptions_, std::uncaught_exceptions())),
      sender_(other.sender_),
      record_(other.record_) {}

Pending& Pending::operator=(Pending&& other) noexcept {
    if (this != &other) {
        leave();
        state_ = std::move(other.state_);
        before_ = std::move(other.before_);
        ticket_ = other.ticket_;
        staged_ = std::move(other.staged_);
        ordered_ = other.ordered_;
        exceptions_ = std::min(other.exceptions_, std::uncaught_exceptions());
        sender_ = other.sender_;
        record_ = other.record_;
    }
    return *this;
}

Pending::~Pending() { leave(); }

void Pending::wait() { finish(false); }
void Pending::synchronize() { finish(true); }

void Pending::finish(bool synchronize) {
    try {
        if (before_) before_->finish(synchronize);
    } catch (const Disagreement&) {
        // The other parts can complete. If they stayed pending, unwinding would end an MPI job without this
        // text.
        before_ = nullptr;
        try {
            finish(synchronize);
        } catch (...) {  // the first error is thrown
        }
        throw;
    }
    if (!state_ || (ordered_ && !synchronize)) return;
    auto state = std::shared_ptr<detail::CommunicatorState>{};  // which the use must not outlive
    const auto use = detail::Channel::Use(*state_->channel, *state_->label);
    state = std::move(state_);
    try {
        if (synchronize)
            detail::recorded_wait(*state, record_, [&] {
                state->channel->synchronize(ticket_, *state->label, state->timeout);
            });
        else if (state->space == Space::device)  // which does not block
            state->channel->wait(ticket_, *state->label, state->timeout);
        else
            detail::recorded_wait(*state, record_,
                                  [&] { state->channel->wait(ticket_, *state->label, state->timeout); });
    } catch (const UsageError&) {
        state_ = state;  // the wait did not begin: the operation still uses the buffers
        throw;
    } catch (const Disagreement&) {
        if (!staged_) throw;
        staged_->described([] { throw; });
    }
    if (const auto sender = state->channel->take_sender(); sender >= 0) [[unlikely]] {
        sender_ = sender;
        if (state->ring) state->ring->set_peer(record_.first, sender);
    }
    // After other errors it no longer uses them.
    ordered_ = !synchronize && state->space == Space::device;
    if (ordered_) state_ = state;
    if (staged_) staged_->unpack(*state);
    staged_ = nullptr;
}

bool Pending::done() {
    if (before_ && !before_->done()) return false;
    if (!state_) return true;
    const auto use = detail::Channel::Use(*state_->channel, *state_->label);
    return state_->channel->done(ticket_);
}

int Pending::sender() const {
    if (sender_ < 0)
        throw UsageError(
            "the sender of an operation that is no complete receive from any rank; wait for it first");
    return sender_;
}

void Pending::leave() noexcept {
    if (!state_) return;
    if (state_->channel->is_foreign()) {  // the process that has started it waits for it
        state_ = nullptr;
        return;
    }
    if (!ordered_ && std::uncaught_exceptions() <= exceptions_) {
        const auto told = state_->channel->has_reported();
        try {
            wait();
        } catch (const std::exception& error) {
            if (!told)
                std::fprintf(stderr, "rankmesh: an operation that nobody waited for failed: %s\n",
                             error.what());
        }
    }
    // After wait() on a device the stream uses the buffers. While unwinding, or on a thread that may not
    // wait, an operation must stop using buffers that are about to be destroyed.
    if (state_ && ordered_)
        state_->channel->forget(ticket_);
    else if (state_) {
        detail::recorded_end(*state_, record_, detail::CallState::failed);
        state_->channel->leave(ticket_, *state_->label);
    }
    state_ = nullptr;
    staged_ = nullptr;
}

}  // namespace rankmesh
