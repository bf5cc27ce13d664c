// SPDX-License-Identifier: Apache-2.0
#include "engine/new_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace rankmesh::detail {

int write_new_file(int folder, const std::string& name, std::string_view text, mode_t mode) {
    const auto file =
        openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (file < 0) return errno;
    auto error = 0;
    while (!text.empty() && error == 0) {
        const auto count = write(file, text.data(), text.size());
        if (count >= 0)
            text.remove_prefix(static_cast<std::size_t>(count));
        else if (errno != EINTR)
            error = errno;
    }
    if (close(file) != 0 && error == 0) error = errno;
    if (error != 0) unlinkat(folder, name.c_str(), 0);
    return error;
}

}  // namespace rankmesh::detail
