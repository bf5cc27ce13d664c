// SPDX-License-Identifier: Apache-2.0
#include "engine/channel.hpp"
#include "engine/operations.hpp"
#include "values/ranks.hpp"

namespace rankmesh::python {
namespace {

using detail::cat;

std::string named(Op operation, const char* part) {
    return cat("the ", part, " of ", detail::to_string(operation));
}

/// The arrays of a list, with what holds their memory.
struct List {
    Buffers buffers;
    std::vector<Array> keep;
};

List list_of(nb::handle objects) {
    auto list = List{};
    for (auto object : objects) {
        list.keep.push_back(contiguous_array_of(object, detail::buffer_of_list(list.keep.size()), true));
        detail::ListAccess::pieces(list.buffers).push_back(list.keep.back());
    }
    return list;
}

}  // namespace

Prepared arrays_of(Op operation, nb::handle in, nb::handle out) {
    const auto in_place = out.is_none();
    auto prepared = Prepared{.call = {.operation = operation}};
    prepared.in = array_of(in, named(operation, in_place ? "buffer" : "input"), in_place);
    prepared.out = in_place ? prepared.in : array_of(out, named(operation, "output"), true);
    prepared.result = nb::borrow(in_place ? in : out);
    return prepared;
}

Prepared rooted_arrays(Op operation, const Communicator& on, nb::handle in, nb::handle out, int root) {
    auto prepared = Prepared{.call = {.operation = operation}};
    const auto root_reads = detail::traits(operation).reads == detail::Users::root;
    const auto mine = on.rank() == root;
    const auto needed = [&](nb::handle given, const char* part) {
        if (given.is_none())
            throw UsageError(cat("rank ", on.rank(), " of ", on.label(), " gives None as ",
                                 named(operation, part), "; only ranks other than the root ", root, " may"));
    };
    const auto is_given = [&](nb::handle given, bool is_of_root) {
        return !is_of_root || mine || !given.is_none();
    };
    if (is_given(in, root_reads)) {
        needed(in, "input");
        prepared.in = array_of(in, named(operation, "input"), false);
    }
    if (is_given(out, !root_reads)) {
        needed(out, "output");
        prepared.out = array_of(out, named(operation, "output"), true);
    }
    const auto none_like = [](const Array& other) { return Array{{nullptr, 0, other.dtype, other.unit}}; };
    if (!is_given(in, root_reads)) prepared.in = none_like(prepared.out);
    if (!is_given(out, !root_reads)) prepared.out = none_like(prepared.in);
    prepared.result = nb::borrow(out);
    return prepared;
}

Prepared own_part(const CommunicatorHandle& self, Prepared&& prepared) {
    if (prepared.in.layout)
        prepared.own_part = true;
    else
        prepared.call = detail::Access::own_part(self.get(), std::move(prepared.call));
    return std::move(prepared);
}

nb::object run(const CommunicatorHandle& self, Prepared&& prepared) {
    auto& on = self.get();
    auto sender = 0;
    without_gil(leaving(on), [&] {
        with_call(prepared, [&](const auto& call) {
            if (prepared.call.is_from_any())
                sender = detail::Access::run_from_any(on, call);
            else
                detail::Access::run(on, call);
        });
    });
    return prepared.call.is_from_any() ? nb::object(nb::int_(sender)) : std::move(prepared.result);
}

Started start(const CommunicatorHandle& self, Prepared&& prepared) {
    auto& on = self.get();
    auto pending = with_call(prepared, [&](const auto& call) { return detail::Access::start(on, call); });
    return Started(std::move(pending), leaving(on), std::move(prepared), detail::Access::state(on).timeout);
}

nb::object run_list(const CommunicatorHandle& self, nb::handle objects, const detail::Call& like) {
    const auto list = list_of(objects);
    auto& on = self.get();
    without_gil(leaving(on), [&] { detail::Access::run_list(on, like, list.buffers); });
    return nb::borrow(objects);
}

std::string start_signature(const std::string& signature) {
    const auto arrow = signature.rfind(" -> ") + 4;
    const auto name = std::string("def ").size();
    return cat("def start_", signature.substr(name, arrow - name), "Pending[", signature.substr(arrow), "]");
}

std::string start_text(const std::string& signature) {
    const auto name = std::string("def ").size();
    return cat("Starts ", signature.substr(name, signature.find('(') - name),
               " and returns at once. The arrays must not be used until the Pending's wait() returns.");
}

Leave leaving(const Communicator& on) { return leaving(detail::Access::state(on).world); }

void bind_communicator(nb::module_& m) {
    using Self = CommunicatorHandle;
    bind_pending(m);
    auto c = nb::class_<Self>(
        m, "Communicator",
        "The communicator of one group. Every rank of the group calls the same operations in the same "
        "order.\n\nArrays are NumPy arrays, CPU tensors, and other objects with the buffer protocol or "
        "DLPack; lengths are in elements. Arrays that are not contiguous, such as slices, are copied through "
        "memory of the communicator. Calls return the array that was written. Blocking calls release the "
        "GIL. They raise UsageError for arrays of a wrong length, type or layout, Timeout, PeerLost, and on "
        "threads and in checked mode Disagreement if the ranks' calls differ.");
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
    bind_reductions(c);
    bind_copies(c);
    bind_messages(c);
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

}  // namespace rankmesh::python
