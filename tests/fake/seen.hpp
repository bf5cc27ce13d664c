// SPDX-License-Identifier: Apache-2.0
// What tests may see of the fake libraries beside what the real ones tell.
#pragma once

#include <nccl.h>

#include <vector>

namespace fake {

/// What a communicator was made with; its name lies where its maker has it.
ncclConfig_t config(ncclComm_t communicator);
/// The priorities of the streams of a device that have not been destroyed, in ascending order.
std::vector<int> priorities(int device);
/// True if an abort of one of two communicators stops the other.
bool share(ncclComm_t a, ncclComm_t b);

}  // namespace fake
