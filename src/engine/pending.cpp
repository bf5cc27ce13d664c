// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/pending.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include "engine/channel.hpp"

namespace rankmesh {

Pending::Pending(std::shared_ptr<detail::Line> line, std::uint64_t ticket)
    : line_(std::move(line)), ticket_(ticket), exceptions_(std::uncaught_exceptions()) {}

Pending::Pending(Pending&& other) noexcept
    : line_(std::move(other.line_)),
      ticket_(other.ticket_),
      exceptions_(std::min(other.exceptions_, std::uncaught_exceptions())) {}

Pending& Pending::operator=(Pending&& other) noexcept {
    if (this != &other) {
        leave();
        line_ = std::move(other.line_);
        ticket_ = other.ticket_;
        exceptions_ = std::min(other.exceptions_, std::uncaught_exceptions());
    }
    return *this;
}

Pending::~Pending() { leave(); }

void Pending::wait() {
    if (!line_) return;
    const auto line = line_;
    const auto use = detail::Channel::Use(*line->channel, *line->label);
    try {
        line->channel->wait(ticket_, *line->label, line->deadline);
    } catch (const Misuse&) {
        throw;  // it was not even tried: the operation still has the buffers
    } catch (...) {
        line_ = nullptr;  // it failed, and has let go of them
        throw;
    }
    line_ = nullptr;
}

bool Pending::done() {
    if (!line_) return true;
    const auto use = detail::Channel::Use(*line_->channel, *line_->label);
    return line_->channel->done(ticket_);
}

void Pending::leave() noexcept {
    if (!line_) return;
    if (std::uncaught_exceptions() <= exceptions_) {
        try {
            wait();
        } catch (const std::exception& error) {
            std::fprintf(stderr, "rankmesh: an operation that nobody waited for failed: %s\n", error.what());
        }
    }
    // Unwinding, or on a thread that may not wait: what still has buffers that are about to go must let go of
    // them.
    if (line_) line_->channel->leave(ticket_, *line_->label);
    line_ = nullptr;
}

}  // namespace rankmesh
