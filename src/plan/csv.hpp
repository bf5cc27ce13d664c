// SPDX-License-Identifier: Apache-2.0
// Tables in text with commas, quotes and a first line of names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rankmesh::plan {

/// A table whose every line has as many fields as the first has names; errors name `file` and line.
class Csv {
public:
    /// Throws UsageError for text without a first line, a repeated name, a quote that does not end, or a line
    /// with another number of fields.
    Csv(std::string_view text, std::string_view file);

    std::size_t size() const { return lines_.size(); }
    bool has(std::string_view column) const { return find(column) >= 0; }
    /// Throws UsageError that names the first of `columns` that is missing.
    void require(const std::vector<std::string_view>& columns) const;

    /// A field; "" where the column is missing.
    std::string_view text(std::size_t row, std::string_view column) const;
    /// A number of 0 or more, nothing where the field is empty or "?"; throws UsageError for another text.
    std::optional<double> number(std::size_t row, std::string_view column) const;
    /// A whole number of 0 to `most`; as above.
    std::optional<std::int64_t> count(std::size_t row, std::string_view column,
                                      std::int64_t most = 2147483647) const;
    /// `file:line`, as errors begin.
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
