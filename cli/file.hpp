// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

namespace rankmesh::cli {

/// Writes a file whole or not at all: under another name, which then takes the place of what was there.
///
/// Throws Error, and leaves what was there as it is, if the system refuses, or if it was no regular file.
void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace rankmesh::cli
