// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/pending.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include "engine/channel.hpp"
#include "engine/packed.hpp"

namespace rankmesh {

Pending::Pending() = default;
Pending::Pending(std::shared_ptr<detail::Line> line, std::uint64_t ticket)
    : line_(std::move(line)), ticket_(ticket), exceptions_(std::uncaught_exceptions()) {}
Pending::Pending(std::shared_ptr<detail::Line> line, std::uint64_t ticket,
                 std::unique_ptr<detail::Packed> packed)
    : line_(std::move(line)),
      ticket_(ticket),
      packed_(std::move(packed)),
      exceptions_(std::uncaught_exceptions()) {}

Pending::Pending(Pending&& other) noexcept
    : line_(std::move(other.line_)),
      ticket_(other.ticket_),
      packed_(std::move(other.packed_)),
      ordered_(other.ordered_),
      exceptions_(std::min(other.exceptions_, std::uncaught_exceptions())) {}

Pending& Pending::operator=(Pending&& other) noexcept {
    if (this != &other) {
        leave();
        line_ = std::move(other.line_);
        ticket_ = other.ticket_;
        packed_ = std::move(other.packed_);
        ordered_ = other.ordered_;
        exceptions_ = std::min(other.exceptions_, std::uncaught_exceptions());
    }
    return *this;
}

Pending::~Pending() { leave(); }

void Pending::wait() { finish(false); }
void Pending::synchronize() { finish(true); }

void Pending::finish(bool synchronize) {
    if (!line_ || (ordered_ && !synchronize)) return;
    auto line = std::shared_ptr<detail::Line>{};  // which the use must not outlive
    const auto use = detail::Channel::Use(*line_->channel, *line_->label);
    line = std::move(line_);
    try {
        if (synchronize)
            line->channel->synchronize(ticket_, *line->label, line->deadline);
        else
            line->channel->wait(ticket_, *line->label, line->deadline);
    } catch (const Misuse&) {
        line_ = line;  // it was not even tried: the operation still has the buffers
        throw;
    }
    // What fails otherwise has let go of them.
    ordered_ = !synchronize && line->space == Space::device;
    if (ordered_) line_ = line;
    if (packed_) packed_->unpack(*line);
    packed_ = nullptr;
}

bool Pending::done() {
    if (!line_) return true;
    const auto use = detail::Channel::Use(*line_->channel, *line_->label);
    return line_->channel->done(ticket_);
}

void Pending::leave() noexcept {
    if (!line_) return;
    if (!ordered_ && std::uncaught_exceptions() <= exceptions_) {
        try {
            wait();
        } catch (const std::exception& error) {
            std::fprintf(stderr, "rankmesh: an operation that nobody waited for failed: %s\n", error.what());
        }
    }
    // Waited for on a device, the buffers are the stream's. Unwinding, or on a thread that may not wait: what
    // still has buffers that are about to go must let go of them.
    if (line_ && ordered_)
        line_->channel->forget(ticket_);
    else if (line_)
        line_->channel->leave(ticket_, *line_->label);
    line_ = nullptr;
    packed_ = nullptr;
}

}  // namespace rankmesh
