// SPDX-License-Identifier: Apache-2.0
// What the monitors of a channel send each other.
#pragma once

#include <chrono>
#include <memory>

#include "engine/gloo/monitor/peer_monitor.hpp"

namespace rankmesh::detail {

/// It is whole once both numbers are: its bytes come in order.
struct PeerMonitor::Message {
    /// How long members may take to say where they are: one packet may be lost, and TCP sends it again after
    /// 200 ms.
    static constexpr auto patience = std::chrono::milliseconds(400);
    /// How long they may take to take what they are told.
    static constexpr auto telling = std::chrono::milliseconds(100);

    std::uint64_t head = 0;
    MessageKind kind = MessageKind::probe;
    std::uint32_t yes = 0;
    std::uint64_t number = 0;
    char text[992] = {};
    std::uint64_t tail = 0;
};

/// What was told, until the channel ends: Gloo may still send it.
struct PeerMonitor::Sent {
    Message message;
    int to = 0;
    std::unique_ptr<::gloo::transport::UnboundBuffer> buffer = nullptr;
};

}  // namespace rankmesh::detail
