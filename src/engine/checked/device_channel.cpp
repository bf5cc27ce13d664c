// SPDX-License-Identifier: Apache-2.0
#include "engine/checked/device_channel.hpp"

namespace rankmesh::detail {

CheckedDeviceChannel::CheckedDeviceChannel(std::shared_ptr<Channel> engine, std::shared_ptr<Channel> beside,
                                           const Ranks& ranks, int position, Duration deadline)
    : engine_(std::move(engine)),
      position_(position),
      deadline_(deadline),
      comparer_(std::make_shared<Comparer>(std::move(beside), ranks, position, [](Part&) {})) {}

void CheckedDeviceChannel::run(const Call& call, const Label& label, Duration deadline) {
    compare({&call, 1}, label, deadline);
    engine_->run(call, label, deadline);
}

std::uint64_t CheckedDeviceChannel::start(std::span<const Call> calls, const Label& label) {
    compare(calls, label, deadline_);
    return engine_->start(calls, label);
}

void CheckedDeviceChannel::compare(std::span<const Call> calls, const Label& label, Duration deadline) {
    const auto lock = comparer_->lock();
    auto parts = std::deque<Part>{};
    try {
        for (const auto& call : calls)
            each_half(call, position_, [&](const Call& half) {
                const auto number = is_point_to_point(half.operation) ? ++messages_ : ++collectives_;
                auto& part = parts.emplace_back(Part{.call = half, .label = &label, .number = number});
                if (half.operation == Operation::send_recv)
                    part.settled = true;
                else
                    comparer_->add(part);
            });
        for (auto& part : parts) comparer_->settle(part, deadline);
        for (auto& part : parts) comparer_->tell(part, deadline);
    } catch (...) {
        for (auto& part : parts) comparer_->withdraw(part);
        throw;
    }
    if (comparer_->broken()) fail(comparer_->broken());
    for (const auto& part : parts)
        if (part.error) std::rethrow_exception(part.error);
}

}  // namespace rankmesh::detail
