// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>
#include <rankmesh/engine/built.hpp>
#include <rankmesh/engine/launcher.hpp>

namespace rankmesh::cli {

void Output::print_all(fmt::string_view format, fmt::format_args values) {
    write(fmt::vformat(format, values));  // in the library, under a name on which g++ and clang agree
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
                detail::cat("cannot write to standard output: ", std::generic_category().message(errno)));
        }
    }
    buffer_.clear();
}

std::string engines_text() {
    auto engines = std::vector<std::string>{};
    for (const auto& [name, library] : built_engines())
        engines.push_back(library.empty() ? name : fmt::format("{} ({})", name, library));
    return joined(engines, ", ");
}

std::optional<int> known_width() {
    auto size = winsize{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    if (const auto* columns = std::getenv("COLUMNS")) {
        if (const auto width = detail::number_in(columns); width && *width > 0) return width;
    }
    return std::nullopt;
}

int terminal_width() { return known_width().value_or(80); }

std::string folded_if_known(std::string_view line) {
    const auto width = known_width();
    return width ? folded(line, 2, static_cast<std::size_t>(*width)) : std::string(line);
}

bool wants_color(std::string_view choice) {
    if (choice == "always") return true;
    if (choice == "never") return false;
    // A launcher may give its ranks a pseudo-terminal even if its own output is not a terminal.
    if (announced_size()) return false;
    const auto* no_color = std::getenv("NO_COLOR");
    const auto* terminal = std::getenv("TERM");
    return ::isatty(STDOUT_FILENO) == 1 && !(no_color && *no_color != '\0') &&
           !(terminal && std::string_view(terminal) == "dumb");
}

}  // namespace rankmesh::cli
