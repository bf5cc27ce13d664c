// SPDX-License-Identifier: Apache-2.0
// The bindings; each is in the file of its name.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "engine/array.hpp"
#include "engine/handle.hpp"
#include "values/signature.hpp"

namespace rankmesh::detail {
class WorldState;
struct RecordReason;
}  // namespace rankmesh::detail

namespace rankmesh::python {

/// Returns a function that leaves a world and tells its peers why. It does not keep the world alive.
Leave leaving(const std::shared_ptr<detail::WorldState>& world);
Leave leaving(const Communicator& on);
/// Returns the reason of a flight record when a Python exception ends a world: `KeyError: 'x'`.
detail::RecordReason reason_of(nb::handle exception);
/// Returns the options of a world; None is the default.
WorldOptions options_of(nb::handle engine, nb::handle timeout, bool multithreaded,
                        std::optional<bool> checked, nb::handle record, nb::handle record_signal,
                        nb::handle log);
/// The last of them in signatures.
inline constexpr auto record_options =
    "record: str | os.PathLike[str] | None = None, record_signal: int | None = None, log: "
    "collections.abc.Callable[[str], object] | logging.Logger | None = None";

/// Returns Python's Pending of a started operation, which keeps its arrays alive. wait() returns `result`.
nb::object started(Pending&& pending, Leave leave, std::vector<Array>&& arrays, nb::object result,
                   std::chrono::nanoseconds timeout);

void bind_halo(nb::class_<MemberHandle>& c);
void bind_copies(nb::class_<CommunicatorHandle>& c);
void bind_messages(nb::class_<CommunicatorHandle>& c);
void bind_pending(nb::module_& m);
void bind_reductions(nb::class_<CommunicatorHandle>& c);
void bind_run(nb::module_& m);
void bind_world(nb::module_& m);
void bind_member(nb::module_& m);
void bind_communicator(nb::module_& m);
void bind_mpi4py(nb::module_& m);

}  // namespace rankmesh::python
