// SPDX-License-Identifier: Apache-2.0
#include "engine/join/rest.hpp"

namespace rankmesh::detail {
namespace {

/// Throws UsageError while calls of a channel are pending.
void check_idle(Channel& channel, const Label& label) {
    const auto use = Channel::Use(channel, label);
    if (channel.is_pending())
        throw UsageError(cat(label.text(),
                             " is to be suspended while calls that were started on it are not "
                             "complete; wait for them first"));
}

}  // namespace

void check_idle(Joining& joining, std::span<const std::size_t> connections) {
    for (const auto connection : connections) {
        const auto& rest = joining.rests[connection];
        if (rest.suspended) continue;
        check_idle(*joining.channels[connection], *rest.request.label);
        if (joining.device) check_idle(*joining.on_device[connection], *rest.request.label);
    }
}

void suspend(Joining& joining, std::size_t connection) {
    auto& rest = joining.rests[connection];
    if (rest.suspended) return;
    auto& host = *joining.channels[connection];
    auto* device = joining.device ? joining.on_device[connection].get() : nullptr;
    const auto& label = *rest.request.label;
    {
        const auto use = Channel::Use(host, label);
        // None is released while another rank still needs it.
        host.run({.operation = Operation::barrier}, label, rest.timeout);
        joining.exchange.forget(rest.key());
        if (device) device->engine_channel().release();
        host.engine_channel().release();
    }
    host.set_suspended(true);
    if (device) device->set_suspended(true);
    rest.suspended = true;
}

void resume(Joining& joining, std::size_t connection) {
    auto& rest = joining.rests[connection];
    if (!rest.suspended) return;
    auto& host = *joining.channels[connection];
    ++rest.resumed;
    auto request = rest.request;
    request.key = rest.key();
    joining.exchange.restore(host.engine_channel(), request);
    host.set_suspended(false);
    if (joining.device) {
        auto& device = *joining.on_device[connection];
        joining.device->restore(device.engine_channel(), request, joining.channels[connection]);
        device.set_suspended(false);
    }
    rest.suspended = false;
}

Usage usage_of(const Joining& joining, const std::vector<std::size_t>& connections) {
    auto usage = Usage{};
    for (const auto i : connections) {
        const auto& label = *joining.rests[i].request.label;
        auto held = joining.channels[i]->holding();
        if (joining.device) {
            const auto on_device = joining.on_device[i]->holding();
            held.add(on_device);
            held.device_bytes = on_device.device_bytes;
        }
        usage.communicators.push_back({.axes = label.axes,
                                       .label = label.text(),
                                       .size = label.ranks.size(),
                                       .connections = held.connections,
                                       .descriptors = held.descriptors,
                                       .suspended = joining.rests[i].suspended,
                                       .device_bytes = held.device_bytes});
    }
    return usage;
}

}  // namespace rankmesh::detail
