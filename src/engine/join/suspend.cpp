// SPDX-License-Identifier: Apache-2.0
#include "engine/join/join.hpp"

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

void suspend(Joining& joining, Joining::Connection& connection) {
    if (connection.suspended) return;
    auto& host = *connection.host;
    auto* device = connection.device.get();
    const auto& label = *connection.request.label;
    {
        const auto use = Channel::Use(host, label);
        // None is released while another rank still needs it.
        host.run({.operation = Operation::barrier}, label, connection.timeout);
        joining.exchange.forget(connection.key());
        if (device) device->engine_channel().release();
        host.engine_channel().release();
    }
    host.set_suspended(true);
    if (device) device->set_suspended(true);
    connection.suspended = true;
}

void resume(Joining& joining, Joining::Connection& connection) {
    if (!connection.suspended) return;
    ++connection.resumed;
    auto request = connection.request;
    request.key = connection.key();
    joining.exchange.restore(connection.host->engine_channel(), request);
    connection.host->set_suspended(false);
    if (auto* device = connection.device.get()) {
        joining.device->restore(device->engine_channel(), request, connection.host);
        device->set_suspended(false);
    }
    connection.suspended = false;
}

}  // namespace

void suspend(Joining& joining, std::span<Joining::Connection* const> connections) {
    for (const auto* each : connections) {
        if (each->suspended) continue;
        check_idle(*each->host, *each->request.label);
        if (each->device) check_idle(*each->device, *each->request.label);
    }
    for (auto* each : connections) suspend(joining, *each);
}

void resume(Joining& joining, std::span<Joining::Connection* const> connections) {
    for (auto* each : connections) resume(joining, *each);
}

Usage usage_of(std::span<Joining::Connection* const> connections) {
    auto usage = Usage{};
    for (const auto* each : connections) {
        const auto& label = *each->request.label;
        auto held = each->host->holding();
        if (each->device) {
            const auto on_device = each->device->holding();
            held.add(on_device);
            held.device_bytes = on_device.device_bytes;
        }
        usage.communicators.push_back({.axes = label.axes,
                                       .label = label.text(),
                                       .size = label.ranks.size(),
                                       .connections = held.connections,
                                       .descriptors = held.descriptors,
                                       .suspended = each->suspended,
                                       .device_bytes = held.device_bytes});
    }
    return usage;
}

}  // namespace rankmesh::detail
