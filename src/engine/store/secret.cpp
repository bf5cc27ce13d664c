// SPDX-License-Identifier: Apache-2.0
#include "engine/store/secret.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <rankmesh/core/error.hpp>

namespace rankmesh::detail {
namespace {

/// Throws UsageError unless this user, or root for it, is the only one who can read the file.
void check_private(int file, const std::string& what) {
    struct stat status {};
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) throw UsageError(cat(what, " is no file"));
    if (status.st_uid != geteuid() && status.st_uid != 0)
        throw UsageError(cat(what, " belongs to user ", status.st_uid, ", but this process runs as ",
                             geteuid(), "; name a file of your own"));
    if ((status.st_mode & 077) != 0) {
        auto mode = std::array<char, 8>{};
        std::snprintf(mode.data(), mode.size(), "%04o", status.st_mode & 07777);
        throw UsageError(
            cat(what, " can be read or written by others (mode ", mode.data(), "); chmod 600 it"));
    }
}

}  // namespace

std::optional<Secret> secret(const std::string& name) {
    const auto file_name = name + "_FILE";
    const auto* value = std::getenv(name.c_str());
    const auto* path = std::getenv(file_name.c_str());
    // As a secret that does not exist leaves it, which its owner believes to be set.
    for (const auto& [variable, text] : {std::pair(name, value), {file_name, path}})
        if (text && !*text)
            throw UsageError(cat(variable, " is set and empty; give it the secret, or unset it"));
    if (value && path) throw UsageError(cat(name, " and ", file_name, " are both set; unset one of them"));
    if (value) return Secret{value, name};
    if (!path) return std::nullopt;

    const auto what = cat("the file '", path, "' (", file_name, ")");
    const auto file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) throw UsageError(cat(what, " cannot be read: ", std::strerror(errno)));
    auto line = std::string(4096, '\0');
    try {
        check_private(file, what);
    } catch (...) {
        close(file);
        throw;
    }
    const auto length = read(file, line.data(), line.size());
    close(file);
    line.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
    line.resize(std::min(line.find_first_of("\r\n"), line.size()));
    if (line.empty()) throw UsageError(cat(what, " holds nothing in its first line"));
    return Secret{line, file_name};
}

}  // namespace rankmesh::detail
