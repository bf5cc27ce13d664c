// SPDX-License-Identifier: Apache-2.0
// What the command writes: standard output, files, and its progress.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

/// Writes all of a text. Returns 0 or the system's error.
int write_all(int descriptor, std::string_view text);

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

/// Writes a file completely or not at all: writes a temporary file, then renames it.
///
/// On errors leaves an existing file unchanged. Throws UsageError if no file can be made, for example in a
/// folder that does not exist, or if `path` is not a regular file. Throws Error if writing fails.
void write_file(const std::filesystem::path& path, std::string_view text);

/// The format of a picture.
enum class PictureFormat { html, svg, txt };

/// Returns the format of `--format`, else of the suffix of `--out`. Throws UsageError if neither is in
/// `known`, or if they differ.
PictureFormat picture_format(std::string_view out, std::string_view format,
                             const std::vector<std::string>& known);

/// Reports the progress of a command on standard error every two seconds; on a terminal in one line that is
/// overwritten, and removed at the end.
class Progress {
public:
    /// Returns a progress that is silent unless standard error is a terminal.
    static Progress on_terminal() { return Progress(isatty(STDERR_FILENO) != 0); }
    /// Silent if `speaks` is false.
    explicit Progress(bool speaks = true) : speaks_(speaks) {}
    ~Progress() {
        if (shown_ && terminal_) std::fputs("\r\033[K", stderr);
    }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    /// Reports `text()`, which is called only when a report is due.
    template <class Text>
    void at(const Text& text) {
        const auto elapsed = std::chrono::steady_clock::now() - last_;
        if (speaks_ && elapsed >= std::chrono::milliseconds(terminal_ && shown_ ? 100 : 2000)) now(text());
    }
    /// Reports at once, before long work that does not report progress.
    void now(const std::string& text) {
        if (!speaks_) return;
        last_ = std::chrono::steady_clock::now();
        shown_ = true;
        const auto line = (terminal_ ? "\r\033[K" : "") + text + (terminal_ ? "" : "\n");
        std::fputs(line.c_str(), stderr);
        std::fflush(stderr);
    }

private:
    const bool speaks_;
    const bool terminal_ = isatty(STDERR_FILENO) != 0;
    bool shown_ = false;
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace rankmesh::cli
