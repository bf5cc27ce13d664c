// SPDX-License-Identifier: Apache-2.0
// What tests may see of the pretended libraries beside what the real ones tell.
#pragma once

#include <nccl.h>

namespace pretend {

/// True if an abort of one of two communicators stops the other.
bool share(ncclComm_t a, ncclComm_t b);

}  // namespace pretend
