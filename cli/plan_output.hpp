// SPDX-License-Identifier: Apache-2.0
// What the outputs of `plan` for training and for serving share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rankmesh/plan/answer.hpp>

#include "output.hpp"

namespace rankmesh::cli {

std::string gib_text(std::int64_t bytes);
/// Returns seconds with three digits.
std::string seconds_text(double seconds);
std::string percent_text(double share);

/// Returns the widest line of a text.
std::size_t width_of(const std::string& text);

/// Prints a paragraph with lines of the width of the terminal; 80 where it is not known.
void print_folded(std::string_view text, Output& output);

/// Prints a table whose first row has names, and below each other row the line of `below`.
void print_with_lines(const std::string& table, const std::vector<std::string>& below, Output& output);

/// Prints bytes in GiB, each before its name.
void print_bytes(const std::vector<std::pair<std::int64_t, std::string_view>>& parts, Output& output);

/// Prints the answer of `plan --serve`, after its first lines.
void print_serving(const plan::Answer& answer, Output& output);

}  // namespace rankmesh::cli
