// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace rankmesh::detail {

/// The number that all of the text is; nothing where the text is anything else, or the number does not fit.
template <class Number = int>
std::optional<Number> number_in(std::string_view text) {
    auto number = Number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

}  // namespace rankmesh::detail
