// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include "report/columns.hpp"

namespace rankmesh::cli {

/// Buffered standard output. A failed write throws Error.
class Output {
public:
    /// Thrown if the reader of the pipe has closed it.
    struct Unwanted {};

    template <class... Values>
    void print(fmt::format_string<Values...> format, Values&&... values) {
        print_all(format, fmt::make_format_args(values...));
    }
    void write(std::string_view text) {
        buffer_ += text;
        if (buffer_.size() >= piece) flush();
    }

    /// Writes the buffer. Throws Unwanted, or Error if writing fails: a full disk, a closed stream.
    void flush();

private:
    void print_all(fmt::string_view format, fmt::format_args values);

    static constexpr std::size_t piece = 64 * 1024;
    std::string buffer_;
};

/// Returns the engines of this build: `gloo (Gloo 0.5.0)`.
std::string engines_text();

using report::bytes_text;
using report::folded;
using report::joined;
using report::megabytes_text;
using report::table;
using report::time_text;

/// Returns the width of the terminal of standard output, else COLUMNS.
std::optional<int> known_width();
/// Returns known_width(), else 80.
int terminal_width();
/// Returns a line, folded if the width is known: a line in a pipe stays one.
std::string folded_if_known(std::string_view line);

/// Returns true if `--color` asks for colour: `always`, or `auto` on a terminal without NO_COLOR.
bool wants_color(std::string_view choice);

}  // namespace rankmesh::cli
