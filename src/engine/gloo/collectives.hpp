// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "engine/channel.hpp"
#include "engine/gloo/transport/connections.hpp"

namespace rankmesh::detail {

/// Runs one collective to its end by Gloo's algorithm of that name; `tag` is the same on all members and of
/// no other call that runs. A scan, which Gloo lacks, is messages here.
void run_collective(const Call& call, const std::shared_ptr<Connections>& connections, std::uint32_t tag);

}  // namespace rankmesh::detail
