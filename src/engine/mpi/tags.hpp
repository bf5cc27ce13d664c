// SPDX-License-Identifier: Apache-2.0
// The tags of all messages on a communicator, distinct for each kind.
#pragma once

namespace rankmesh::detail {

/// The first of them: at the end of the range that every MPI supports, away from the tags of a program that
/// calls MPI on the same communicator.
constexpr int first_tag = 32760;
constexpr int shift_tag = first_tag;
constexpr int message_tag = first_tag + 1;
constexpr int part_tag = first_tag + 2;  // of an all_to_all_v, or a long all_gather_v
constexpr int arrival_tag = first_tag + 3;
constexpr int verdict_tag = first_tag + 4;

}  // namespace rankmesh::detail
