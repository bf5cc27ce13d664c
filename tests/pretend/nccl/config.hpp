// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pretend/nccl/communicator.hpp"

namespace pretend_nccl {

/// Gives a new communicator its configuration: the one that was passed, else its parent's, else the usual
/// one. Throws Failure for values that the real library refuses.
void configure(Communicator& made, const ncclConfig_t* passed, const Communicator* parent, const char* call);

}  // namespace pretend_nccl
