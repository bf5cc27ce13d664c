// SPDX-License-Identifier: Apache-2.0
#include "file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <rankmesh/core/error.hpp>

#include "output.hpp"

namespace rankmesh::cli {

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
        while (!text.empty()) {
            const auto written = ::write(descriptor_, text.data(), text.size());
            if (written >= 0)
                text.remove_prefix(static_cast<std::size_t>(written));
            else if (errno != EINTR)
                return errno;
        }
        return ::fsync(descriptor_) == 0 ? 0 : errno;
    }
    int rename(const fs::path& to) const { return ::rename(path_.c_str(), to.c_str()) == 0 ? 0 : errno; }

private:
    std::string path_;
    int descriptor_;
};

std::string message_of(int error) { return std::generic_category().message(error); }

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
    if (!temporary.is_open()) throw UsageError(refusal(path, message_of(errno)));
    if (const auto failed = temporary.write(text)) throw Error(refusal(path, message_of(failed)));
    if (const auto failed = temporary.rename(target)) throw Error(refusal(path, message_of(failed)));
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
