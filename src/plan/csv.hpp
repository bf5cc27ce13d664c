// SPDX-License-Identifier: Apache-2.0
// CSV tables with quotes and a first line of column names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/names.hpp"

namespace rankmesh::plan {

/// Throws the UsageError of `check(value)` with the place of the value in front.
template <class Value>
void check_at(std::string_view place, const Value& value) {
    try {
        check(value);
    } catch (const UsageError& error) {
        throw UsageError(cat(place, ": ", error.what()));
    }
}

/// A table in which every line has as many fields as the first line has names. Errors contain `file` and the
/// line.
class Csv {
public:
    /// Reads a table. Throws UsageError for text without a first line, a repeated name, an open quote, or a
    /// line with another number of fields.
    Csv(std::string_view text, std::string_view file);

    std::size_t size() const { return lines_.size(); }
    bool has(std::string_view column) const { return find(column) >= 0; }
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

}  // namespace rankmesh::plan
