// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstring>

#include <rankmesh/core/error.hpp>

namespace rankmesh::detail {

/// This process lacks what it needs for itself, such as a descriptor; no peer is to blame.
struct Shortage final : EngineFailure {
    using EngineFailure::EngineFailure;
};

/// True of an `errno` that says so.
inline bool is_shortage(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/// Throws Shortage if that is what an `errno` says.
inline void throw_if_short(int error) {
    if (is_shortage(error))
        throw Shortage(cat("no descriptor can be opened here: ", std::strerror(error),
                           "; see the limits of this process (ulimit -n)"));
}

}  // namespace rankmesh::detail
