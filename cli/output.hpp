// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "report/columns.hpp"

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
    void write(std::string_view text) {
        buffer_ += text;
        if (buffer_.size() >= piece) flush();
    }

    /// Throws Unwanted, or Error if the system refuses: a full disk, a closed stream.
    void flush();

private:
    void print_all(fmt::string_view format, fmt::format_args values);

    static constexpr std::size_t piece = 64 * 1024;
    std::string buffer_;
};

/// The engines and stores of this build: `gloo (Gloo 0.5.0)`.
std::string engines_text();

/// The words with a separator between them.
std::string joined(const std::vector<std::string>& words, std::string_view separator);

using report::bytes_text;
using report::folded;
using report::table;
using report::time_text;

/// The columns of the terminal behind standard output: its own answer, else COLUMNS.
std::optional<int> known_width();
/// The same, else 80.
int terminal_width();

/// True if output is coloured by `--color`: auto, always or never; `auto` is colour on a terminal without
/// NO_COLOR.
bool wants_color(std::string_view choice);

}  // namespace rankmesh::cli
