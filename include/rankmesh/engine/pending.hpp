// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

namespace rankmesh {

namespace detail {
struct Line;
}

/// An operation that was started and has not been waited for; its buffers belong to it until then.
///
/// Destroyed without `wait()`, it waits. Destroyed while an exception unwinds, it never waits: it aborts the
/// job (MPI), or takes its buffers back and poisons the communicator, so that peers throw Lost (threads).
class [[nodiscard]] Pending {
public:
    Pending() = default;
    Pending(Pending&& other) noexcept;
    Pending& operator=(Pending&& other) noexcept;
    ~Pending();

    /// Returns once the operation is complete and the buffers are the caller's again; a second call does
    /// nothing.
    ///
    /// Throws Deadline when the communicator's deadline passes, Lost when a peer has left.
    void wait();
    /// True if `wait()` would return at once.
    bool done();

private:
    friend class Communicator;
    Pending(std::shared_ptr<detail::Line> line, std::uint64_t ticket);
    void leave() noexcept;

    std::shared_ptr<detail::Line> line_;  // null: nothing is pending
    std::uint64_t ticket_ = 0;
    int exceptions_ = 0;  // in flight when this was started
};

}  // namespace rankmesh
