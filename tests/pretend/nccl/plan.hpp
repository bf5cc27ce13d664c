// SPDX-License-Identifier: Apache-2.0
// What one group has for one communicator: it runs at once, when its turn on the streams has come.
#pragma once

#include "pretend/nccl/operation.hpp"

namespace pretend_nccl {

/// Puts the operations, all of one communicator, on their streams.
void launch(std::vector<Operation> operations);

}  // namespace pretend_nccl
