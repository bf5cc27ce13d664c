// SPDX-License-Identifier: Apache-2.0
// Pending, a started operation, and waiting for several.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>

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
    /// Returns the group rank whose message a started recv from any_rank has received. Throws UsageError before
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

namespace detail {
RANKMESH_EXPORT void wait_all(std::span<Pending* const> pendings);
RANKMESH_EXPORT std::optional<std::size_t> wait_any(std::span<Pending* const> pendings);
}  // namespace detail

/// Waits until every operation is complete. Their timeouts run at the same time. If operations fail, throws
/// the error of the first of them after it has waited for the others.
RANKMESH_EXPORT void wait_all(std::span<Pending> pendings);
/// The same for operations given one by one.
///
///     void finish(Pending& gradients, Pending& loss) { wait_all(gradients, loss); }
template <class... Pendings>
    requires(sizeof...(Pendings) > 0 && (std::same_as<std::remove_cvref_t<Pendings>, Pending> && ...))
void wait_all(Pendings&&... pendings) {
    Pending* const all[] = {&pendings...};
    detail::wait_all(all);
}

/// Waits until one of the operations is complete, and returns its index. Ignores operations that were waited
/// for; returns nullopt if no other is left. The operations may be on several communicators.
///
/// Timeouts run from this call on. If one expires first, throws what wait() of that operation throws. If the
/// operation that completes first has failed, throws its error. On a device blocks this thread until the
/// operation is complete, as synchronize() does.
///
/// On MPI and NCCL, and in checked mode, this thread asks again and again, since these engines cannot wait
/// for several operations.
///
///     void work_off(std::vector<Pending>& arrivals, const std::function<void(std::size_t)>& use) {
///         while (const auto i = wait_any(arrivals)) use(*i);
///     }
RANKMESH_EXPORT std::optional<std::size_t> wait_any(std::span<Pending> pendings);

}  // namespace rankmesh
