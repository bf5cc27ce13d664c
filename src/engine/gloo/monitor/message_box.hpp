// SPDX-License-Identifier: Apache-2.0
// The messages between the monitors of a channel.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/gloo/transport/connections.hpp"

namespace rankmesh::detail {

enum class MessageKind : std::uint32_t {
    arrival_query,  // has the receiver called the collective of that number?
    arrival_reply,
    failure,
    goodbye,
    calls,       // the text lists the last calls of the sender
    difference,  // the receiver has called something else
    call_query,  // what did the receiver call as that number?
    call_reply,
    device_query,  // an arrival_query about a channel of devices
    device_reply
};

/// A message is complete once head and tail hold its number: bytes arrive in order.
struct MonitorMessage {
    std::uint64_t head = 0;
    MessageKind kind = MessageKind::arrival_query;
    std::uint32_t value = 0;
    std::uint64_t number = 0;
    char text[992] = {};
    std::uint64_t tail = 0;
};

/// Sends messages to the peers of a channel, from any thread, and takes theirs on one thread.
class MessageBox {
public:
    /// Begins to receive from every peer. Throws Connections::Unreachable for a peer that is gone already.
    explicit MessageBox(std::shared_ptr<Connections> connections);

    /// Returns false if the connection to the peer has ended.
    bool send(int to, MessageKind kind, std::uint64_t number, std::uint32_t value,
              const std::string& text) noexcept;
    /// Ends the waits for what was sent to a peer: Gloo does not always notice that it will never complete.
    void give_up(int to) noexcept {
        const auto lock = std::lock_guard(sending_);
        for (const auto& sent : sent_)
            if (sent->to == to) sent->buffer->abortWaitSend();
    }
    /// Waits until a peer has the goodbye that it was sent, or `until`.
    void wait_for_goodbye(int to, std::chrono::steady_clock::time_point until) noexcept;

    /// Waits for a message, or `wake`. Throws if a connection breaks.
    void wait() { incoming_->waitRecv(without_end); }
    void wake() noexcept { incoming_->abortWaitRecv(); }
    /// The next message of a peer, once it is complete; null before. Valid until `expect`.
    const MonitorMessage* take(int from);
    /// Begins to receive the message after the one that was taken. Throws if the connection has ended.
    void expect(int from);

private:
    /// A message that was sent, kept until the channel ends: Gloo may still be sending it.
    struct Sent {
        MonitorMessage message;
        int to = 0;
        std::unique_ptr<::gloo::transport::UnboundBuffer> buffer = nullptr;
    };

    const std::shared_ptr<Connections> connections_;
    std::mutex sending_;
    std::vector<std::unique_ptr<Sent>> sent_;
    std::vector<std::uint64_t> sent_count_;      // the number of messages, by group rank
    std::vector<std::uint64_t> received_count_;  // the same of those that were taken
    std::unique_ptr<MonitorMessage[]> inbox_;    // by group rank
    std::unique_ptr<::gloo::transport::UnboundBuffer> incoming_;
};

}  // namespace rankmesh::detail
