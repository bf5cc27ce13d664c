// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "formats/json.hpp"

namespace rankmesh::detail::explaining {

/// Returns the value of a pickle of plain data: numbers, texts, lists, tuples, dictionaries. Keys become
/// texts.
///
/// Imports and executes nothing. Throws UsageError for an instruction that would, and for a pickle that is
/// truncated, malformed, or expands to much more than its size.
formats::Json read_pickle(std::string_view bytes);

}  // namespace rankmesh::detail::explaining
