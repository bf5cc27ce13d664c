// SPDX-License-Identifier: Apache-2.0
// What stands in a line of a log.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/explain/record.hpp>

namespace rankmesh::of_log {

inline constexpr auto most_ranks = std::size_t{1} << 20;  // of which a log speaks
inline constexpr std::string_view rank_tag = "[rank";     // of PyTorch, before a line

using Fields = std::map<std::string_view, std::string_view>;

/// Returns the fields if a pattern fits the text from its beginning.
std::optional<Fields> fields_of(std::string_view pattern, std::string_view text);
std::string_view field(const Fields& fields, std::string_view name);
/// Returns the words with the fields that they name.
std::string filled(std::string_view words, const Fields& fields);
std::optional<int> rank_in(std::string_view text);
/// Reads `3`, `1-3,5` and `1, 2`.
std::vector<int> ranks_in(std::string_view text);
/// Returns the rank that a line names before its text, as programs and launchers write it: `[rank3]:` of
/// PyTorch, `[1,3]<stderr>:` of Open MPI, `3: ` of srun, `[3] ` of Hydra, `(Worker_TP3 pid=7)` of vLLM and
/// `[2026-01-02 03:04:05 TP3]` of SGLang, if these name no other axis.
std::optional<int> rank_before(std::string_view text);
/// Returns the rank in `Rank 3]` of PyTorch, which is a rank of a group.
std::optional<int> group_rank_before(std::string_view text);
/// Returns the host before a line of the kernel's log, or of NCCL: `n001:534:1763 [3] NCCL WARN`.
std::string_view host_before(std::string_view text);
/// Returns the process before the exception of one without a rank: the host of Ray's `(Worker pid=7, ip=HOST)
/// ERROR ...]`, or else its parentheses; `NAME:` and `[pod/NAME/CONTAINER]` of collectors.
std::optional<std::string_view> process_before(std::string_view text);
/// Returns where the name of an exception begins, whose end fits a pattern at `end`: behind the rank or the
/// process, or at the beginning of the line. A pattern without a text needs the end of the line.
std::optional<std::size_t> name_of_exception(std::string_view line, std::size_t end, std::string_view pattern,
                                             bool has_rank);
/// Returns the group before a line of PyTorch: `[PG ID 1 PG GUID 5(tp) Rank 0]`, before version 2.5 `[PG 1
/// Rank 0]`.
std::shared_ptr<const RecordedGroup> group_before(std::string_view text);
/// Returns a call as dumps name it: `all_reduce` of ALLREDUCE. Sizes are `8` or `2, 4`.
RecordedOperation call_of(const Fields& fields);

/// A line that a collector of logs wrote as a JSON object, as Docker, Kubernetes, Loki and journald do.
struct CollectedLine {
    std::string text;  ///< what the program printed: one line or several
    std::string time, host;
    std::optional<int> rank;
};

/// Returns the content of a line that is such an object; nullopt for other lines.
std::optional<CollectedLine> collected_line(std::string_view line);

}  // namespace rankmesh::of_log
