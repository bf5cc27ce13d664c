// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rankmesh::formats {

/// Returns the text without leading and trailing blanks and line ends.
std::string_view trimmed(std::string_view text);

/// Returns the text without the escape sequences that colour it on a terminal.
std::string without_escapes(std::string_view text);

/// Returns the text with the letters of ASCII in lower case.
std::string lower(std::string_view text);

/// Returns the parts between separators, which may be empty; of an empty text one.
std::vector<std::string_view> split(std::string_view text, char separator);

/// Returns the words between these characters.
std::vector<std::string_view> words_of(std::string_view text, std::string_view blanks = " \t\n\r");

/// Returns the index of the first byte that is not UTF-8 or is 0; nullopt if there is none.
std::optional<std::size_t> find_no_text(std::string_view text);

}  // namespace rankmesh::formats
