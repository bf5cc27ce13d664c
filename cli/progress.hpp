// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

namespace rankmesh::cli {

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
