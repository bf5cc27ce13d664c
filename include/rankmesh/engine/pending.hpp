// SPDX-License-Identifier: Apache-2.0
// Pending, a started operation.
#pragma once

#include <cstdint>
#include <memory>

#include <rankmesh/core/export.hpp>

namespace rankmesh {

namespace detail {
struct Access;
struct CommunicatorState;
class Staged;

/// The entries of a started operation in the flight record.
struct RecordPlaces {
    std::uint64_t first = 0;
    std::uint32_t count = 0;
};
}  // namespace detail

/// A started operation. Its buffers must not be used or freed until wait() has returned.
///
/// The destructor waits if `wait()` was not called. If an exception destroys it, the destructor does not
/// wait: it aborts the job (MPI), or releases the buffers and fails the communicator, and peers throw
/// PeerLost (threads, Gloo).
class [[nodiscard]] RANKMESH_EXPORT Pending {
public:
    Pending();
    Pending(Pending&& other) noexcept;
    Pending& operator=(Pending&& other) noexcept;
    ~Pending();

    /// Waits until the operation is complete and its buffers may be used again. A second call does nothing.
    ///
    /// Throws Timeout if the communicator's timeout expires, and PeerLost if a peer has left.
    ///
    /// On a device, wait returns at once; later work on the stream runs after the operation.
    void wait();
    /// Like wait, but on a device blocks this thread until the operation is complete, even after `wait()`.
    void synchronize();
    /// Returns true if `synchronize()` would return at once.
    bool done();
    /// Returns the group rank whose message a start_recv from any_rank has received. Throws UsageError before
    /// `wait()` and for other operations.
    int sender() const;

private:
    friend class Communicator;
    friend struct detail::Access;
    Pending(std::shared_ptr<detail::CommunicatorState> state, std::uint64_t ticket,
            detail::RecordPlaces record, std::unique_ptr<detail::Staged> staged);
    void finish(bool synchronize);
    void leave() noexcept;

    std::shared_ptr<detail::CommunicatorState> state_;  // null: nothing is pending
    std::unique_ptr<Pending> before_;  // waited for first: an exchange over several axes is one operation
    std::uint64_t ticket_ = 0;
    std::unique_ptr<detail::Staged> staged_;  // what is copied back when the operation is complete
    bool ordered_ = false;                    // on a device: wait() was called, completion is not known
    int exceptions_ = 0;                      // exceptions in flight when the operation was started
    int sender_ = -1;                         // of the message, once it is received from any rank
    detail::RecordPlaces record_;
};

}  // namespace rankmesh
