// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <string>

#include "engine/gloo/wire.hpp"

namespace rankmesh::detail {

/// Reaches a member that listens, and proves to it that it was invited; tries again where that may help: the
/// network can be down for a moment, and strangers can take the place of this attempt.
class Dial final {
public:
    using Clock = std::chrono::steady_clock;

    explicit Dial(const Invitation& invitation) : invitation_(invitation) {}
    ~Dial();
    Dial(const Dial&) = delete;
    Dial& operator=(const Dial&) = delete;

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

    const Invitation invitation_;
    Stage stage_ = Stage::idle;
    int descriptor_ = -1;
    std::size_t heard_ = 0;
    Invitation::Word answer_ = {};
    Clock::time_point next_ = {};
    std::chrono::milliseconds pause_{1};
    std::string trouble_;
};

}  // namespace rankmesh::detail
