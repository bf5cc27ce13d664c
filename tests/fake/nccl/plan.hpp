// SPDX-License-Identifier: Apache-2.0
// The operations of one group on one communicator, which run at once when the streams reach them.
#pragma once

#include "fake/nccl/operation.hpp"

namespace fake_nccl {

/// Puts the operations, all of one communicator, on their streams.
void launch(std::vector<Operation> operations);

}  // namespace fake_nccl
