// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/pending.hpp>

#include <cstdio>
#include <exception>
#include <utility>

#include "engine/channel.hpp"

namespace rankmesh {

Pending::Pending(std::shared_ptr<detail::Line> line, std::uint64_t ticket)
    : line_(std::move(line)), ticket_(ticket), exceptions_(std::uncaught_exceptions()) {}

Pending::Pending(Pending&& other) noexcept
    : line_(std::move(other.line_)), ticket_(other.ticket_), exceptions_(other.exceptions_) {}

Pending& Pending::operator=(Pending&& other) noexcept {
    if (this != &other) {
        leave();
        line_ = std::move(other.line_);
        ticket_ = other.ticket_;
        exceptions_ = other.exceptions_;
    }
    return *this;
}

Pending::~Pending() { leave(); }

void Pending::wait() {
    if (!line_) return;
    const auto line = line_;
    const auto use = detail::Channel::Use(*line->channel, *line->label);
    line_ = nullptr;  // an operation that fails has let go of its buffers, too
    line->channel->wait(ticket_, *line->label, line->deadline);
}

bool Pending::done() {
    if (!line_) return true;
    const auto use = detail::Channel::Use(*line_->channel, *line_->label);
    return line_->channel->done(ticket_);
}

void Pending::leave() noexcept {
    if (!line_) return;
    if (std::uncaught_exceptions() > exceptions_) {
        line_->channel->leave(ticket_, *line_->label);
        line_ = nullptr;
        return;
    }
    try {
        wait();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "rankmesh: an operation that nobody waited for failed: %s\n", error.what());
    }
}

}  // namespace rankmesh
