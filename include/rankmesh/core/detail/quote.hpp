// SPDX-License-Identifier: Apache-2.0
// How an error repeats what it was given: on one line, in valid UTF-8, without control bytes, and not at
// length.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rankmesh::detail {

inline constexpr std::size_t most_quoted = 100;       ///< bytes of one quote, before they are escaped
inline constexpr std::size_t most_error_text = 2000;  ///< bytes of the text of one UsageError

/// The bytes of the UTF-8 character that `text` begins with; 0 where it begins with none.
constexpr std::size_t character_size(std::string_view text) {
    const auto byte = [&](std::size_t i) {
        return i < text.size() ? static_cast<unsigned>(static_cast<unsigned char>(text[i])) : 0U;
    };
    const auto first = byte(0);
    const auto second = byte(1);
    if (first < 0x80) return text.empty() ? 0 : 1;
    const auto size = first < 0xc2 || first > 0xf4 ? 0U : first < 0xe0 ? 2U : first < 0xf0 ? 3U : 4U;
    for (std::size_t i = 1; i < size; ++i)
        if ((byte(i) & 0xc0U) != 0x80) return 0;
    // A longer form than needed, half a surrogate pair, or beyond the last character.
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
        return 0;
    return size;
}

/// The first character of a text that is not empty, or its first byte where that is not UTF-8.
constexpr std::string_view first_character(std::string_view text) {
    const auto size = character_size(text);
    return text.substr(0, size == 0 ? 1 : size);
}

/// The text with a hexadecimal escape for each control byte and each byte that is not UTF-8; those in `kept`
/// stay.
///
///     detail::escaped("a\n\xff") == "a\\n\\xff"
inline std::string escaped(std::string_view text, std::string_view kept = {}) {
    auto out = std::string{};
    while (!text.empty()) {
        const auto size = character_size(text);
        const auto character = first_character(text);
        const auto first = static_cast<unsigned char>(character[0]);
        // The control characters U+0080 to U+009F have two bytes.
        const auto is_control = first < 0x20 || first == 0x7f ||
                                (first == 0xc2 && size == 2 && static_cast<unsigned char>(text[1]) < 0xa0);
        if ((size > 0 && !is_control) || kept.find(character[0]) != std::string_view::npos)
            out += character;
        else if (first == '\n' || first == '\t' || first == '\r')
            out += first == '\n' ? "\\n" : first == '\t' ? "\\t" : "\\r";
        else
            for (const auto c : character) {
                constexpr auto digits = "0123456789abcdef";
                out += "\\x";
                out += digits[static_cast<unsigned char>(c) >> 4U];
                out += digits[static_cast<unsigned char>(c) & 0xfU];
            }
        text.remove_prefix(character.size());
    }
    return out;
}

/// The text where it has at most `most` bytes, else its head and its tail, and how many bytes are left out
/// between them.
inline std::string shortened(std::string_view text, std::size_t most) {
    constexpr auto note = std::size_t{40};  // room for " [N bytes left out] " of any N
    if (text.size() <= most) return std::string(text);
    const auto kept = most > note ? most - note : 0;
    const auto inside = [&](std::size_t at) {  // a character
        return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80;
    };
    auto head = kept * 2 / 3;
    auto tail = text.size() - (kept - head);
    while (head > 0 && inside(head)) --head;
    while (inside(tail)) ++tail;
    return std::string(text.substr(0, head)) + " [" + std::to_string(tail - head) + " bytes left out] " +
           std::string(text.substr(tail));
}

/// What was given, as an error repeats it: escaped, and of a long text the head and the tail.
inline std::string excerpt(std::string_view given, std::size_t most = most_quoted) {
    return escaped(shortened(given, most));
}
/// The same in quotes.
inline std::string in_quotes(std::string_view given) { return "'" + excerpt(given) + "'"; }

}  // namespace rankmesh::detail
