// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <rankmesh/engine/message.hpp>

#include "engine/channel.hpp"

namespace rankmesh::detail {

/// The message that `call`, a probe, asks for; nothing if there is none and it does not wait.
std::optional<Message> run_probe(CommunicatorState& state, const Call& call, bool waits);

}  // namespace rankmesh::detail
