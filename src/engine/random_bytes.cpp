// SPDX-License-Identifier: Apache-2.0
#include "engine/random_bytes.hpp"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/text.hpp>

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

}  // namespace rankmesh::detail
