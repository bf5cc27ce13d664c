// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "engine/gloo/network.hpp"
#include "engine/gloo/wire.hpp"

namespace rankmesh::detail {

/// As long as Gloo is ever told to wait: deadlines are kept by rankmesh, since Gloo breaks all connections of
/// a group at one of its own before anybody can be asked who is missing.
constexpr auto without_end = std::chrono::milliseconds(std::chrono::hours(24 * 365));

/// One group's connections: first their near ends are made, then each is connected to its far end.
class Wires final : public ::gloo::Context {
public:
    /// Makes the near ends; each takes one descriptor.
    Wires(std::shared_ptr<Network> network, int position, int size);
    ~Wires() override;

    /// Where the member at `position` reaches this one: a few bytes for `connect` there.
    std::string invitation_for(int position) const;
    /// Connects to all others, who gave these invitations, by position; the positions of those that were not
    /// reached in time. Throws Unreachable as soon as it is sure that one never will be.
    std::vector<int> connect(const std::vector<std::string>& invitations,
                             std::chrono::steady_clock::time_point until);
    struct Unreachable {
        int position;
        std::string why;
    };

    std::unique_ptr<::gloo::transport::UnboundBuffer> buffer(const void* data, std::size_t bytes) {
        return createUnboundBuffer(const_cast<void*>(data), bytes);
    }
    /// Ends every connection; what waits on one throws, and nobody touches its buffers afterwards.
    void cut() noexcept;

private:
    class Connections;
    Wire& wire(int position) const;

    const std::shared_ptr<Network> network_;
    std::shared_ptr<Connections> connections_;
};

}  // namespace rankmesh::detail
