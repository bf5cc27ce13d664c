// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include <rankmesh/core/export.hpp>

namespace rankmesh {

namespace detail {
struct CommunicatorState;
class Packed;

/// The entries of a started operation in the flight record.
struct RecordPlaces {
    std::uint64_t first = 0;
    std::uint32_t count = 0;
};
}  // namespace detail

/// A started operation; its buffers must not be used or freed until wait() has returned.
///
/// Destroyed without `wait()`, it waits. Destroyed while an exception unwinds, it never waits: it aborts the
/// job (MPI), or takes its buffers back and fails the communicator, so that peers throw PeerLost (threads,
/// Gloo).
class [[nodiscard]] RANKMESH_EXPORT Pending {
public:
    Pending();
    Pending(Pending&& other) noexcept;
    Pending& operator=(Pending&& other) noexcept;
    ~Pending();

    /// Returns once the operation is complete and its buffers may be used again; a second call does nothing.
    ///
    /// Throws Timeout when the communicator's timeout expires, PeerLost when a peer has left.
    ///
    /// On a device it returns at once; later work on the stream is ordered after the operation.
    void wait();
    /// The same, and on a device blocks this thread until it is complete, also after `wait()`.
    void synchronize();
    /// True if `synchronize()` would return at once.
    bool done();

private:
    friend class Communicator;
    Pending(std::shared_ptr<detail::CommunicatorState> state, std::uint64_t ticket,
            detail::RecordPlaces record, std::unique_ptr<detail::Packed> packed);
    void finish(bool synchronize);
    void leave() noexcept;

    std::shared_ptr<detail::CommunicatorState> state_;  // null: nothing is pending
    std::uint64_t ticket_ = 0;
    std::unique_ptr<detail::Packed> packed_;  // of a list: what is copied back when it is complete
    bool ordered_ = false;                    // on a device: waited for, and not known to be complete
    int exceptions_ = 0;                      // in flight when this was started
    detail::RecordPlaces record_;
};

}  // namespace rankmesh
