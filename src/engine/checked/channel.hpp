// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "engine/channel.hpp"
#include "engine/pending_buffers.hpp"

namespace rankmesh::detail {

/// A channel whose ranks compare each call before `engine` gets it. `comparisons` is a second channel of the
/// same ranks, used only to compare calls. `buffers` has the buffers of all pending calls of this rank.
std::shared_ptr<Channel> checked_channel(std::shared_ptr<Channel> engine,
                                         std::shared_ptr<Channel> comparisons, const Ranks& ranks,
                                         int group_rank, std::shared_ptr<PendingBuffers> buffers);

/// A device's channel whose ranks compare each call on the host before `engine` gets it. `comparisons` is a
/// second channel of the same ranks on the host, used only to compare calls. A comparison takes at most
/// `timeout`.
std::shared_ptr<Channel> checked_device_channel(std::shared_ptr<Channel> engine,
                                                std::shared_ptr<Channel> comparisons, const Ranks& ranks,
                                                int group_rank, Duration timeout);

}  // namespace rankmesh::detail
