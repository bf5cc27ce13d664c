// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/diagnosis/failure.hpp"
#include "engine/gloo/transport/connection.hpp"
#include "engine/gloo/transport/connector.hpp"
#include "engine/gloo/transport/listener.hpp"
#include "engine/gloo/transport/network.hpp"

namespace rankmesh::detail {

/// The timeout that Gloo is given: rankmesh keeps timeouts itself, since Gloo would break all connections of
/// a group before the ranks can be asked who is missing.
constexpr auto without_end = std::chrono::milliseconds(std::chrono::hours(24 * 365));

/// The connections of one group: the local ends are made first, then each is connected to its peer.
class Connections final : public ::gloo::Context {
public:
    /// Makes the local ends. Of two ranks the higher one connects; for all higher ones this process listens
    /// at one port.
    Connections(std::shared_ptr<Network> network, int group_rank, int size);
    ~Connections() override;

    /// The endpoint by which a higher `group_rank` reaches this rank: a few bytes for its `connect`; "" for a
    /// lower one, to which this rank connects.
    std::string endpoint_for(int group_rank) const;
    /// Connects to all peers, the lower ones by their endpoints, listed by group rank; returns the group
    /// ranks of those that were not reached in time. Throws Unreachable as soon as one is sure never to be,
    /// as those are of which `ended` says so, and what `look` throws, which is called now and then.
    std::vector<int> connect(const std::vector<std::string>& endpoints,
                             std::chrono::steady_clock::time_point until, const std::function<void()>& look,
                             const std::function<bool(int group_rank)>& ended);
    /// The connection to a peer could not be made, or has ended.
    struct Unreachable {
        int group_rank;
        std::string why;
    };

    /// The failure for which the ranks that a failure lacks have ended their connections here, nothing if
    /// they have told none.
    std::function<std::optional<Failure>(const Failure&)> cause = [](const Failure&) {
        return std::optional<Failure>{};
    };

    /// Calls `explain` with what Gloo says when a step of a buffer with a mark throws, while all buffers of
    /// its call are still there. To be set before the first of them is made.
    void on_error(std::function<void(const std::string& text)> explain);

    /// During its lifetime, buffers that this thread makes exchange data only with buffers that their peers
    /// made with the same mark, and only with as many bytes: what has another mark waits for ever. Gloo
    /// itself ends the process where lengths differ, or takes what is shorter.
    class Mark {
    public:
        explicit Mark(std::uint64_t mark) { current_ = mark; }
        ~Mark() { current_ = 0; }
        Mark(const Mark&) = delete;
        Mark& operator=(const Mark&) = delete;
        /// That of this thread, 0 without one.
        static std::uint64_t current() { return current_; }

    private:
        static thread_local std::uint64_t current_;
    };

    std::unique_ptr<::gloo::transport::UnboundBuffer> buffer(const void* data, std::size_t bytes) {
        return createUnboundBuffer(const_cast<void*>(data), bytes);
    }
    /// False if the connection to a peer has ended, once Gloo has read what the peer sent before; true if it
    /// has not read that at `until`.
    bool is_open(int group_rank, std::chrono::steady_clock::time_point until) const;
    /// Ends every connection: waits throw, and no buffer is accessed afterwards.
    void cut() noexcept;

private:
    class Buffers;
    Connection& connection(int group_rank) const;

    const std::shared_ptr<Network> network_;
    std::shared_ptr<Buffers> buffers_;
    std::map<int, Connector> open_;          // by group rank, until they are connected
    std::map<int, Listener::Peer> awaited_;  // the same for those that connect to this rank
};

}  // namespace rankmesh::detail
