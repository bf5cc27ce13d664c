// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

namespace rankmesh::cli {

/// Writes a file whole or not at all: under another name, which then takes the place of what was there.
///
/// Leaves what was there as it is and throws UsageError where no file can be made, such as in a folder that
/// does not exist, or where something other than a regular file is there; Error where the system refuses the
/// text.
void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace rankmesh::cli
