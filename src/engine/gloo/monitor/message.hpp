// SPDX-License-Identifier: Apache-2.0
// The messages between the monitors of a channel.
#pragma once

#include <chrono>
#include <memory>

#include "engine/gloo/monitor/peer_monitor.hpp"

namespace rankmesh::detail {

/// A message is complete once head and tail hold its number: bytes arrive in order.
struct PeerMonitor::Message {
    /// How long a rank waits for replies: peers may be short of processor time, and TCP resends a lost packet
    /// after 200 ms.
    static constexpr auto reply_time = std::chrono::seconds(1);
    /// How long it waits once calls are known to differ. A rank whose reply is late cannot be told apart from
    /// the ranks that called what most did.
    static constexpr auto reply_time_in_dispute = std::chrono::seconds(5);
    /// How long a call takes before its rank compares its calls with those of its peers. Grows each time.
    static constexpr auto before_comparison = std::chrono::milliseconds(500);
    /// How long peers have to receive a failure.
    static constexpr auto delivery = std::chrono::milliseconds(100);

    std::uint64_t head = 0;
    MessageKind kind = MessageKind::arrival_query;
    std::uint32_t value = 0;
    std::uint64_t number = 0;
    char text[992] = {};
    std::uint64_t tail = 0;
};

/// A message that was sent, kept until the channel ends: Gloo may still be sending it.
struct PeerMonitor::Sent {
    Message message;
    int to = 0;
    std::unique_ptr<::gloo::transport::UnboundBuffer> buffer = nullptr;
};

}  // namespace rankmesh::detail
