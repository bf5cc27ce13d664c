// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace rankmesh::formats {

/// The text without blanks and line ends around it.
std::string_view trimmed(std::string_view text);

/// The first byte, counted from 0, that is not UTF-8, or is 0; nothing where all are text.
std::optional<std::size_t> find_no_text(std::string_view text);

}  // namespace rankmesh::formats
