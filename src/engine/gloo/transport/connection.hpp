// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/fork.hpp"
#include "engine/gloo/slots.hpp"

namespace rankmesh::detail {

/// The slots of messages between two ranks, by their first byte.
constexpr auto message_slot = first_slot(SlotKind::message);
constexpr auto kind_of_slot = std::uint64_t{0xff} << 56;

/// One end of a connection between two ranks, with authentication.
///
/// Gloo's own listens at a port of its own, takes the first process that connects there for its peer, and
/// some bytes from a foreign process end this process. This one is given a socket that a Connector has
/// connected, or at which a Listener has accepted the peer.
class Connection final : public ::gloo::transport::tcp::Pair {
public:
    /// Gives back at once the port that Gloo has taken: on Gloo's thread, which so has accepted nobody there.
    Connection(::gloo::transport::tcp::Context* context, ::gloo::transport::tcp::Device* device,
               int group_rank, std::chrono::milliseconds timeout);
    ~Connection() override;

    /// Takes over an authenticated connection to the peer, which this end has connected or accepted.
    void adopt(int descriptor, bool has_connected);
    /// What comes from the peer: nothing yet, something that Gloo has not read, or nothing any more.
    enum class Incoming { nothing, unread, ended };
    Incoming incoming();

    void handleEvents(int events) override;

    /// What a wait is for: data, or the peer's request to be sent data.
    enum class Event { data, request };
    /// Reads what the peer has sent, on the calling thread. Returns whether the last event of this kind had
    /// this slot.
    bool poll(Event event, std::uint64_t slot);

protected:
    bool read() override;

private:
    const ClosedOnFork closed_in_children_{fd_};
    std::array<std::atomic<std::uint64_t>, 2> last_slots_{};  // by Event
};

/// Gloo's factory of such connections.
class ConnectionContext final : public ::gloo::transport::tcp::Context {
public:
    ConnectionContext(const std::shared_ptr<::gloo::transport::Device>& device, int group_rank, int size);
    std::unique_ptr<::gloo::transport::Pair>& createPair(int group_rank) override;

    /// A message that a peer has announced, and that this rank has not begun to receive.
    struct Announced {
        int from;
        std::uint64_t slot;
        std::size_t bytes;
    };
    /// Those messages, in the order in which they were announced.
    std::vector<Announced> announced();
    /// Counts the announcements, and what else wakes those that wait for one.
    std::uint64_t announcements();
    /// Waits for an announcement after the first `known`.
    void await_announcement(std::uint64_t known);
    void wake();
    /// Called by the connections: a peer has announced what it sends.
    void announce(const Announced& message);

private:
    bool is_pending(const Announced& message);

    std::condition_variable announcement_;
    std::vector<Announced> announced_;  // under Gloo's lock, as all below; some may be received by now
    std::size_t most_announced_ = 64;   // when those are dropped
    std::uint64_t announcements_ = 0;
};

}  // namespace rankmesh::detail
