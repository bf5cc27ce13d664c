// SPDX-License-Identifier: Apache-2.0
#include "engine/join/suspend.hpp"

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
        const auto& held = joining.connections[connection];
        if (held.suspended) continue;
        check_idle(*joining.channels[connection], *held.request.label);
        if (joining.device) check_idle(*joining.on_device[connection], *held.request.label);
    }
}

void suspend(Joining& joining, std::size_t connection) {
    auto& held = joining.connections[connection];
    if (held.suspended) return;
    auto& host = *joining.channels[connection];
    auto* device = joining.device ? joining.on_device[connection].get() : nullptr;
    const auto& label = *held.request.label;
    {
        const auto use = Channel::Use(host, label);
        // None is released while another rank still needs it.
        host.run({.operation = Operation::barrier}, label, held.timeout);
        joining.exchange.forget(held.key());
        if (device) device->engine_channel().release();
        host.engine_channel().release();
    }
    host.set_suspended(true);
    if (device) device->set_suspended(true);
    held.suspended = true;
}

void resume(Joining& joining, std::size_t connection) {
    auto& held = joining.connections[connection];
    if (!held.suspended) return;
    auto& host = *joining.channels[connection];
    ++held.resumed;
    auto request = held.request;
    request.key = held.key();
    joining.exchange.restore(host.engine_channel(), request);
    host.set_suspended(false);
    if (joining.device) {
        auto& device = *joining.on_device[connection];
        joining.device->restore(device.engine_channel(), request, joining.channels[connection]);
        device.set_suspended(false);
    }
    held.suspended = false;
}

Usage usage_of(const Joining& joining, const std::vector<std::size_t>& connections) {
    auto usage = Usage{};
    for (const auto i : connections) {
        const auto& label = *joining.connections[i].request.label;
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
                                       .suspended = joining.connections[i].suspended,
                                       .device_bytes = held.device_bytes});
    }
    return usage;
}

}  // namespace rankmesh::detail
