// SPDX-License-Identifier: Apache-2.0
// What one group has for one communicator: it runs at once, when its turn on the streams has come.
#pragma once

#include "fake/nccl/operation.hpp"

namespace fake_nccl {

/// Puts the operations, all of one communicator, on their streams.
void launch(std::vector<Operation> operations);

}  // namespace fake_nccl
