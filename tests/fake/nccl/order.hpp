// SPDX-License-Identifier: Apache-2.0
// In which order a device is given the collectives of several communicators, where FAKE_ORDER=1 asks for
// it: two orders on two ranks can deadlock the real library.
#pragma once

#include "fake/nccl/communicator.hpp"

namespace fake_nccl {

/// From now on the communicator's collectives are counted.
void count_from_now(const Communicator& communicator);
void count_no_more(const Communicator& communicator);

/// Counts one more; how many of each communicator of this device were given before it, as text.
std::string counted(const Communicator& communicator);

/// Commits a violation where a peer had been given other collectives before this one than this rank had.
void compare_orders(const Communicator& communicator, const std::string& call, const std::string& mine,
                    int peer, const std::string& its);

}  // namespace fake_nccl
