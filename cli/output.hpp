// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace rankmesh::cli {

/// Standard output, written in large pieces; what cannot be written is an Error, never lost.
class Output {
public:
    /// The reader of the pipe has gone: nobody wants the rest.
    struct Unwanted {};

    template <class... Values>
    void print(fmt::format_string<Values...> format, Values&&... values) {
        fmt::format_to(std::back_inserter(buffer_), format, std::forward<Values>(values)...);
        if (buffer_.size() >= piece) flush();
    }
    void write(std::string_view text) { print("{}", text); }

    /// Throws Unwanted, or Error if the system refuses: a full disk, a closed stream.
    void flush();

private:
    static constexpr std::size_t piece = 64 * 1024;
    std::string buffer_;
};

/// The columns of the terminal behind standard output: its own answer, else COLUMNS, else 80.
int terminal_width();

/// What `--color` says, one of auto, always and never; `auto` is colour on a terminal without NO_COLOR.
bool wants_color(std::string_view choice);

}  // namespace rankmesh::cli
