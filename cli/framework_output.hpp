// SPDX-License-Identifier: Apache-2.0
// The output of show, rank and groups under a framework's names.
#pragma once

#include "convert/words.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

class Output;
using conversion::GroupKind;
using conversion::in_words;
using conversion::Words;

/// Returns the option `--as`.
Option as_option(std::string& as);

/// Prints one rank: the values of the accessors, and its group of each kind.
void print_rank(const Words& words, int rank, const std::optional<Cluster>& cluster, bool json,
                Output& output);
/// Prints all groups of these kinds, one per line.
void print_groups(const Words& words, const std::vector<GroupKind>& kinds, bool json, Output& output);
/// Prints the kinds of groups: their number, their size, and the group of `rank`.
void print_kinds(const Words& words, int rank, int width, Output& output);
Json json_of_kinds(const Words& words, int rank);

}  // namespace rankmesh::cli
