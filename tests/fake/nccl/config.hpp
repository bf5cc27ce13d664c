// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fake/nccl/communicator.hpp"

namespace fake_nccl {

/// Gives a new communicator its configuration: the one that was passed, else its parent's, else the usual
/// one. Throws Failure for values that the real library refuses.
void configure(Communicator& made, const ncclConfig_t* passed, const Communicator* parent, const char* call);

/// What all ranks of a communicator must give alike: they would else make it of different channels, and wait
/// for each other.
std::string must_be_equal(const ncclConfig_t& config);
/// A violation if rank `other` gives what is not equal to this one's.
void demand_equal(const Communicator& made, int other, const std::string& theirs, const char* call);

}  // namespace fake_nccl
