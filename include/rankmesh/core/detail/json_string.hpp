// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <rankmesh/core/detail/quote.hpp>

namespace rankmesh::detail {

/// The text as a JSON string, with its quotes; a byte that is not UTF-8 becomes U+FFFD. The string has no
/// `<`, so that it can stand in a script element of HTML.
inline std::string json_string(std::string_view text) {
    auto out = std::string("\"");
    while (!text.empty()) {
        const auto character = first_character(text);
        const auto first = static_cast<unsigned char>(character[0]);
        if (character_size(text) == 0) {
            out += "\\ufffd";
        } else if (first < 0x20 || first == 0x7f || first == '<') {
            constexpr auto digits = "0123456789abcdef";
            out += "\\u00";
            out += digits[first >> 4U];
            out += digits[first & 0xfU];
        } else {
            if (first == '"' || first == '\\') out += '\\';
            out += character;
        }
        text.remove_prefix(character.size());
    }
    return out + "\"";
}

}  // namespace rankmesh::detail
