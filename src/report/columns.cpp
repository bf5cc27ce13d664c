// SPDX-License-Identifier: Apache-2.0
#include "report/columns.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include <rankmesh/core/error.hpp>

namespace rankmesh::report {

std::string table(const std::vector<std::vector<std::string>>& rows, std::size_t first, std::size_t last,
                  std::size_t indent) {
    auto widths = std::vector<std::size_t>(rows.front().size());
    for (const auto& row : rows)
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    auto text = std::string{};
    for (const auto& row : rows) {
        auto line = std::string(indent, ' ');
        for (std::size_t i = 0; i < row.size(); ++i) {
            const auto is_text = i < first || i + last >= row.size();
            const auto blanks = std::string(widths[i] - row[i].size(), ' ');
            line.append(i > 0 ? "  " : "").append(is_text ? row[i] + blanks : blanks + row[i]);
        }
        line.resize(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

std::string bytes_text(std::size_t bytes) {
    auto unit = 0;
    while (unit < 4 && bytes > 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        ++unit;
    }
    return detail::cat(bytes,
                       std::array{" B", " KiB", " MiB", " GiB", " TiB"}[static_cast<std::size_t>(unit)]);
}

std::string time_text(double seconds) {
    char text[64];
    const auto* format = seconds < 1e-3 ? "%.1f us" : seconds < 1 ? "%.2f ms" : "%.2f s";
    std::snprintf(text, sizeof text, format,
                  seconds < 1e-3 ? seconds * 1e6
                  : seconds < 1  ? seconds * 1e3
                                 : seconds);
    return text;
}

std::string megabytes_text(std::int64_t bytes) {
    if (bytes < 1000) return std::to_string(bytes) + " B";
    constexpr const char* units[] = {"kB", "MB", "GB", "TB"};
    auto value = static_cast<double>(bytes) / 1e3;
    auto unit = 0;
    for (; value >= 1e3 && unit < 3; ++unit) value /= 1e3;
    char text[64];
    std::snprintf(text, sizeof text, "%.1f %s", value, units[unit]);
    return text;
}

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
    auto text = std::string{};
    for (const auto& word : words) text.append(text.empty() ? "" : separator).append(word);
    return text;
}

std::string folded(std::string_view text, std::size_t indent, std::size_t width) {
    const auto columns = [](std::string_view word) {  // bytes that begin a character of UTF-8
        return static_cast<std::size_t>(
            std::ranges::count_if(word, [](char c) { return (c & 0xc0) != 0x80; }));
    };
    auto lines = std::string{};
    auto column = std::size_t{0};
    while (!text.empty()) {
        const auto word = text.substr(0, text.find(' '));
        text.remove_prefix(std::min(text.size(), word.size() + 1));
        if (column > indent && column + 1 + columns(word) > width) {
            lines += "\n" + std::string(indent, ' ');
            column = indent;
        } else if (column > 0) {
            lines += ' ';
            ++column;
        }
        lines += word;
        column += columns(word);
    }
    return lines;
}

}  // namespace rankmesh::report
