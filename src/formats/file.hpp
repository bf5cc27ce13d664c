// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

#include "formats/limits.hpp"

namespace rankmesh::formats {

/// Returns at most `most` + 1 bytes of a file (`-`: standard input); the extra byte shows that the file is
/// too large. Throws UsageError, which begins with `name`, if the file cannot be read or is a pipe without a
/// writer.
std::string content_of(const std::string& path, const std::string& name, std::size_t most = most_bytes);

/// Returns true for text that can only be a file name: it has none of the characters in `never`, and it
/// contains a '/', has one of the suffixes, or names an existing file.
bool is_file_name(const std::string& text, std::string_view never,
                  std::initializer_list<std::string_view> endings);

}  // namespace rankmesh::formats
