// SPDX-License-Identifier: Apache-2.0
#include "plan/csv.hpp"

#include <algorithm>
#include <cmath>

#include <rankmesh/core/detail/number.hpp>

namespace rankmesh::plan {

Csv::Csv(std::string_view text, std::string_view file) : file_(file) {
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    auto line = std::size_t{1};
    auto first = line;
    auto fields = std::vector<std::string>{};
    auto field = std::string{};
    auto quoted = false;
    auto any = false;  // in this line
    const auto end_line = [&] {
        if (!any) return;
        fields.push_back(std::move(field));
        field.clear();
        if (columns_.empty()) {
            columns_ = std::move(fields);
        } else {
            if (fields.size() != columns_.size())
                throw UsageError(cat(file_, ":", first, ": has ", counted(fields.size(), "field"),
                                     ", but the first line names ", columns_.size()));
            lines_.push_back({first, std::move(fields)});
        }
        fields = {};
        any = false;
    };
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto c = text[i];
        if (quoted) {
            if (c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
                field += '"';
                ++i;
            } else if (c == '"') {
                quoted = false;
            } else {
                line += c == '\n';
                field += c;
            }
        } else if (c == '\n' || c == '\r') {
            end_line();
            line += c == '\n';
            first = line;
        } else if (c == ',') {
            any = true;
            fields.push_back(std::move(field));
            field.clear();
        } else if (c == '"' && field.empty()) {
            any = quoted = true;
        } else {
            any = true;
            field += c;
        }
    }
    if (quoted) throw UsageError(cat(file_, ":", first, ": has a quote that does not end"));
    end_line();
    if (columns_.empty()) throw UsageError(cat(file_, ": is empty; the first line names the columns"));
    for (auto column = columns_.begin(); column != columns_.end(); ++column)
        if (std::find(columns_.begin(), column, *column) != column)
            throw UsageError(cat(file_, ":1: names the column ", in_quotes(*column), " twice"));
}

int Csv::find(std::string_view column) const {
    const auto found = std::ranges::find(columns_, column);
    return found == columns_.end() ? -1 : static_cast<int>(found - columns_.begin());
}

void Csv::require(const std::vector<std::string_view>& columns) const {
    for (const auto column : columns)
        if (!has(column)) throw UsageError(cat(file_, ":1: has no column ", in_quotes(column)));
}

std::string_view Csv::text(std::size_t row, std::string_view column) const {
    const auto at = find(column);
    return at < 0 ? std::string_view{} : std::string_view(lines_[row].fields[static_cast<std::size_t>(at)]);
}

std::optional<double> Csv::number(std::size_t row, std::string_view column) const {
    const auto field = text(row, column);
    if (field.empty() || field == "?") return {};
    const auto value = detail::number_in<double>(field);
    if (!value || !std::isfinite(*value) || *value < 0)
        throw UsageError(cat(place(row), ": has ", in_quotes(field), " as ", column,
                             ", which is not a number of 0 or more"));
    return value;
}

std::optional<std::int64_t> Csv::count(std::size_t row, std::string_view column, std::int64_t most) const {
    const auto value = number(row, column);
    if (!value) return {};
    if (*value != std::floor(*value) || *value > static_cast<double>(most))
        throw UsageError(cat(place(row), ": has ", in_quotes(text(row, column)), " as ", column,
                             ", which is not a whole number from 0 to ", most));
    return static_cast<std::int64_t>(*value);
}

std::string Csv::place(std::size_t row) const { return cat(file_, ":", lines_[row].number); }

}  // namespace rankmesh::plan
