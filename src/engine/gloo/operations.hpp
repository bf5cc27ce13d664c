// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "engine/channel.hpp"
#include "engine/gloo/transport/connections.hpp"

namespace rankmesh::detail {

/// Runs one collective to its end by Gloo's algorithm of that name; `tag` is equal on all ranks and different
/// from that of any other call in flight. A scan, which Gloo lacks, is made of messages.
void run_collective(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag);

/// Every rank sends each other rank a part of `call.in`, and combines what it receives, in the order of
/// ranks, in `call.out`: one step, whatever the size of the group. The part for rank i begins `i * stride`
/// bytes into `call.in` and is as long as `call.out`.
void fan_in(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag,
            std::size_t stride);

}  // namespace rankmesh::detail
