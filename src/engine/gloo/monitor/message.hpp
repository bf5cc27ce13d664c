// SPDX-License-Identifier: Apache-2.0
// The messages between the monitors of a channel.
#pragma once

#include <chrono>
#include <memory>

#include "engine/gloo/monitor/peer_monitor.hpp"

namespace rankmesh::detail {

/// A message is complete once head and tail hold its number: bytes arrive in order.
struct PeerMonitor::Message {
    /// The time that peers have to answer: they may be short of processor time, and TCP sends a packet that
    /// is lost again after 200 ms.
    static constexpr auto patience = std::chrono::seconds(1);
    /// The same where calls are known to differ: who has not said its own by then is not told apart from
    /// those that called what most did.
    static constexpr auto patience_in_dispute = std::chrono::seconds(5);
    /// How long a rank waits before it compares its calls with those of its peers, longer each time.
    static constexpr auto before_comparison = std::chrono::milliseconds(500);
    /// The time that peers have to receive a failure.
    static constexpr auto telling = std::chrono::milliseconds(100);

    std::uint64_t head = 0;
    MessageKind kind = MessageKind::question;
    std::uint32_t yes = 0;
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
