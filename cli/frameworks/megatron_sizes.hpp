// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rankmesh/dialect/megatron/process_groups.hpp>

#include "arrangement.hpp"

namespace rankmesh::cli {

/// What initialize_model_parallel is called with for an arrangement in roles, in the order that moves the
/// fewest ranks.
megatron::Sizes megatron_sizes(const Arrangement& arrangement);

}  // namespace rankmesh::cli
