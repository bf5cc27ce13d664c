// SPDX-License-Identifier: Apache-2.0
// The language in which errors say what would work.
#pragma once

#include <string_view>

namespace rankmesh::detail {

/// True in the Python package, whose modules each hold the library and set this when they are loaded.
inline bool caller_is_python = false;

/// What an error proposes: to Python, and to others.
inline std::string_view in_python(std::string_view python, std::string_view otherwise) {
    return caller_is_python ? python : otherwise;
}

}  // namespace rankmesh::detail
