// SPDX-License-Identifier: Apache-2.0
// Texts: words, faults, comparisons of names that ignore case, CSV tables with quotes and a first line of
// column names, and models as lines of sizes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>
#include <rankmesh/plan/model.hpp>

namespace rankmesh::plan {

using detail::cat;
using detail::counted;
using detail::in_quotes;

/// Returns true if `text` begins with `name`, ignoring the case of ASCII letters.
inline bool begins_with(std::string_view text, std::string_view name) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    return text.size() >= name.size() &&
           std::ranges::equal(text.substr(0, name.size()), name, {}, lower, lower);
}

inline bool same_name(std::string_view a, std::string_view b) {
    return a.size() == b.size() && begins_with(a, b);
}

/// Returns the text of the UsageError that a call throws; "" if it throws none.
template <class Call>
std::string fault_of(const Call& call) {
    try {
        call();
        return "";
    } catch (const UsageError& error) {
        return error.what();
    }
}

/// Returns the names of things.
template <class Things>
std::vector<std::string_view> names_of(const Things& things) {
    auto names = std::vector<std::string_view>{};
    for (const auto& one : things) names.emplace_back(one.name);
    return names;
}
inline std::string listed(const std::vector<std::string_view>& names) {
    return detail::listed({names.begin(), names.end()});
}

/// Splits `tp=8`.
inline std::pair<std::string_view, std::string_view> name_and_value(std::string_view word) {
    const auto equals = std::min(word.find('='), word.size());
    return {word.substr(0, equals), word.substr(std::min(equals + 1, word.size()))};
}

/// Calls `read` with each word of a text; blanks and commas separate words.
template <class Read>
void for_each_word(std::string_view text, const Read& read) {
    constexpr auto blanks = std::string_view(" \t\n\r,");
    for (auto at = text.find_first_not_of(blanks); at != std::string_view::npos;) {
        const auto end = std::min(text.size(), text.find_first_of(blanks, at));
        read(text.substr(at, end - at));
        at = text.find_first_not_of(blanks, end);
    }
}

/// Throws the UsageError of `check(value)` with the place of the value in front.
template <class Value>
void check_at(std::string_view place, const Value& value) {
    const auto fault = fault_of([&] { check(value); });
    if (!fault.empty()) throw UsageError(cat(place, ": ", fault));
}

/// A table in which every line has as many fields as the first line has names. Errors contain `file` and the
/// line.
class RANKMESH_EXPORT Csv {
public:
    /// Reads a table. Throws UsageError for text without a first line, a repeated name, an open quote, or a
    /// line with another number of fields.
    Csv(std::string_view text, std::string_view file);

    std::size_t size() const { return lines_.size(); }
    /// Throws UsageError, which names the column, if one of `columns` is missing.
    void require(const std::vector<std::string_view>& columns) const;

    /// Returns a field, or "" if the column is missing.
    std::string_view text(std::size_t row, std::string_view column) const;
    /// Returns a number of 0 or more; nullopt if the field is empty or "?". Throws UsageError for any other
    /// text.
    std::optional<double> number(std::size_t row, std::string_view column) const;
    /// Returns a whole number of 0 to `most`; otherwise like `number`.
    std::optional<std::int64_t> count(std::size_t row, std::string_view column,
                                      std::int64_t most = 2147483647) const;
    /// Returns `file:line`, with which errors begin.
    std::string place(std::size_t row) const;

private:
    struct Line {
        std::size_t number;
        std::vector<std::string> fields;
    };
    int find(std::string_view column) const;

    std::string file_;
    std::vector<std::string> columns_;
    std::vector<Line> lines_;
};

/// Throws UsageError, which begins with `of`, for a size of a layer outside its range; most sizes are at most
/// `width`.
void check_sizes(const Layer& layer, std::string_view of, std::int64_t width);

/// Reads `layers=32 hidden=4096 heads=32 ...`. Throws UsageError, which begins with `source`.
RANKMESH_EXPORT Model read_line(std::string_view text, std::string_view source);

// The tables in src/plan/data as text.
extern const std::string_view devices_csv;
extern const std::string_view families_csv;  // in rankmesh::convert
extern const std::string_view models_csv;
extern const std::string_view stacks_csv;

}  // namespace rankmesh::plan
