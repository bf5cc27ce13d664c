// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "engine/channel.hpp"
#include "engine/gloo/transport/connections.hpp"

namespace rankmesh::detail {

/// Runs one collective to its end by Gloo's algorithm of that name; `tag` is equal on all ranks and different
/// from that of any other call in flight. A scan, which Gloo lacks, is made of messages.
void run_collective(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag);

}  // namespace rankmesh::detail
