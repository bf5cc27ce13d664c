// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "engine/gloo/transport/connection.hpp"
#include "engine/gloo/transport/network.hpp"

namespace rankmesh::detail {

/// As long as Gloo is ever told to wait: timeouts are kept by rankmesh, since Gloo breaks all connections of
/// a group at one of its own before anybody can be asked who is missing.
constexpr auto without_end = std::chrono::milliseconds(std::chrono::hours(24 * 365));

/// One group's connections: first their near ends are made, then each is connected to its far end.
class Connections final : public ::gloo::Context {
public:
    /// Makes the near ends; each takes one descriptor.
    Connections(std::shared_ptr<Network> network, int group_rank, int size);
    ~Connections() override;

    /// Where the rank `group_rank` reaches this one: a few bytes for `connect` there.
    std::string endpoint_for(int group_rank) const;
    /// Connects to all others, who gave these endpoints, by group rank; the group ranks of those that were
    /// not reached in time. Throws Unreachable as soon as it is sure that one never will be.
    std::vector<int> connect(const std::vector<std::string>& endpoints,
                             std::chrono::steady_clock::time_point until);
    struct Unreachable {
        int group_rank;
        std::string why;
    };

    std::unique_ptr<::gloo::transport::UnboundBuffer> buffer(const void* data, std::size_t bytes) {
        return createUnboundBuffer(const_cast<void*>(data), bytes);
    }
    /// Ends every connection; what waits on one throws, and nobody touches its buffers afterwards.
    void cut() noexcept;

private:
    class Buffers;
    Connection& connection(int group_rank) const;

    const std::shared_ptr<Network> network_;
    std::shared_ptr<Buffers> buffers_;
};

}  // namespace rankmesh::detail
