// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rankmesh/core/error.hpp>

namespace rankmesh::detail {

/// The process that serves the store has ended or cannot be reached.
struct ServerLost final : EngineFailure {
    using EngineFailure::EngineFailure;
};
/// The process that serves the store does not answer.
struct ServerSilent final : Timeout {
    using Timeout::Timeout;
};

}  // namespace rankmesh::detail
