// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "engine/checked/call_matcher.hpp"

namespace rankmesh::detail {

/// A device's channel whose ranks compare each call on the host before the device gets it.
///
/// The host waits in a call until all ranks have made theirs: work that a program enqueues on the stream
/// after the call must run after it, so the call cannot be enqueued later. A call that throws has not been
/// enqueued.
class CheckedDeviceChannel final : public Channel {
public:
    /// `comparisons` is a second channel of the same ranks on the host, used only to compare calls. A
    /// comparison takes at most `timeout`.
    CheckedDeviceChannel(std::shared_ptr<Channel> engine, std::shared_ptr<Channel> comparisons,
                         const Ranks& ranks, int group_rank, Duration timeout);

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

    Channel& engine_channel() override { return *engine_; }
    bool is_pending() override { return engine_->is_pending(); }
    Holding holding() override {
        auto held = engine_->holding();
        held.add(matcher_->holding());
        return held;
    }

private:
    void compare(std::span<const Call> calls, const Label& label, Duration timeout);

    const std::shared_ptr<Channel> engine_;
    const std::size_t size_;
    const int group_rank_;
    const Duration timeout_;
    const std::shared_ptr<CallMatcher> matcher_;
};

}  // namespace rankmesh::detail
