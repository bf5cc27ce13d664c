// SPDX-License-Identifier: Apache-2.0
#include "engine/checked/device_channel.hpp"

namespace rankmesh::detail {

CheckedDeviceChannel::CheckedDeviceChannel(std::shared_ptr<Channel> engine,
                                           std::shared_ptr<Channel> comparisons, const Ranks& ranks,
                                           int group_rank, Duration timeout)
    : engine_(std::move(engine)),
      size_(static_cast<std::size_t>(ranks.size())),
      group_rank_(group_rank),
      timeout_(timeout),
      matcher_(std::make_shared<CallMatcher>(std::move(comparisons), ranks, group_rank, false,
                                             [](CheckedCall&) {})) {}

void CheckedDeviceChannel::run(const Call& call, const Label& label, Duration timeout) {
    compare({&call, 1}, label, timeout);
    engine_->run(call, label, timeout);
}

std::uint64_t CheckedDeviceChannel::start(std::span<const Call> calls, const Label& label) {
    compare(calls, label, timeout_);
    return engine_->start(calls, label);
}

void CheckedDeviceChannel::compare(std::span<const Call> calls, const Label& label, Duration timeout) {
    const auto lock = matcher_->lock();
    auto parts = std::deque<CheckedCall>{};
    try {
        for (const auto& call : calls)
            each_half(call, group_rank_, [&](const Call& half) {
                matcher_->add(
                    parts.emplace_back(CheckedCall{.call = OwnedCall(half, size_), .label = &label}));
            });
        matcher_->settle(parts, timeout);
        for (auto& part : parts) matcher_->wait_for_notice(part, timeout);
    } catch (...) {
        for (auto& part : parts) matcher_->withdraw(part);
        throw;
    }
    if (matcher_->broken()) fail(matcher_->broken());
    for (const auto& part : parts)
        if (part.error) std::rethrow_exception(part.error);
}

}  // namespace rankmesh::detail
