// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <memory>
#include <optional>

#include "engine/diagnosis/failure.hpp"
#include "engine/gloo/transport/connection.hpp"
#include "engine/gloo/transport/listener.hpp"
#include "engine/gloo/transport/network.hpp"

namespace rankmesh::detail {

/// The timeout that Gloo gets. rankmesh keeps timeouts itself, because Gloo would break all connections of a
/// group before ranks can ask who is missing.
constexpr auto without_end = std::chrono::milliseconds(std::chrono::hours(24 * 365));

/// The connections of one group. The local ends are made first, then each is connected to its peer.
class Connections final : public ::gloo::Context {
public:
    /// Makes the local ends. Of two ranks the higher one connects. This process listens for all higher ranks
    /// at one port.
    Connections(std::shared_ptr<Network> network, int group_rank, int size);
    ~Connections() override;

    /// The endpoint, a few bytes, at which a higher `group_rank` reaches this rank. "" for a lower one: this
    /// rank connects to it.
    std::string endpoint_for(int group_rank) const;
    /// Connects to all peers, to the lower ones at their endpoints, listed by group rank. Returns the group
    /// ranks that it did not reach in time. Calls `look` now and then, and throws what it throws. Throws
    /// Unreachable as soon as a peer cannot be reached any more, or has ended according to `ended`.
    std::vector<int> connect(const std::vector<std::string>& endpoints,
                             std::chrono::steady_clock::time_point until, const std::function<void()>& look,
                             const std::function<bool(int group_rank)>& ended);
    /// The connection to a peer could not be made, or has ended.
    struct Unreachable {
        int group_rank;
        std::string why;
    };

    /// Looks for the cause of a failure: the failure that the ranks named in it have sent before they ended
    /// their connections. Returns nothing if they have sent none.
    std::function<std::optional<Failure>(const Failure&)> cause = [](const Failure&) {
        return std::optional<Failure>{};
    };

    /// Calls `explain` with Gloo's text if a step of a buffer with a mark throws, while all buffers of its
    /// call still exist. Must be set before the first such buffer is made.
    void on_error(std::function<void(const std::string& text)> explain);

    /// A buffer whose waits may read the connections themselves.
    class Buffer : public ::gloo::transport::UnboundBuffer {
    public:
        using UnboundBuffer::UnboundBuffer;
        /// True: a wait reads the connections itself for a short time before it sleeps, if each rank on this
        /// host can have a processor.
        virtual void set_polls(bool polls) = 0;
    };
    /// A buffer that exchanges data only with buffers of the same mark and length. Data with another mark
    /// waits forever. Gloo itself ends the process if lengths differ, or accepts the shorter one. Mark 0:
    /// none.
    std::unique_ptr<Buffer> buffer(const void* data, std::size_t bytes, std::uint64_t mark = 0);
    /// The slot by which Gloo knows a message of that length, sent or received under a mark.
    static std::uint64_t slot_of(std::uint64_t slot, std::uint64_t mark, std::size_t bytes) {
        const auto mixed = (mark + bytes) * 0x9e3779b97f4a7c15U;
        return slot ^ ((mixed ^ (mixed >> 32)) & ~kind_of_slot);
    }
    /// The messages that peers have announced.
    ConnectionContext& messages() { return *messages_; }
    /// False if the connection to a peer has ended and Gloo has read everything that the peer sent before;
    /// true if Gloo has not read all of it at `until`.
    bool is_open(int group_rank, std::chrono::steady_clock::time_point until) const;
    /// Ends every connection: waits throw, and Gloo accesses no buffer afterwards.
    void cut() noexcept;

private:
    friend class CallConnections;
    class Buffers;
    Connection& connection(int group_rank) const;

    const std::shared_ptr<Network> network_;
    std::shared_ptr<ConnectionContext> messages_;
    std::shared_ptr<Buffers> buffers_;
    std::map<int, Connector> open_;          // by group rank, until they are connected
    std::map<int, Listener::Peer> awaited_;  // the same for those that connect to this rank
};

/// The connections of a group in one collective: all buffers of it have one mark. They outlive it.
class CallConnections final : public ::gloo::Context {
public:
    CallConnections(Connections& connections, std::uint64_t mark, bool polls);

    std::unique_ptr<::gloo::transport::UnboundBuffer> buffer(const void* data, std::size_t bytes) {
        return createUnboundBuffer(const_cast<void*>(data), bytes);
    }
};

}  // namespace rankmesh::detail
