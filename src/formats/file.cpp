// SPDX-License-Identifier: Apache-2.0
#include "formats/file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace rankmesh::formats {

namespace {

/// An open file, or standard input, which is left open.
class File {
public:
    // Without O_NONBLOCK, opening a pipe waits for a writer.
    explicit File(const std::string& path)
        : descriptor_(path == "-" ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)),
          error_(errno) {}
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File() {
        if (descriptor_ > STDIN_FILENO) close(descriptor_);
    }

    bool is_pipe() const {
        struct stat status {};
        return fstat(descriptor_, &status) == 0 && S_ISFIFO(status.st_mode);
    }
    /// Why the file could not be opened or, if it was, read.
    std::string why() const { return std::generic_category().message(descriptor_ < 0 ? error_ : errno); }
    /// Appends at most `most` bytes. Returns their number, 0 at the end, a negative number for an error.
    ssize_t read_into(std::string& text, std::size_t most) const {
        const auto begin = text.size();
        text.resize(begin + most);
        auto count = ssize_t{-1};
        while ((count = read(descriptor_, text.data() + begin, most)) < 0 &&
               (errno == EINTR || errno == EAGAIN)) {
            auto ready = pollfd{.fd = descriptor_, .events = POLLIN, .revents = 0};
            poll(&ready, 1, -1);
        }
        text.resize(begin + (count > 0 ? static_cast<std::size_t>(count) : 0));
        return count;
    }

private:
    int descriptor_;
    int error_;
};

}  // namespace

std::string content_of(const std::string& path, const std::string& name, std::size_t most) {
    const auto file = File(path);
    auto text = std::string{};
    auto count = ssize_t{1};
    while (count > 0 && text.size() <= most) count = file.read_into(text, most + 1 - text.size());
    if (count < 0) throw UsageError(detail::cat(name, " cannot be read: ", file.why()));
    if (text.empty() && path != "-" && file.is_pipe())
        throw UsageError(
            detail::cat(name, " is a pipe that nobody writes to; start what writes to it first"));
    if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);  // a byte order mark
    return text;
}

bool is_file_name(const std::string& text, std::string_view never,
                  std::initializer_list<std::string_view> endings) {
    if (text.find_first_of(never) != std::string::npos) return false;
    if (text.find('/') != std::string::npos ||
        std::ranges::any_of(endings, [&](auto end) { return text.ends_with(end); }))
        return true;
    auto unknown = std::error_code{};  // a name that is too long is not a file
    const auto found = std::filesystem::status(text, unknown);
    return std::filesystem::exists(found) && !std::filesystem::is_directory(found);
}

}  // namespace rankmesh::formats
