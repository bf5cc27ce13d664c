// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace rankmesh::detail::explaining {

/// Returns the rank in a file name: the number after the last underscore, else after the last `rank-` or
/// `rank_`, else at the end. Before it can stand the name of a host, with dots and numbers.
///
///     rank_in_name("rank-3.json") == 3
///     rank_in_name("nccl_trace_rank_node07.cluster.local_12") == 12
std::optional<int> rank_in_name(const std::string& file);

}  // namespace rankmesh::detail::explaining
