// SPDX-License-Identifier: Apache-2.0
// Values of a record's JSON, checked: each throws UsageError with the key and what was expected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/error.hpp>

#include "formats/json.hpp"

namespace rankmesh::of_record {

using detail::cat;
using formats::Json;

constexpr auto most_world = 1 << 24;  // ranks
constexpr auto most_levels = 64;      // of values in one another

/// Reads JSON or a pickle.
Json parsed(std::string_view bytes);
/// Returns the value of a pickle of plain data: numbers, texts, lists, tuples, dictionaries. Keys become
/// texts.
///
/// Imports and executes nothing. Throws UsageError for an instruction that would, and for a pickle that is
/// truncated, malformed, or expands to much more than its size.
Json read_pickle(std::string_view bytes);

/// Returns the rank in a file name: the number after the last underscore, else after the last `rank-` or
/// `rank_`, else at the end. Before it can stand the name of a host, with dots and numbers.
///
///     rank_in_name("rank-3.json") == 3
///     rank_in_name("nccl_trace_rank_node07.cluster.local_12") == 12
std::optional<int> rank_in_name(const std::string& file);

/// Returns nullptr if the key is missing or its value is null.
const Json* find(const Json& object, std::string_view key);
[[noreturn]] void wrong(std::string_view key, std::string_view expected);

std::int64_t whole(const Json& value, std::string_view key);
std::optional<std::int64_t> find_whole(const Json& object, std::string_view key);
std::int64_t whole_or(const Json& object, std::string_view key, std::int64_t otherwise);
int rank_of(std::int64_t number, std::string_view key);
std::string text_or(const Json& object, std::string_view key, std::string_view otherwise = {});
bool flag_or(const Json& object, std::string_view key, bool otherwise);
const Json::Array& list(const Json& value, std::string_view key);
const Json::Object& object(const Json& value, std::string_view key);
/// Reads `[0, 1]`, also as a text.
std::vector<int> ranks_of(const Json& value, std::string_view key);
std::vector<int> ranks_or_none(const Json& record, std::string_view key);
std::vector<std::vector<std::int64_t>> sizes_of(const Json& entry, std::string_view key);
std::vector<std::string> texts_of(const Json& entry, std::string_view key);

}  // namespace rankmesh::of_record
