// SPDX-License-Identifier: Apache-2.0
// Texts and lists of names.
#pragma once

#include <cstdlib>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/name.hpp>
#include <rankmesh/frameworks/error.hpp>

namespace rankmesh::frameworks {

using detail::cat;

/// The parts with a text between them.
std::string joined(const auto& parts, std::string_view between) {
    auto text = std::string{};
    for (auto first = true; const auto& part : parts) {
        detail::append(text, cat(first ? "" : between, part));
        first = false;
    }
    return text;
}

/// As Python prints a list: `[2, 4]`, `['pipe', 'data']`.
inline std::string list_of(const std::vector<int>& sizes) {
    return cat("[", detail::with_commas(sizes), "]");
}
inline std::string list_of(const std::vector<std::string>& names) {
    return names.empty() ? "[]" : cat("['", joined(names, "', '"), "']");
}

inline std::string upper(std::string text) {
    for (auto& c : text)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    return text;
}

bool holds(const auto& names, std::string_view name) {
    return std::ranges::find(names, name) != std::ranges::end(names);
}

/// Throws Error of these parts if a condition holds. The parts are always evaluated: where one is slow, write
/// `if (...) throw Error(...)`.
void refuse_if(bool condition, Fault fault, const auto&... parts) {
    if (condition) throw Error(fault, parts...);
}

/// The names of rows.
template <class Text = std::string_view>
std::vector<Text> known_names(const auto& rows) {
    auto names = std::vector<Text>{};
    for (const auto& row : rows) names.emplace_back(row.name);
    return names;
}

/// The whole number in an environment variable; nothing if the variable is not set. Throws Error for other
/// text.
inline std::optional<int> number_in_environment(const char* name) {
    const auto* text = std::getenv(name);
    if (!text) return std::nullopt;
    const auto number = detail::number_in(text);
    if (!number) throw Error(Fault::argument, cat(name, " is '", text, "', which is no number"));
    return number;
}

}  // namespace rankmesh::frameworks
