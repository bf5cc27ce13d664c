// SPDX-License-Identifier: Apache-2.0
#include "engine/system.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdlib>

namespace rankmesh::detail {

std::string random_bytes(std::size_t size) {
    auto bytes = std::string(size, '\0');
    if (getrandom(bytes.data(), size, 0) != static_cast<ssize_t>(size))
        throw EngineFailure(cat("the system gives no random bytes: ", std::strerror(errno)));
    return bytes;
}

std::string new_secret() {
    auto secret = std::string{};
    for (const auto each : random_bytes(16))
        for (const auto digit : {each >> 4 & 15, each & 15})
            secret += "0123456789abcdef"[static_cast<std::size_t>(digit)];
    return secret;
}

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

std::string host_name() {
    if (const auto* given = std::getenv("RANKMESH_HOST")) return given;
    char name[256] = {};
    return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

}  // namespace rankmesh::detail
