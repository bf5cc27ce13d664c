// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "formats/json.hpp"

namespace rankmesh::detail::explaining {

/// The value of a pickle of plain data: numbers, texts, lists, tuples, dictionaries. Keys become texts.
///
/// Nothing is imported or executed: throws UsageError at an instruction that would do so, and where the
/// pickle is cut off, not well formed, or expands to far more than it has bytes.
formats::Json read_pickle(std::string_view bytes);

}  // namespace rankmesh::detail::explaining
