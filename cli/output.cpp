// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <system_error>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/name.hpp>
#include <rankmesh/engine/launcher.hpp>

namespace rankmesh::cli {

void Output::print_all(fmt::string_view format, fmt::format_args values) {
    buffer_ += fmt::vformat(format, values);  // in the library, under a name on which g++ and clang agree
    if (buffer_.size() >= piece) flush();
}

void Output::flush() {
    auto left = std::string_view(buffer_);
    while (!left.empty()) {
        const auto written = ::write(STDOUT_FILENO, left.data(), left.size());
        if (written >= 0) {
            left.remove_prefix(static_cast<std::size_t>(written));
        } else if (errno == EPIPE) {
            throw Unwanted{};
        } else if (errno != EINTR) {
            throw Error(
                detail::cat("standard output cannot be written: ", std::generic_category().message(errno)));
        }
    }
    buffer_.clear();
}

std::string table(const std::vector<std::vector<std::string>>& rows, std::size_t first, std::size_t last) {
    auto widths = std::vector<std::size_t>(rows.front().size());
    for (const auto& row : rows)
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    auto text = std::string{};
    for (const auto& row : rows) {
        auto line = std::string{};
        for (std::size_t i = 0; i < row.size(); ++i) {
            const auto is_text = i < first || i + last >= row.size();
            if (i > 0) line += "  ";
            line +=
                is_text ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("{:>{}}", row[i], widths[i]);
        }
        line.resize(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
    auto text = std::string{};
    for (const auto& word : words) text.append(text.empty() ? "" : separator).append(word);
    return text;
}

std::string bytes_text(std::size_t bytes) {
    if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
    if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
    return fmt::format("{} B", bytes);
}

std::string time_text(double seconds) {
    if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
    return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string folded(std::string_view text, std::size_t indent, std::size_t width) {
    auto lines = std::string{};
    auto column = std::size_t{0};
    while (!text.empty()) {
        const auto word = text.substr(0, text.find(' '));
        text.remove_prefix(std::min(text.size(), word.size() + 1));
        if (column > indent && column + 1 + word.size() > width) {
            lines += "\n" + std::string(indent, ' ');
            column = indent;
        } else if (column > 0) {
            lines += ' ';
            ++column;
        }
        lines += word;
        column += word.size();
    }
    return lines;
}

int terminal_width() {
    auto size = winsize{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    if (const auto* columns = std::getenv("COLUMNS")) {
        const auto text = std::string_view(columns);
        auto width = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), width);
        if (error == std::errc{} && end == text.data() + text.size() && width > 0) return width;
    }
    return 80;
}

bool wants_color(std::string_view choice) {
    if (choice == "always") return true;
    if (choice == "never") return false;
    if (choice != "auto")
        throw UsageError(detail::cat("--color is auto, always or never, not ", detail::in_quotes(choice),
                                     did_you_mean(choice, {"auto", "always", "never"})));
    // A launcher may give its ranks a terminal of its own, whatever stands behind it.
    if (announced_size()) return false;
    const auto* no_color = std::getenv("NO_COLOR");
    const auto* terminal = std::getenv("TERM");
    return ::isatty(STDOUT_FILENO) == 1 && !(no_color && *no_color != '\0') &&
           !(terminal && std::string_view(terminal) == "dumb");
}

}  // namespace rankmesh::cli
