// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace rankmesh::detail {

/// Writes a file that does not exist in an open folder, following no link; returns 0, or the system's error
/// after removing the file.
int write_new_file(int folder, const std::string& name, std::string_view text, mode_t mode);

}  // namespace rankmesh::detail
