// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <string>

#include "engine/gloo/transport/connection.hpp"

namespace rankmesh::detail {

/// Reaches a member that listens, and proves to it that it was invited; tries again where that may help: the
/// network can be down for a moment, and strangers can take the place of this attempt.
class Connector final {
public:
    using Clock = std::chrono::steady_clock;

    explicit Connector(const Endpoint& endpoint) : endpoint_(endpoint) {}
    ~Connector();
    Connector(const Connector&) = delete;
    Connector& operator=(const Connector&) = delete;

    /// Goes on as far as it can without waiting; true once the member has answered. Throws EngineFailure
    /// where trying again is in vain.
    bool advance();
    /// What to wait for, and until when, before it is worth calling `advance` again.
    pollfd awaited() const;
    Clock::time_point next() const { return next_; }
    /// The connection, which is the caller's from now on.
    int take();
    /// What went wrong last; "" if nothing has.
    const std::string& trouble() const { return trouble_; }

private:
    enum class Stage { idle, connecting, listening };
    void begin();
    void fail(const char* what, int error);
    void speak();

    const Endpoint endpoint_;
    Stage stage_ = Stage::idle;
    int descriptor_ = -1;
    std::size_t heard_ = 0;
    Endpoint::Word answer_ = {};
    Clock::time_point next_ = {};
    std::chrono::milliseconds pause_{1};
    std::string trouble_;
};

}  // namespace rankmesh::detail
