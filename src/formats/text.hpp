// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>

namespace rankmesh::formats {

/// The text without blanks and line ends around it.
std::string_view trimmed(std::string_view text);

/// The first byte, counted from 0, that is not UTF-8, or is 0; nothing where all are text.
std::optional<std::size_t> find_no_text(std::string_view text);

/// The whole number that all of the text is; nothing where it is another text, or the number has no place.
template <class Number = int>
std::optional<Number> number_in(std::string_view text) {
    auto number = Number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

}  // namespace rankmesh::formats
