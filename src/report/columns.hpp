// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>

namespace rankmesh::report {

/// Rows of equally many words in columns two spaces apart. The first and the last so many columns are text,
/// aligned at the left; those between are numbers, aligned at the right. Lines begin with so many blanks.
RANKMESH_EXPORT std::string table(const std::vector<std::vector<std::string>>& rows, std::size_t first,
                                  std::size_t last, std::size_t indent = 0);

/// `64 MiB`, or in the largest binary unit that says it exactly.
RANKMESH_EXPORT std::string bytes_text(std::size_t bytes);
/// `1.25 ms`.
RANKMESH_EXPORT std::string time_text(double seconds);

/// The words of a text in lines of at most `width` columns, those after the first indented.
RANKMESH_EXPORT std::string folded(std::string_view text, std::size_t indent, std::size_t width);

}  // namespace rankmesh::report
