// SPDX-License-Identifier: Apache-2.0
// How far the parts of a shell's words reach.
#pragma once

#include <cstddef>
#include <string_view>

namespace rankmesh::conversion {

constexpr bool is_shell_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// The place behind what begins at `at`: a quoted text, `$(...)`, `${...}`, `$((...))`, or one character.
/// Throws UsageError if it nests too deeply.
std::size_t end_of_part(std::string_view text, std::size_t at, int levels = 0);

}  // namespace rankmesh::conversion
