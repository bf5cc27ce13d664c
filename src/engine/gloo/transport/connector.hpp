// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <string>

#include "engine/fork.hpp"
#include "engine/gloo/transport/endpoint.hpp"
#include "engine/gloo/transport/word_reader.hpp"

namespace rankmesh::detail {

/// Connects to a peer that listens, and authenticates; tries again where that may help: the network can be
/// down for a moment, and foreign connections can displace an attempt.
class Connector final {
public:
    using Clock = std::chrono::steady_clock;

    explicit Connector(const Endpoint& endpoint) : endpoint_(endpoint) {}
    ~Connector();
    Connector(const Connector&) = delete;
    Connector& operator=(const Connector&) = delete;

    /// Advances as far as possible without waiting; true once the peer has answered. Throws EngineFailure
    /// where another attempt cannot help, Shortage where it is this process's own.
    bool advance();
    /// The event, and the time, after which to call `advance` again.
    pollfd awaited() const;
    Clock::time_point next() const { return next_; }
    /// Releases the socket to the caller.
    int take();
    /// The last error; "" without one.
    const std::string& trouble() const { return trouble_; }

private:
    enum class Stage { idle, connecting, listening };
    void begin();
    void fail(const char* what, int error);
    void speak();

    const Endpoint endpoint_;
    Stage stage_ = Stage::idle;
    int descriptor_ = -1;
    const ClosedOnFork closed_in_children_{descriptor_};
    WordReader answer_ = {};
    Clock::time_point next_ = {};
    std::chrono::milliseconds pause_{1};
    std::string trouble_;
};

}  // namespace rankmesh::detail
