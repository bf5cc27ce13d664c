// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <rankmesh/core/error.hpp>

#include "engine/store/store.hpp"

namespace rankmesh::detail {

/// The process that serves the store has ended or cannot be reached.
struct ServerLost final : EngineFailure {
    /// `gone` says what happened, `then` what follows from it.
    ServerLost(const std::string& gone, const std::string& then) : EngineFailure(gone + then), gone(gone) {}
    std::string gone;
};
/// The process that serves the store does not answer.
struct ServerSilent final : Timeout {
    using Timeout::Timeout;
};

/// A store that a process of the job serves, and that ends with this process.
class ServedStore : public Store {
public:
    /// How this process names itself as the server, `process 17 on head, a job of 8 ranks`; "" if another
    /// process serves the store.
    virtual std::string served_as() const = 0;
    /// How the server names itself. Tries once, over a connection of its own, and throws EngineFailure with
    /// the reason if the server cannot be reached.
    virtual std::string ping(Instant until) = 0;
    /// Why it is uncertain whether the server has ended; "" if it has ended for certain.
    virtual std::string doubt() = 0;
};

}  // namespace rankmesh::detail
