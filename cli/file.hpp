// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

namespace rankmesh::cli {

/// Writes a file completely or not at all: writes a temporary file, then renames it.
///
/// On errors leaves an existing file unchanged. Throws UsageError if no file can be made, for example in a
/// folder that does not exist, or if `path` is not a regular file. Throws Error if writing fails.
void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace rankmesh::cli
