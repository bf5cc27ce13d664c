// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>

namespace rankmesh::report {

/// Returns a table of rows of equal length, with columns two spaces apart. The first `first` and the last
/// `last` columns are texts, aligned left; all others are numbers, aligned right. Lines begin with `indent`
/// blanks.
RANKMESH_EXPORT std::string table(const std::vector<std::vector<std::string>>& rows, std::size_t first,
                                  std::size_t last, std::size_t indent = 0);

/// Returns `64 MiB`, in the largest binary unit that is exact.
RANKMESH_EXPORT std::string bytes_text(std::size_t bytes);
/// Returns `1.25 ms`.
RANKMESH_EXPORT std::string time_text(double seconds);

/// Returns `981.5 MB`, decimal like bandwidths.
RANKMESH_EXPORT std::string megabytes_text(std::int64_t bytes);

/// Returns the words with a separator between them.
RANKMESH_EXPORT std::string joined(const std::vector<std::string>& words, std::string_view separator);

/// Returns a text in lines of at most `width` columns; lines after the first are indented.
RANKMESH_EXPORT std::string folded(std::string_view text, std::size_t indent, std::size_t width);

}  // namespace rankmesh::report
