// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace rankmesh::detail::explaining {

/// Returns the rank in a file name: the number after the last `rank-` or `rank_`, else the last number before
/// the suffixes.
///
///     rank_in_name("rank-3.json") == 3
///     rank_in_name("nccl_trace_rank_12") == 12
std::optional<int> rank_in_name(const std::string& file);

}  // namespace rankmesh::detail::explaining
