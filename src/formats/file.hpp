// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

#include "formats/limits.hpp"

namespace rankmesh::formats {

/// At most `most` bytes of a file, of standard input where `path` is `-`, and one more, so that whoever asked
/// sees that there are too many; throws UsageError that begins with `name` where it cannot be read or is a
/// pipe that nobody writes to.
std::string content_of(const std::string& path, const std::string& name, std::size_t most = most_bytes);

/// True for what can only be meant as a file: it has none of the characters `never`, and has a '/' or one of
/// the endings, or is the name of a file that is there.
bool is_file_name(const std::string& text, std::string_view never,
                  std::initializer_list<std::string_view> endings);

}  // namespace rankmesh::formats
