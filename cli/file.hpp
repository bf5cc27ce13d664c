// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace rankmesh::cli {

/// Writes a file completely or not at all: writes a temporary file, then renames it.
///
/// On errors leaves an existing file unchanged. Throws UsageError if no file can be made, for example in a
/// folder that does not exist, or if `path` is not a regular file. Throws Error if writing fails.
void write_file(const std::filesystem::path& path, std::string_view text);

/// The format of a picture.
enum class PictureFormat { html, svg, txt };

/// Returns the format of `--format`, else of the suffix of `--out`. Throws UsageError if neither is in
/// `known`, or if they differ.
PictureFormat picture_format(std::string_view out, std::string_view format,
                             const std::vector<std::string>& known);

}  // namespace rankmesh::cli
