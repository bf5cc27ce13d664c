// SPDX-License-Identifier: Apache-2.0
// Lists of hosts by name, as clusters and Slurm write them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rankmesh::detail {

/// The names in a list of `a01`, `a01-a31` and `a[01-31,40]-ib`, of which several brackets in one name give
/// each with each, the last fastest; throws UsageError in whose text `what` has the list, or for more than
/// `most`.
///
///     expanded("a9-a10,b[1-2]", "the file", 100) == std::vector<std::string>{"a9", "a10", "b1", "b2"}
std::vector<std::string> expanded(std::string_view list, std::string_view what, int most);

/// The shortest such list of names in that order: those that differ by 1 in a row are a range.
///
/// Law: `expanded(folded(names), what, most)` are the names.
std::string folded(const std::vector<std::string_view>& names);

}  // namespace rankmesh::detail
