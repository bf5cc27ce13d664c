// SPDX-License-Identifier: Apache-2.0
// Lists of host names, in the notation of clusters and Slurm.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>

namespace rankmesh::detail {

/// Returns the names in a list of `a01`, `a01-a31` and `a[01-31,40]-ib`. Several brackets in one name give
/// all combinations; the last varies fastest. Throws UsageError, whose text calls the list `what`, for an
/// invalid list or more than `most` names.
///
///     expanded("a9-a10,b[1-2]", "the file", 100) == std::vector<std::string>{"a9", "a10", "b1", "b2"}
std::vector<std::string> expanded(std::string_view list, std::string_view what, int most);

/// Returns the shortest list of these names in this order; consecutive numbers become a range.
///
/// Law: `expanded(folded(names), what, most)` equals the names.
std::string folded(const std::vector<std::string_view>& names);

/// Throws UsageError unless unit names are unique and each unit holds something.
void check_units(const Cluster::Level& level);

}  // namespace rankmesh::detail
