// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/channel.hpp"

namespace rankmesh::detail {

/// Operations on a group of one rank, the same on every engine: at most a copy.
class Alone final : public Channel {
public:
    void run(const Call& call, const Label& label, Duration timeout) override;
    std::uint64_t start(std::span<const Call> calls, const Label& label) override;
    void wait(std::uint64_t, const Label&, Duration) override {}
    bool done(std::uint64_t) override { return true; }
    bool set_bell(Bell*) override { return true; }  // nothing is left to wait for
    void leave(std::uint64_t, const Label&) noexcept override {}
    void leave() noexcept override {}
    void enter_child() noexcept override {}  // where it works as well
};

}  // namespace rankmesh::detail
