// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>
#include <rankmesh/engine/built.hpp>
#include <rankmesh/engine/launcher.hpp>

namespace rankmesh::cli {

void Output::print_all(fmt::string_view format, fmt::format_args values) {
    write(fmt::vformat(format, values));  // in the library, under a name on which g++ and clang agree
}

int write_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const auto written = ::write(descriptor, text.data(), text.size());
        if (written >= 0)
            text.remove_prefix(static_cast<std::size_t>(written));
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}

void Output::flush() {
    const auto error = write_all(STDOUT_FILENO, buffer_);
    if (error == EPIPE) throw Unwanted{};
    if (error != 0)
        throw Error(detail::cat("cannot write to standard output: ", std::generic_category().message(error)));
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

namespace {

namespace fs = std::filesystem;

std::string refusal(const fs::path& path, const std::string& why) {
    return detail::cat(detail::in_quotes(path.string()), " cannot be written: ", why);
}

/// A temporary file that is removed unless it was renamed.
class Temporary {
public:
    Temporary(const fs::path& path, mode_t mode)
        : path_(path.string() + "." + std::to_string(::getpid()) + ".tmp"),
          descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode)) {}
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;
    ~Temporary() {
        if (descriptor_ < 0) return;
        ::close(descriptor_);
        ::unlink(path_.c_str());  // does nothing after a rename
    }

    bool is_open() const { return descriptor_ >= 0; }
    /// Returns 0 or the system's error.
    int write(std::string_view text) const {
        if (const auto error = write_all(descriptor_, text)) return error;
        return ::fsync(descriptor_) == 0 ? 0 : errno;
    }
    int rename(const fs::path& to) const { return ::rename(path_.c_str(), to.c_str()) == 0 ? 0 : errno; }

private:
    std::string path_;
    int descriptor_;
};

}  // namespace

void write_file(const fs::path& path, std::string_view text) {
    auto error = std::error_code{};
    const auto status = fs::status(path, error);
    if (fs::exists(status) && !fs::is_regular_file(status))
        throw UsageError(refusal(path, "it is not a regular file"));
    // Replace the target of a symbolic link, not the link, and keep the file's permissions.
    const auto target = fs::exists(status) ? fs::canonical(path) : path;
    const auto mode = fs::exists(status) ? static_cast<mode_t>(status.permissions()) : mode_t{0666};
    const auto temporary = Temporary(target, mode);
    if (!temporary.is_open()) throw UsageError(refusal(path, std::generic_category().message(errno)));
    auto failed = temporary.write(text);
    if (failed == 0) failed = temporary.rename(target);
    if (failed != 0) throw Error(refusal(path, std::generic_category().message(failed)));
}

PictureFormat picture_format(std::string_view out, std::string_view format,
                             const std::vector<std::string>& known) {
    if (out.empty() && format.empty())
        throw UsageError(detail::cat("--out is missing; add --out FILE.", known.front(), ", or --format ",
                                     known.front(), " to print the picture"));
    auto ending = std::filesystem::path(out).extension().string();
    if (!ending.empty()) ending.erase(0, 1);
    if (!out.empty() && std::ranges::find(known, ending) == known.end())
        throw UsageError(detail::cat("--out ", detail::in_quotes(out),
                                     " has no known file type; the name must end in .",
                                     joined(known, ", .")));
    if (!out.empty() && !format.empty() && ending != format)
        throw UsageError(detail::cat("--out ", detail::in_quotes(out), " is ", ending, ", but --format is ",
                                     format, "; remove --format"));
    const auto name = out.empty() ? format : std::string_view(ending);
    return name == "html" ? PictureFormat::html : name == "svg" ? PictureFormat::svg : PictureFormat::txt;
}

}  // namespace rankmesh::cli
