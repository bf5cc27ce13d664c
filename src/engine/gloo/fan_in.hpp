// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "engine/channel.hpp"
#include "engine/gloo/transport/connections.hpp"

namespace rankmesh::detail {

/// Every member sends each other one a part of `call.in`, and combines what it is sent in the order of the
/// members in `call.out`: one step, however many they are. The part for rank i begins `i * stride` bytes
/// into `call.in` and is as long as `call.out`.
void fan_in(const Call& call, const std::shared_ptr<Connections>& connections, std::uint32_t tag,
            std::size_t stride);

}  // namespace rankmesh::detail
