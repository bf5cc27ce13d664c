// SPDX-License-Identifier: Apache-2.0
// The tags of all messages on a communicator, distinct for each kind.
#pragma once

#include <rankmesh/engine/detail/call.hpp>
#include <rankmesh/engine/tag.hpp>

#include "engine/sparse_tags.hpp"

namespace rankmesh::detail {

/// The first of them, that of messages with tag 0: at the end of the range that every MPI supports, away from
/// the tags of a program that calls MPI on the same communicator.
constexpr int first_tag = 16376;
constexpr int shift_tag = first_tag + static_cast<int>(first_sparse_tag + sparse_tags);
constexpr int part_tag = shift_tag + 1;  // of an all_to_all_v, or a long all_gather_v
constexpr int arrival_tag = shift_tag + 2;
constexpr int verdict_tag = shift_tag + 3;
static_assert(verdict_tag <= 32767);

constexpr int message_tag(const Call& call) { return first_tag + call.tag; }

}  // namespace rankmesh::detail
