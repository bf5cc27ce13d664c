// SPDX-License-Identifier: Apache-2.0
// The bytes of a settings file.
#pragma once

#include <string>

namespace rankmesh::conversion {

/// The bytes of a file, of standard input where `path` is `-`; throws UsageError where it cannot be read, is
/// a pipe that nobody writes to, or has more bytes than are read.
std::string content_of(const std::string& path, const std::string& source);

}  // namespace rankmesh::conversion
