// SPDX-License-Identifier: Apache-2.0
// Waiting for several operations.
#include <vector>

#include <rankmesh/engine/pending.hpp>

#include "engine/access.hpp"
#include "engine/bell.hpp"
#include "engine/channel.hpp"
#include "engine/record/recorded.hpp"
#include "engine/timeout.hpp"

namespace rankmesh {

namespace detail {
namespace of_wait {

using TimePoint = std::chrono::steady_clock::time_point;

/// While it lives, the channels of operations ring one bell.
class Bells {
public:
    explicit Bells(std::span<const std::shared_ptr<CommunicatorState>> states) {
        for (const auto& state : states) {
            if (std::ranges::count(channels_, state->channel) > 0) continue;
            channels_.push_back(state->channel);
            rings_ = state->channel->set_bell(&bell_) && rings_;
        }
    }
    ~Bells() {
        for (const auto& channel : channels_) channel->set_bell(nullptr);
    }
    Bells& operator=(Bells&&) = delete;

    /// Returns when an operation may be complete, or at `until`.
    void wait_until(TimePoint until) {
        if (rings_)
            bell_.wait_until(until);
        else
            pause_();
    }

private:
    std::vector<std::shared_ptr<Channel>> channels_;
    Bell bell_;
    Pause pause_;
    bool rings_ = true;
};

/// Shows operations in the flight record as those that a thread waits for, while it lives.
class Waits {
public:
    explicit Waits(std::span<Pending* const> pendings) {
        for (const auto* each : pendings)
            for (const auto* pending = each; pending; pending = Access::before(*pending))
                if (auto state = Access::pending_state(*pending)) {
                    states_.push_back(std::move(state));
                    records_.push_back(Access::record(*pending));
                }
        set(CallState::started);
    }
    ~Waits() { set(CallState::scheduled); }
    Waits& operator=(Waits&&) = delete;

    std::span<const std::shared_ptr<CommunicatorState>> states() const { return states_; }

private:
    void set(CallState state) noexcept {
        for (std::size_t i = 0; i < records_.size(); ++i) recorded_end(*states_[i], records_[i], state);
    }
    std::vector<std::shared_ptr<CommunicatorState>> states_;
    std::vector<RecordPlaces> records_;
};

std::vector<Pending*> pointers(std::span<Pending> pendings) {
    auto all = std::vector<Pending*>{};
    for (auto& each : pendings) all.push_back(&each);
    return all;
}

}  // namespace of_wait

std::optional<std::size_t> first_complete(std::span<Pending* const> pendings, of_wait::TimePoint since) {
    auto left = std::vector<std::size_t>{};
    auto expires = std::vector<of_wait::TimePoint>{};  // by index
    for (std::size_t i = 0; i < pendings.size(); ++i) {
        const auto state = Access::pending_state(*pendings[i]);
        if (state) left.push_back(i);
        expires.push_back(since + std::min(state ? state->timeout : Duration{}, longest_timeout));
    }
    if (left.empty()) return std::nullopt;
    const auto find = [&]() -> std::optional<std::size_t> {
        for (const auto i : left)
            if (pendings[i]->done()) return i;
        return std::nullopt;
    };
    if (const auto found = find()) return found;
    const auto first = *std::ranges::min_element(left, {}, [&](auto i) { return expires[i]; });
    const auto has_expired = [&] { return std::chrono::steady_clock::now() >= expires[first]; };
    if (left.size() == 1) return first;  // waiting for it says more while it lasts
    const auto waits = of_wait::Waits(pendings);
    auto bells = of_wait::Bells(waits.states());
    for (;;) {
        if (const auto found = find()) return found;
        if (has_expired()) return first;
        bells.wait_until(expires[first]);
    }
}

void wait_all(std::span<Pending* const> pendings) {
    const auto since = std::chrono::steady_clock::now();
    auto error = std::exception_ptr();
    for (auto* pending : pendings) {
        try {
            Access::wait(*pending, std::chrono::steady_clock::now() - since);
        } catch (...) {
            if (!error) error = std::current_exception();
        }
    }
    if (error) std::rethrow_exception(error);
}

std::optional<std::size_t> wait_any(std::span<Pending* const> pendings) {
    const auto since = std::chrono::steady_clock::now();
    const auto index = first_complete(pendings, since);
    if (!index) return index;
    const auto before = PassedBefore(std::chrono::steady_clock::now() - since);
    pendings[*index]->synchronize();
    return index;
}

}  // namespace detail

void wait_all(std::span<Pending> pendings) { detail::wait_all(detail::of_wait::pointers(pendings)); }

std::optional<std::size_t> wait_any(std::span<Pending> pendings) {
    return detail::wait_any(detail::of_wait::pointers(pendings));
}

}  // namespace rankmesh
