// SPDX-License-Identifier: Apache-2.0
// What the text of an error may hold, and texts that try to put more into it.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace support {

/// True for UTF-8, each character in its shortest form.
inline bool is_utf8(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        const auto byte = [&](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(text[i])}; };
        const auto first = byte(at);
        const auto size = std::size_t{first < 0x80U ? 1U : first < 0xe0U ? 2U : first < 0xf0U ? 3U : 4U};
        if (at + size > text.size() || first >> 6U == 2U || first >= 0xf8U) return false;
        auto code = size == 1 ? first : first & (0xffU >> (size + 1));
        for (std::size_t i = 1; i < size; ++i) {
            if (byte(at + i) >> 6U != 2U) return false;
            code = code << 6U | (byte(at + i) & 0x3fU);
        }
        constexpr auto least = std::array<std::uint32_t, 5>{0, 0, 0x80, 0x800, 0x10000};
        if (code < least[size] || code > 0x10ffffU || (code >= 0xd800U && code < 0xe000U)) return false;
        at += size;
    }
    return true;
}

/// True for UTF-8 without control characters other than line ends.
inline bool is_printable(std::string_view text) {
    auto before = '\0';
    for (const auto c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if ((byte < 0x20 && c != '\n') || byte == 0x7f || (before == '\xc2' && byte < 0xa0)) return false;
        before = c;
    }
    return is_utf8(text);
}

/// True for what the text of a UsageError may be.
inline bool is_clean(std::string_view text) { return text.size() <= 2000 && is_printable(text); }

/// The `n`-th of some texts for one parser: bytes of any kind, and `valid` with a few bytes changed, short
/// and long.
inline std::string hostile(unsigned n, std::string_view valid) {
    auto random = std::mt19937(n);
    const auto below = [&](std::size_t most) { return static_cast<std::size_t>(random() % most); };
    auto text = std::string(n % 2 == 0 ? valid : "");
    const auto length = n % 50 == 0 ? below(100'000) : below(30);
    for (std::size_t i = 0; i < length; ++i) {
        // Characters of the notation lead further into a parser than others.
        constexpr auto notation =
            std::string_view("0123456789abz=:@[](){}*,. /\n\t\x1b\x7f\xc2\x9b\xe2\x80\xff");
        const auto c = below(3) == 0 ? static_cast<char>(random()) : notation[below(notation.size())];
        text.insert(
            text.begin() + static_cast<std::ptrdiff_t>(length < 30 ? below(text.size() + 1) : text.size()),
            c);
    }
    return text;
}

}  // namespace support
