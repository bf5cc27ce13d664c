// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "engine/checked/call_matcher.hpp"

namespace rankmesh::detail {

/// A device's channel whose members compare what they call on the host, before the device gets it.
///
/// Work that a program puts on a stream after a call runs after it, so a call cannot be kept back: the host
/// waits in it until all members have called theirs. What throws has not been handed over.
class CheckedDeviceChannel final : public Channel {
public:
    /// `beside` connects the same members on the host, and carries nothing else; comparing takes at most
    /// `timeout`.
    CheckedDeviceChannel(std::shared_ptr<Channel> engine, std::shared_ptr<Channel> beside, const Ranks& ranks,
                         int group_rank, Duration timeout);

    void run(const Call& call, const Label& label, Duration timeout) override;
    std::uint64_t start(std::span<const Call> calls, const Label& label) override;
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

    /// What the calls reach in the end.
    const Channel& engine() const { return *engine_; }

private:
    void compare(std::span<const Call> calls, const Label& label, Duration timeout);

    const std::shared_ptr<Channel> engine_;
    const int group_rank_;
    const Duration timeout_;
    std::uint64_t collectives_ = 0;
    std::uint64_t messages_ = 0;
    const std::shared_ptr<CallMatcher> matcher_;
};

}  // namespace rankmesh::detail
