// SPDX-License-Identifier: Apache-2.0
#include "plan_output.hpp"

#include <algorithm>

namespace rankmesh::cli {

std::string gib_text(std::int64_t bytes) {
    return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 30));
}

std::string seconds_text(double seconds) {
    if (seconds < 0.0995) return fmt::format("{:.2g}", seconds);
    return fmt::format("{:.{}f}", seconds, seconds < 9.995 ? 2 : seconds < 99.95 ? 1 : 0);
}

std::string percent_text(double share) { return fmt::format("{:.1f}", 100 * share); }

std::size_t width_of(const std::string& text) {
    auto widest = std::size_t{0};
    for (auto left = std::string_view(text); !left.empty();) {
        const auto line = left.substr(0, left.find('\n'));
        widest = std::max(widest, line.size());
        left.remove_prefix(std::min(left.size(), line.size() + 1));
    }
    return widest;
}

void print_folded(std::string_view text, Output& output) {
    output.print("{}\n", folded(text, 2, static_cast<std::size_t>(terminal_width())));
}

void print_with_lines(const std::string& table, const std::vector<std::string>& below, Output& output) {
    auto left = std::string_view(table);
    for (std::size_t i = 0; i <= below.size(); ++i) {
        const auto end = left.find('\n') + 1;
        output.write(left.substr(0, end));
        left.remove_prefix(end);
        if (i > 0)
            output.print("  {}\n", folded(below[i - 1], 4,
                                          static_cast<std::size_t>(std::max(terminal_width(), 20) - 2)));
    }
}

void print_bytes(const std::vector<std::pair<std::int64_t, std::string_view>>& parts, Output& output) {
    auto rows = std::vector<std::vector<std::string>>{};
    for (const auto& [bytes, name] : parts)
        if (bytes > 0) rows.push_back({gib_text(bytes), std::string(name)});
    output.write(table(rows, 0, 1));
}

}  // namespace rankmesh::cli
