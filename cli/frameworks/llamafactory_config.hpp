// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rankmesh/dialect/llamafactory/strategy.hpp>

#include "arrangement.hpp"

namespace rankmesh::cli {

/// The configuration of DistributedInterface for an arrangement in roles.
llamafactory::Config llamafactory_config(const Arrangement& arrangement);

}  // namespace rankmesh::cli
