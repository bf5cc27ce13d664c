// SPDX-License-Identifier: Apache-2.0
#include "formats/text.hpp"

#include <algorithm>

#include <rankmesh/core/detail/quote.hpp>

namespace rankmesh::formats {

std::string_view trimmed(std::string_view text) {
    constexpr auto blanks = " \t\n\r";
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
    return text.substr(0, text.find_last_not_of(blanks) + 1);  // npos + 1 is 0
}

std::string without_escapes(std::string_view text) {
    auto out = std::string{};
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text.substr(at, 2) == "\x1b[")  // up to a letter
            at = std::min(text.find_first_not_of("0123456789;:?", at + 2), text.size());
        else
            out += text[at];
    }
    return out;
}

std::string lower(std::string_view text) {
    auto out = std::string(text);
    for (auto& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    auto all = std::vector<std::string_view>{};
    while (true) {
        const auto end = text.find(separator);
        all.push_back(text.substr(0, end));
        if (end == std::string_view::npos) return all;
        text.remove_prefix(end + 1);
    }
}

std::vector<std::string_view> words_of(std::string_view text, std::string_view blanks) {
    auto words = std::vector<std::string_view>{};
    for (auto at = text.find_first_not_of(blanks); at != std::string_view::npos;) {
        const auto end = std::min(text.find_first_of(blanks, at), text.size());
        words.push_back(text.substr(at, end - at));
        at = text.find_first_not_of(blanks, end);
    }
    return words;
}

std::optional<std::size_t> find_no_text(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        const auto size = detail::character_size(text.substr(at));
        if (size == 0 || text[at] == '\0') return at;
        at += size;
    }
    return std::nullopt;
}

}  // namespace rankmesh::formats
