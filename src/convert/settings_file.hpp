// SPDX-License-Identifier: Apache-2.0
// The bytes of a settings file.
#pragma once

#include <cstddef>
#include <string>

namespace rankmesh::conversion {

/// The bytes of a file, of standard input where `path` is `-`; throws UsageError where it cannot be read, is
/// a pipe that nobody writes to, or has more bytes than are read.
std::string content_of(const std::string& path, const std::string& source);

/// At most `most` bytes of a file and one more, so that whoever asked sees that there are too many; throws
/// UsageError that begins with `name` where it cannot be read or is a pipe that nobody writes to.
std::string content_of(const std::string& path, const std::string& name, std::size_t most);

}  // namespace rankmesh::conversion
