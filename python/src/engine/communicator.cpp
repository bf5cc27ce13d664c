// SPDX-License-Identifier: Apache-2.0
#include "engine/channel.hpp"
#include "engine/operations.hpp"
#include "values/ranks.hpp"

namespace rankmesh::python {
namespace {

using Self = CommunicatorHandle;

/// The ranks of the group.
void bind_group(nb::class_<Self>& c) {
    c.def_prop_ro("rank", asking<Self, &Communicator::rank>, "This process's rank in the group.")
        .def_prop_ro("size", asking<Self, &Communicator::size>, "The number of ranks of the group.")
        .def_prop_ro("label", asking<Self, &Communicator::label>,
                     "The name and mesh, as in error texts: \"'dp' of mesh dp=2 tp=2\".")
        .def_prop_ro(
            "world_ranks", [](const Self& self) { return Ranks(self.get().world_ranks()); },
            "The world ranks of the group, in order.");
    method(c, "def world_rank(self, group_rank: int) -> int", "Returns the world rank of a group rank.",
           [](const Self& self, nb::handle rank) {
               return self.get().world_rank(int_of(rank, "a group rank"));
           });
    method(
        c, "def group_rank_of(self, world_rank: int) -> int | None",
        "Returns the group rank of a world rank; None if it is not in the group.",
        [](const Self& self, nb::handle rank) { return self.get().group_rank_of(int_of(rank, "a rank")); });
    method(c, "def within(self, timeout: float | datetime.timedelta) -> Communicator",
           "Returns the same communicator with another timeout, in seconds, for its blocking calls.",
           [](const Self& self, nb::handle timeout) {
               return std::make_unique<Self>(self.get().within(duration_of(timeout, "the timeout")));
           });
    c.def("__repr__", [](const Self& self) {
        return self.ended() ? std::string("<Communicator, ended>")
                            : detail::cat("<Communicator ", self.get().label(), ">");
    });
}

void bind_barriers(nb::class_<Self>& c) {
    bind_operation(
        c, "def barrier(self) -> None", "Returns when every rank of the group has called it.",
        +[](const Self&) { return Prepared{.call = {.operation = Op::barrier}}; });
    c.def(
         "_raise_if_broken",
         [](const Self& self) {
             const auto& state = detail::Access::state(self.get());
             const auto use = detail::Channel::Use(*state.channel, *state.label);
             state.channel->throw_if_broken(*state.label);
         },
         "Raises why the communicator cannot be used any more, such as PeerLost. Does not communicate.")
        .def(
            "monitored_barrier",
            [](const Self& self) {
                auto& on = self.get();
                without_gil(leaving(on), [&] { on.monitored_barrier(); });
            },
            "Like barrier(), but an expired timeout raises Timeout with `arrived` and `missing` on every "
            "engine, also on MPI.");
}

}  // namespace

Leave leaving(const Communicator& on) { return leaving(detail::Access::state(on).world); }

void bind_communicator(nb::module_& m) {
    bind_pending(m);
    auto c = nb::class_<Self>(
        m, "Communicator",
        "The communicator of one group. Every rank of the group calls the same operations in the same "
        "order.\n\nArrays are NumPy arrays, CPU tensors, and other objects with the buffer protocol or "
        "DLPack; lengths are in elements. Arrays that are not contiguous, such as slices, are copied through "
        "memory of the communicator. Calls return the array that was written. Blocking calls release the "
        "GIL. They raise UsageError for arrays of a wrong length, type or layout, Timeout, PeerLost, and on "
        "threads and in checked mode Disagreement if the ranks' calls differ.");
    bind_group(c);
    bind_reductions(c);
    bind_sums_and_locations(c);
    bind_sparse(c);
    bind_copies(c);
    bind_messages(c);
    bind_barriers(c);
    bind_objects(c);
}

}  // namespace rankmesh::python
