// SPDX-License-Identifier: Apache-2.0
// The memory of Python objects as buffers for collectives, and the bindings; each is in the file of its name.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include <rankmesh/engine/buffer.hpp>
#include <rankmesh/engine/detail/memory_layout.hpp>

#include "engine/handle.hpp"
#include "values/signature.hpp"

namespace rankmesh::detail {
class WorldState;
struct RecordReason;
}  // namespace rankmesh::detail

namespace rankmesh::python {

/// An input or output of an operation: the elements of an array, which lives at least as long as this.
struct Array : detail::AnyBuffer<void> {
    std::shared_ptr<void> keep = nullptr;  ///< keeps the memory alive; released with the GIL held
    std::shared_ptr<const detail::MemoryLayout> layout = nullptr;  ///< null: contiguous and row-major
};

/// Returns the memory of a NumPy array, a CPU tensor, or another object with the buffer protocol or DLPack.
///
/// Throws TypeFault for other objects. Throws UsageError for memory of another device, types that no engine
/// moves, and for an output in read-only memory. `what` names the argument, such as "the output of
/// all_reduce".
Array array_of(nb::handle object, std::string_view what, bool written);
/// The same; throws UsageError unless the array is contiguous and row-major.
Array contiguous_array_of(nb::handle object, std::string_view what, bool written);

/// An array that is written, with its dimensions.
struct FieldArray : Array {
    std::vector<detail::MemoryLayout::Dimension> dimensions = {};
};
FieldArray field_of(nb::handle object, std::string_view what);

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
