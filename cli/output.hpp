// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

namespace rankmesh::cli {

/// Standard output, written in large pieces; a failed write throws Error.
class Output {
public:
    /// Thrown when the reader of the pipe has closed it.
    struct Unwanted {};

    template <class... Values>
    void print(fmt::format_string<Values...> format, Values&&... values) {
        print_all(format, fmt::make_format_args(values...));
    }
    void write(std::string_view text) { print("{}", text); }

    /// Throws Unwanted, or Error if the system refuses: a full disk, a closed stream.
    void flush();

private:
    void print_all(fmt::string_view format, fmt::format_args values);

    static constexpr std::size_t piece = 64 * 1024;
    std::string buffer_;
};

/// The words with a separator between them.
std::string joined(const std::vector<std::string>& words, std::string_view separator);

/// Rows of equally many words in columns two spaces apart. The first and the last so many columns are text,
/// aligned at the left; those between are numbers, aligned at the right.
std::string table(const std::vector<std::vector<std::string>>& rows, std::size_t first, std::size_t last);

/// `64 MiB`, or in the largest binary unit that says it exactly.
std::string bytes_text(std::size_t bytes);
/// `1.25 ms`.
std::string time_text(double seconds);

/// The words of a text in lines of at most `width` columns, those after the first indented.
std::string folded(std::string_view text, std::size_t indent, std::size_t width);

/// The columns of the terminal behind standard output: its own answer, else COLUMNS, else 80.
int terminal_width();

/// True if output is coloured by `--color`: auto, always or never; `auto` is colour on a terminal without
/// NO_COLOR.
bool wants_color(std::string_view choice);

}  // namespace rankmesh::cli
