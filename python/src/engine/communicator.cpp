// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <deque>
#include <exception>
#include <iterator>
#include <optional>
#include <tuple>

#include <nanobind/stl/vector.h>

#include <rankmesh/engine/detail/make_call.hpp>

#include "engine/access.hpp"
#include "engine/array.hpp"
#include "engine/channel.hpp"
#include "engine/engine.hpp"
#include "engine/interrupt.hpp"
#include "engine/started.hpp"
#include "values/ranks.hpp"

namespace rankmesh::python {
namespace {

using detail::Call;
using detail::cat;
using Op = detail::Operation;

/// The names of the reductions of arrays: the others have elements of their own.
std::vector<std::string> reductions_of_arrays() {
    auto names = std::vector<std::string>{};
    for (const auto& each : detail::reductions)
        if (each.elements != detail::ReducedElements::own) names.emplace_back(each.name);
    return names;
}

Reduction reduction_of(nb::handle given) {
    if (PyCallable_Check(given.ptr()))
        throw TypeFault(cat("a reduction is ", described(given),
                            "; in Python a reduction is a name, such as 'sum': all_gather the arrays and "
                            "combine them with your function"));
    const auto name = text_of(given, "a reduction");
    const auto* found = std::ranges::find(detail::reductions, name, &detail::ReductionTraits::name);
    if (found != std::end(detail::reductions) && found->elements != detail::ReducedElements::own)
        return static_cast<Reduction>(found - std::begin(detail::reductions));
    throw UsageError(cat("a reduction is ", detail::in_quotes(name), "; there are ",
                         detail::listed(reductions_of_arrays())));
}

std::string named(Op operation, const char* part) {
    return cat("the ", part, " of ", detail::to_string(operation));
}

/// Returns the arrays of an operation; without an output the input is also the output.
Prepared arrays_of(Op operation, nb::handle in, nb::handle out) {
    const auto in_place = out.is_none();
    auto prepared = Prepared{.call = {.operation = operation}};
    prepared.in = array_of(in, named(operation, in_place ? "buffer" : "input"), in_place);
    prepared.out = in_place ? prepared.in : array_of(out, named(operation, "output"), true);
    prepared.result = nb::borrow(in_place ? in : out);
    return prepared;
}

/// Like arrays_of, for operations in which only the root needs an array; the others may pass None.
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

Prepared moving(Prepared&& arrays, int argument = 0, Edge edge = Edge::wrap) {
    arrays.call = detail::make_call(arrays.call.operation, arrays.in, arrays.out, argument, edge);
    return std::move(arrays);
}

Prepared reducing(Prepared&& arrays, nb::handle reduction, int root = 0) {
    arrays.call =
        detail::make_reduction(arrays.call.operation, arrays.in, arrays.out, reduction_of(reduction), root);
    return std::move(arrays);
}

/// The arrays of a reduction, whose name is not passed in the place of an array.
Prepared arrays_to_reduce(Op operation, nb::handle in, nb::handle out) {
    if (nb::isinstance<nb::str>(out))
        throw TypeFault(cat(named(operation, "output"), " is ", described(out),
                            "; a reduction is passed by its name: reduction=", nb::repr(out).c_str()));
    return arrays_of(operation, in, out);
}

/// One count for each rank.
std::vector<std::size_t> counts_of(const Communicator& on, nb::handle given, const char* what) {
    auto counts = std::vector<std::size_t>{};
    for (auto count : ints_of(given, what)) {
        if (count < 0) throw UsageError(cat(what, " hold ", count, "; counts are 0 or more"));
        counts.push_back(static_cast<std::size_t>(count));
    }
    if (counts.size() != static_cast<std::size_t>(on.size()))
        throw UsageError(cat(what, " are ", counts.size(), "; ", on.label(), " has ", on.size(),
                             " ranks, which need one each"));
    return counts;
}

Prepared counted(const Communicator& on, Prepared&& prepared, std::vector<std::size_t>&& in_counts,
                 std::vector<std::size_t>&& out_counts) {
    prepared.in_counts = std::move(in_counts);
    prepared.out_counts = std::move(out_counts);
    prepared.call =
        detail::Access::counted(on, std::move(prepared.call), prepared.in_counts, prepared.out_counts);
    return std::move(prepared);
}

bool is_list(nb::handle object) {
    return nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object);
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

using Self = CommunicatorHandle;

nb::object run(const Self& self, Prepared&& prepared) {
    auto& on = self.get();
    without_gil(leaving(on),
                [&] { with_call(prepared, [&](const auto& call) { detail::Access::run(on, call); }); });
    return std::move(prepared.result);
}

Started start(const Self& self, Prepared&& prepared) {
    auto& on = self.get();
    auto pending = with_call(prepared, [&](const auto& call) { return detail::Access::start(on, call); });
    return Started(std::move(pending), leaving(on), std::move(prepared), detail::Access::state(on).timeout);
}

/// Makes the shorter array in place this rank's part of the other.
Prepared own_part(const Self& self, Prepared&& prepared) {
    if (prepared.in.layout)
        prepared.own_part = true;
    else
        prepared.call = detail::Access::own_part(self.get(), std::move(prepared.call));
    return std::move(prepared);
}

Prepared all_gather(const Self& self, nb::handle in, nb::handle out) {
    auto prepared = moving(arrays_of(Op::all_gather, in, out));
    return out.is_none() ? own_part(self, std::move(prepared)) : std::move(prepared);
}

Prepared reduce_scatter(const Self& self, nb::handle in, nb::handle out, nb::handle reduction) {
    auto prepared = reducing(arrays_to_reduce(Op::reduce_scatter, in, out), reduction);
    return out.is_none() ? own_part(self, std::move(prepared)) : std::move(prepared);
}

Prepared all_gather_v(const Self& self, nb::handle in, nb::handle out, nb::handle counts) {
    auto& on = self.get();
    auto prepared = moving(arrays_of(Op::all_gather_v, in, out));
    auto lengths = counts_of(on, counts, "the counts");
    return counted(on, std::move(prepared), std::vector(lengths), std::move(lengths));
}

Prepared all_to_all_v(const Self& self, nb::handle in, nb::handle in_counts, nb::handle out,
                      nb::handle out_counts) {
    auto& on = self.get();
    auto prepared = moving(arrays_of(Op::all_to_all_v, in, out));
    auto ins = counts_of(on, in_counts, "the counts of the input");
    return counted(on, std::move(prepared), std::move(ins),
                   counts_of(on, out_counts, "the counts of the output"));
}

Prepared shift(nb::handle in, nb::handle out, nb::handle by, nb::handle edge) {
    const auto distance = int_of(by, "the distance");
    auto arrays = arrays_of(Op::shift, in, out);
    return moving(std::move(arrays), distance, edge_of(edge));
}

Tag tag_of(nb::handle tag) { return int_of(tag, "the tag"); }

Prepared send(nb::handle in, nb::handle to, nb::handle tag) {
    const auto peer = int_of(to, "the peer");
    auto prepared = Prepared{};
    prepared.in = array_of(in, "the buffer of send", false);
    prepared.call = detail::make_send(prepared.in, peer, tag_of(tag));
    return prepared;
}

Prepared recv(nb::handle out, nb::handle from, nb::handle tag) {
    const auto peer = int_of(from, "the peer");
    auto prepared = arrays_of(Op::recv, out, nb::none());
    prepared.call = detail::make_recv(prepared.out, peer, tag_of(tag));
    return prepared;
}

Prepared recv_any(const Self&, nb::handle out, nb::handle tag) {
    auto prepared = arrays_of(Op::recv, out, nb::none());
    prepared.call = detail::make_recv(prepared.out, detail::any_source, tag_of(tag));
    return prepared;
}

/// None: any rank.
int source_of(nb::handle source) {
    return source.is_none() ? detail::any_source : int_of(source, "the source");
}

std::optional<Message> probe(const Self& self, nb::handle source, nb::handle tag, bool waits) {
    auto& on = self.get();
    const auto from = source_of(source);
    const auto with = tag_of(tag);
    auto found = std::optional<Message>{};
    without_gil(leaving(on), [&] { found = detail::Access::probe(on, from, with, waits); });
    return found;
}

nb::object as_tuple(const Message& message) { return nb::make_tuple(message.from, message.bytes); }

Prepared send_recv(nb::handle in, nb::handle to, nb::handle out, nb::handle from, nb::handle tag) {
    const auto peer = int_of(to, "the peer");
    auto prepared = arrays_of(Op::send_recv, in, out);
    const auto source = int_of(from, "the peer");
    prepared.call = detail::make_send_recv(prepared.in, peer, prepared.out, source, tag_of(tag));
    return prepared;
}

int root_of(nb::handle root) { return int_of(root, "the root"); }

/// The counts of the root, which the other ranks need not know.
Prepared counted_at_root(const Communicator& on, Prepared&& prepared, nb::handle counts) {
    if (on.rank() != prepared.call.argument) return std::move(prepared);
    prepared.in_counts = counts_of(on, counts, "the counts");
    prepared.call = detail::Access::counted_at_root(on, std::move(prepared.call), prepared.in_counts);
    return std::move(prepared);
}

Prepared gather_v(const Self& self, nb::handle in, nb::handle out, nb::handle counts, nb::handle root) {
    const auto at = root_of(root);
    auto& on = self.get();
    return counted_at_root(on, moving(rooted_arrays(Op::gather_v, on, in, out, at), at), counts);
}

Prepared scatter_v(const Self& self, nb::handle in, nb::handle counts, nb::handle out, nb::handle root) {
    const auto at = root_of(root);
    auto& on = self.get();
    return counted_at_root(on, moving(rooted_arrays(Op::scatter_v, on, in, out, at), at), counts);
}

/// Runs the list form of an operation.
template <class Run>
nb::object run_list(const Self& self, nb::handle objects, Run&& run) {
    auto list = list_of(objects);
    auto& on = self.get();
    without_gil(leaving(on), [&] { run(on, list.buffers); });
    return nb::borrow(objects);
}

/// Calls `body` with the tag of a reduction.
template <class Body>
void with_reduction(Reduction reduction, Body&& body) {
    const auto try_one = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
        constexpr auto each = static_cast<Reduction>(I);
        if constexpr (!detail::by_function(each))
            if (reduction == each) body(detail::ReductionTag<each>{});
    };
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        (try_one(std::integral_constant<std::size_t, I>{}), ...);
    }(std::make_index_sequence<std::size(detail::reductions)>{});
}

/// Runs sends and receives as one operation.
void batch(const Self& self, nb::handle sends, nb::handle recvs) {
    auto& on = self.get();
    auto messages = std::vector<Prepared>{};
    const auto add = [&](nb::handle pairs, bool is_send) {
        for (auto pair : pairs) {
            const auto parts = nb::hasattr(pair, "__len__") ? nb::len(pair) : 0;
            if (parts != 2 && parts != 3)
                throw TypeFault(cat("a message of a batch is ", described(pair),
                                    "; it must be (array, peer) or (array, peer, tag)"));
            auto array =
                array_of(nb::object(pair[0]), is_send ? "a send of a batch" : "a recv of a batch", !is_send);
            const auto peer = int_of(nb::object(pair[1]), "the peer");
            const auto tag = parts == 3 ? tag_of(nb::object(pair[2])) : Tag(0);
            const auto call =
                is_send ? detail::make_send(array, peer, tag) : detail::make_recv(array, peer, tag);
            messages.push_back({.call = call, .in = array, .out = is_send ? Array{} : array});
        }
    };
    add(sends, true);
    add(recvs, false);
    without_gil(leaving(on), [&] {
        on.batch([&] {
            for (const auto& message : messages)
                with_call(message, [&](const auto& call) { detail::Access::run(on, call); });
        });
    });
}

/// Binds an operation and its start_ variant. The return type is `_T` unless `parameters` end with another.
template <class... Args, class... Extra>
void both(nb::class_<Self>& bound, const std::string& name, const std::string& parameters, const char* text,
          Prepared (*make)(const Self&, Args...), const Extra&... extra) {
    const auto arrow = std::min(parameters.find(" -> "), parameters.size());
    const auto given = parameters.substr(0, arrow);
    const auto result = arrow < parameters.size() ? parameters.substr(arrow + 4) : "_T";
    bound.def(
        kept_text(name), [make](const Self& self, Args... args) { return run(self, make(self, args...)); },
        extra..., nb::sig(kept_text(cat("def ", name, "(self, ", given, ") -> ", result))), text);
    bound.def(
        kept_text("start_" + name),
        [make](const Self& self, Args... args) { return start(self, make(self, args...)); }, extra...,
        nb::sig(kept_text(cat("def start_", name, "(self, ", given, ") -> Pending[", result, "]"))),
        kept_text(
            cat("Starts ", name,
                " and returns at once. The arrays must not be used until the Pending's wait() returns.")));
}

/// Binds an operation without arrays and its start_ variant.
Prepared of_nothing(Op operation) { return {.call = {.operation = operation}}; }

nb::object all_reduce_list(const Self& self, nb::handle arrays, Reduction reduction) {
    return run_list(self, arrays, [&](Communicator& on, const Buffers& buffers) {
        with_reduction(reduction, [&](auto tag) { on.all_reduce(buffers, tag); });
    });
}

}  // namespace

const char* kept_text(std::string text) {
    static auto& all = *new std::deque<std::string>;
    return all.emplace_back(std::move(text)).c_str();
}

Leave leaving(const Communicator& on) { return leaving(detail::Access::state(on).world); }

void bind_communicator(nb::module_& m) {
    bind_pending(m);
    auto c = nb::class_<Self>(
        m, "Communicator",
        "The communicator of one group. Every rank of the group calls the same operations in the same "
        "order.\n\nArrays are NumPy arrays, CPU tensors, and other objects with the buffer protocol or "
        "DLPack; lengths are in elements. Arrays that are not contiguous, such as slices, are copied through "
        "memory of the communicator. Calls return the array that was written. "
        "Blocking calls release the GIL. They raise UsageError for arrays of a wrong length, type or layout, "
        "Timeout, PeerLost, and on threads and in checked mode Disagreement if the ranks' calls differ.");
    c.def_prop_ro(
         "rank", [](const Self& self) { return self.get().rank(); }, "This process's rank in the group.")
        .def_prop_ro(
            "size", [](const Self& self) { return self.get().size(); }, "The number of ranks of the group.")
        .def_prop_ro(
            "label", [](const Self& self) { return self.get().label(); },
            "The name and mesh, as in error texts: \"'dp' of mesh dp=2 tp=2\".")
        .def_prop_ro(
            "world_ranks", [](const Self& self) { return Ranks(self.get().world_ranks()); },
            "The world ranks of the group, in order.")
        .def(
            "world_rank",
            [](const Self& self, nb::handle rank) {
                return self.get().world_rank(int_of(rank, "a group rank"));
            },
            nb::arg("group_rank").none(), nb::sig("def world_rank(self, group_rank: int) -> int"),
            "Returns the world rank of a group rank.")
        .def(
            "group_rank_of",
            [](const Self& self, nb::handle rank) {
                return self.get().group_rank_of(int_of(rank, "a rank"));
            },
            nb::arg("world_rank").none(), nb::sig("def group_rank_of(self, world_rank: int) -> int | None"),
            "Returns the group rank of a world rank; None if it is not in the group.")
        .def(
            "within",
            [](const Self& self, nb::handle timeout) {
                return std::make_unique<Self>(self.get().within(duration_of(timeout, "the timeout")));
            },
            nb::arg("timeout").none(),
            nb::sig("def within(self, timeout: float | datetime.timedelta) -> Communicator"),
            "Returns the same communicator with another timeout, in seconds, for its blocking calls.")
        .def("__repr__", [](const Self& self) {
            return self.ended() ? std::string("<Communicator, ended>")
                                : cat("<Communicator ", self.get().label(), ">");
        });

    auto names = reductions_of_arrays();
    for (auto& name : names) name = cat("'", name, "'");
    const auto reduction = cat("reduction: typing.Literal[", detail::with_commas(names), "] = 'sum'");
    const auto none = nb::arg("out").none() = nb::none();
    const auto sum = nb::arg("reduction").none() = "sum";
    c.def(
        "all_reduce",
        [](const Self& self, nb::handle in, nb::handle out, nb::handle reduction) {
            if (is_list(in)) {
                if (!out.is_none())
                    throw UsageError("all_reduce of a list is in place; leave out the output");
                return all_reduce_list(self, in, reduction_of(reduction));
            }
            return run(self, reducing(arrays_to_reduce(Op::all_reduce, in, out), reduction));
        },
        nb::arg("buffer").none(), none, sum,
        nb::sig(
            kept_text(cat("def all_reduce(self, buffer: _T, out: _T | None = None, ", reduction, ") -> _T"))),
        "Reduces all ranks' `buffer` element by element into every rank's `out`; without `out` in place. All "
        "arrays have the same length and type. A list of arrays of any lengths and types is reduced in "
        "place, in few engine calls.");
    c.def(
        "start_all_reduce",
        [](const Self& self, nb::handle in, nb::handle out, nb::handle reduction) {
            return start(self, reducing(arrays_to_reduce(Op::all_reduce, in, out), reduction));
        },
        nb::arg("buffer").none(), none, sum,
        nb::sig(kept_text(cat("def start_all_reduce(self, buffer: _T, out: _T | None = None, ", reduction,
                              ") -> Pending[_T]"))),
        "Starts all_reduce of one array (not a list) and returns at once. The arrays must not be used until "
        "the Pending's wait() returns.");
    both(
        c, "reduce", cat("buffer: _T, out: _T | None = None, ", reduction, ", root: int = 0 -> _T | None"),
        "Reduces all ranks' `buffer` into the root's `out`; all have the same length. The other ranks' `out` "
        "may be None. If the root's `out` is None, the root's `buffer` becomes the result; the other ranks' "
        "`buffer` is unchanged.",
        +[](const Self& self, nb::handle in, nb::handle out, nb::handle reduction, nb::handle root) {
            const auto at = root_of(root);
            if (!out.is_none() || self.get().rank() == at)
                return reducing(arrays_to_reduce(Op::reduce, in, out), reduction, at);
            return reducing(rooted_arrays(Op::reduce, self.get(), in, out, at), reduction, at);
        },
        nb::arg("buffer").none(), none, sum, nb::arg("root").none() = 0);
    both(
        c, "scan", cat("buffer: _T, out: _T | None = None, ", reduction),
        "Inclusive prefix reduction: reduces the `buffer` of ranks 0 to i into rank i's `out`; without `out` "
        "in place. All arrays have the same length. Does not support mean.",
        +[](const Self&, nb::handle in, nb::handle out, nb::handle reduction) {
            return reducing(arrays_to_reduce(Op::scan, in, out), reduction);
        },
        nb::arg("buffer").none(), none, sum);
    both(
        c, "exclusive_scan", cat("buffer: _T, out: _T | None = None, ", reduction),
        "Exclusive prefix reduction: reduces the `buffer` of ranks 0 to i - 1 into rank i's `out`; without "
        "`out` in place. Rank 0's result is the reduction of nothing, such as 0 for sum. All arrays have the "
        "same length. Does not support mean.",
        +[](const Self&, nb::handle in, nb::handle out, nb::handle reduction) {
            return reducing(arrays_to_reduce(Op::exclusive_scan, in, out), reduction);
        },
        nb::arg("buffer").none(), none, sum);
    bind_sums_and_locations(c);
    bind_sparse(c);
    both(c, "reduce_scatter", cat("buffer: _T, out: _T | None = None, ", reduction),
         "Reduces all ranks' `buffer` and writes part i of the result into rank i's `out`; `buffer` is "
         "`size` times as long as `out`. Without `out` in place: part i of rank i's `buffer` becomes the "
         "result; its other parts are undefined.",
         &reduce_scatter, nb::arg("buffer").none(), none, sum);
    c.def(
        "broadcast",
        [](const Self& self, nb::handle buffer, nb::handle root) {
            const auto from = root_of(root);
            if (is_list(buffer))
                return run_list(self, buffer,
                                [&](Communicator& on, const Buffers& all) { on.broadcast(all, from); });
            return run(self, moving(arrays_of(Op::broadcast, buffer, nb::none()), from));
        },
        nb::arg("buffer").none(), nb::arg("root").none() = 0,
        nb::sig("def broadcast(self, buffer: _T, root: int = 0) -> _T"),
        "Copies the root's `buffer` into every rank's `buffer`; all have the same length. A list of arrays "
        "is sent in few engine calls.");
    c.def(
        "start_broadcast",
        [](const Self& self, nb::handle buffer, nb::handle root) {
            const auto from = root_of(root);
            return start(self, moving(arrays_of(Op::broadcast, buffer, nb::none()), from));
        },
        nb::arg("buffer").none(), nb::arg("root").none() = 0,
        nb::sig("def start_broadcast(self, buffer: _T, root: int = 0) -> Pending[_T]"),
        "Starts broadcast of one array (not a list) and returns at once. The array must not be used until "
        "the Pending's wait() returns.");
    both(c, "all_gather", "buffer: _T, out: _T | None = None",
         "Concatenates all ranks' `buffer` into every rank's `out`. All `buffer` have the same length; `out` "
         "is `size` times as long. Without `out` in place: `buffer` has the length of the result, and rank i "
         "contributes part i.",
         &all_gather, nb::arg("buffer").none(), none);
    both(c, "all_gather_v", "buffer: typing.Any, out: _T, counts: collections.abc.Sequence[int]",
         "all_gather of arrays of different lengths: `counts[i]` is the length of rank i's `buffer`; the sum "
         "of `counts` is the length of `out`. All ranks pass the same counts.",
         &all_gather_v, nb::arg("buffer").none(), nb::arg("out").none(), nb::arg("counts").none());
    both(
        c, "gather", "buffer: typing.Any, out: _T = ..., root: int = 0",
        "Concatenates all ranks' `buffer` into the root's `out`, which is `size` times as long. The other "
        "ranks' `out` may be None.",
        +[](const Self& self, nb::handle in, nb::handle out, nb::handle root) {
            const auto at = root_of(root);
            return moving(rooted_arrays(Op::gather, self.get(), in, out, at), at);
        },
        nb::arg("buffer").none(), none, nb::arg("root").none() = 0);
    both(
        c, "scatter", "buffer: typing.Any, out: _T, root: int = 0",
        "Copies part i of the root's `buffer` into rank i's `out`; `buffer` is `size` times as long as "
        "`out`. The other ranks' `buffer` may be None.",
        +[](const Self& self, nb::handle in, nb::handle out, nb::handle root) {
            const auto at = root_of(root);
            return moving(rooted_arrays(Op::scatter, self.get(), in, out, at), at);
        },
        nb::arg("buffer").none(), nb::arg("out").none(), nb::arg("root").none() = 0);
    both(c, "gather_v",
         "buffer: typing.Any, out: _T = ..., counts: collections.abc.Sequence[int] | None = None, root: int "
         "= 0",
         "gather of arrays of different lengths. At the root `counts[i]` is the length of rank i's `buffer`, "
         "and "
         "the sum of `counts` is the length of `out`; the other ranks' `out` and `counts` may be None.",
         &gather_v, nb::arg("buffer").none(), none, nb::arg("counts").none() = nb::none(),
         nb::arg("root").none() = 0);
    both(c, "scatter_v",
         "buffer: typing.Any, counts: collections.abc.Sequence[int] | None, out: _T, root: int = 0",
         "scatter of parts of different lengths. At the root `counts[i]` is the length of rank i's `out`, "
         "and the "
         "sum of `counts` is the length of `buffer`; the other ranks' `buffer` and `counts` may be None.",
         &scatter_v, nb::arg("buffer").none(), nb::arg("counts").none(), nb::arg("out").none(),
         nb::arg("root").none() = 0);
    both(
        c, "all_to_all", "buffer: _T, out: _T | None = None",
        "Copies part j of rank i's `buffer` into part i of rank j's `out`; both have the same length, a "
        "multiple of `size`. Without `out` in place.",
        +[](const Self&, nb::handle in, nb::handle out) {
            return moving(arrays_of(Op::all_to_all, in, out));
        },
        nb::arg("buffer").none(), none);
    both(c, "all_to_all_v",
         "buffer: typing.Any, counts: collections.abc.Sequence[int], out: _T, out_counts: "
         "collections.abc.Sequence[int]",
         "all_to_all with parts of different lengths: `counts[j]` elements of `buffer` go to rank j, and "
         "`out_counts[i]` elements of `out` come from rank i.",
         &all_to_all_v, nb::arg("buffer").none(), nb::arg("counts").none(), nb::arg("out").none(),
         nb::arg("out_counts").none());
    both(
        c, "shift",
        "buffer: _T, out: _T | None = None, by: int = 1, edge: typing.Literal['open', 'wrap'] = "
        "'wrap'",
        "Copies the `buffer` of group rank i - `by` into rank i's `out`. With edge='open' a rank without a "
        "sender leaves `out` unchanged. Without `out` in place.",
        +[](const Self&, nb::handle in, nb::handle out, nb::handle by, nb::handle edge) {
            return shift(in, out, by, edge);
        },
        nb::arg("buffer").none(), none, nb::arg("by").none() = 1, nb::arg("edge").none() = "wrap");
    both(
        c, "send", "buffer: typing.Any, to: int, tag: int = 0 -> None",
        "Sends `buffer` to group rank `to`, which must call recv with the same length, type and tag. Tags "
        "are 0 to 16383. May return before `to` has received the message.",
        +[](const Self&, nb::handle in, nb::handle to, nb::handle tag) { return send(in, to, tag); },
        nb::arg("buffer").none(), nb::arg("to").none(), nb::arg("tag").none() = 0);
    both(
        c, "recv", "buffer: _T, source: int, tag: int = 0",
        "Receives a message of group rank `source` into `buffer`. The message must have the same length, "
        "type and tag.",
        +[](const Self&, nb::handle out, nb::handle from, nb::handle tag) { return recv(out, from, tag); },
        nb::arg("buffer").none(), nb::arg("source").none(), nb::arg("tag").none() = 0);
    c.def(
        "recv_any",
        [](const Self& self, nb::handle out, nb::handle tag) {
            auto& on = self.get();
            const auto prepared = recv_any(self, out, tag);
            auto sender = -1;
            with_call(prepared, [&](const auto& call) {
                without_gil(leaving(on), [&] { sender = detail::Access::run_from_any(on, call); });
            });
            return sender;
        },
        nb::arg("buffer").none(), nb::arg("tag").none() = 0,
        nb::sig("def recv_any(self, buffer: typing.Any, tag: int = 0) -> int"),
        "Receives a message of any other rank of the group into `buffer` and returns the sender's group "
        "rank. The "
        "message must have the same length and type. Of each rank only the next message is considered, and "
        "only "
        "if it has this tag; of several the first to arrive is received. Raises PeerLost once nobody is left "
        "who "
        "could send.");
    c.def(
        "start_recv_any",
        [](const Self& self, nb::handle out, nb::handle tag) {
            return start(self, recv_any(self, out, tag));
        },
        nb::arg("buffer").none(), nb::arg("tag").none() = 0,
        nb::sig("def start_recv_any(self, buffer: typing.Any, tag: int = 0) -> Pending[int]"),
        "Starts recv_any and returns at once; the Pending's wait() returns the sender. The array must not be "
        "used "
        "until then.");
    c.def(
        "_start_by_tag",
        [](const Self& self, const std::string& name, nb::handle array, nb::handle peer, nb::handle tag) {
            auto prepared = name == "send" ? send(array, peer, tag)
                            : name == "recv" ? recv(array, peer, tag)
                                             : recv_any(self, array, tag);
            prepared.call.edge = Edge::open;
            return start(self, std::move(prepared));
        },
        nb::sig("def _start_by_tag(self, name: str, buffer: typing.Any, peer: int, tag: int) -> "
                "Pending[typing.Any]"),
        "Starts the send, recv or recv_any of a message that may overtake those of other tags.");
    c.def(
        "probe",
        [](const Self& self, nb::handle source, nb::handle tag) {
            return as_tuple(*probe(self, source, tag, true));
        },
        nb::arg("source").none() = nb::none(), nb::arg("tag").none() = 0,
        nb::sig("def probe(self, source: int | None = None, tag: int = 0) -> tuple[int, int]"),
        "Waits until group rank `source`, or any other rank for None, has sent a message with this tag that "
        "this "
        "rank would receive next. Returns its sender and its length in bytes without receiving it.");
    c.def(
        "try_probe",
        [](const Self& self, nb::handle source, nb::handle tag) {
            const auto found = probe(self, source, tag, false);
            return found ? as_tuple(*found) : nb::object(nb::none());
        },
        nb::arg("source").none() = nb::none(), nb::arg("tag").none() = 0,
        nb::sig("def try_probe(self, source: int | None = None, tag: int = 0) -> tuple[int, int] | None"),
        "Like probe, but returns None at once if there is no such message.");
    both(
        c, "send_recv", "buffer: typing.Any, to: int, out: _T, source: int, tag: int = 0",
        "Sends `buffer` to group rank `to` and receives `out` from `source` at the same time, with one tag. "
        "The arrays may differ in length, but not in type.",
        +[](const Self&, nb::handle in, nb::handle to, nb::handle out, nb::handle from, nb::handle tag) {
            return send_recv(in, to, out, from, tag);
        },
        nb::arg("buffer").none(), nb::arg("to").none(), nb::arg("out").none(), nb::arg("source").none(),
        nb::arg("tag").none() = 0);
    c.def(
        "batch", &batch, nb::arg("sends").none() = nb::make_tuple(),
        nb::arg("recvs").none() = nb::make_tuple(),
        nb::sig("def batch(self, sends: collections.abc.Iterable[tuple[typing.Any, int] | tuple[typing.Any, "
                "int, int]] = (), recvs: collections.abc.Iterable[tuple[typing.Any, int] | "
                "tuple[typing.Any, int, int]] = ()) -> None"),
        "Runs sends and receives as one operation; their order cannot deadlock. Each is a tuple (array, "
        "group rank) or (array, group rank, tag). Messages between two ranks match in the order of their "
        "tags.");
    c.def(
        "barrier", [](const Self& self) { run(self, of_nothing(Op::barrier)); },
        "Returns when every rank of the group has called it.");
    c.def(
        "start_barrier", [](const Self& self) { return start(self, of_nothing(Op::barrier)); },
        nb::sig("def start_barrier(self) -> Pending[None]"), "Starts barrier and returns at once.");
    c.def(
        "_raise_if_broken",
        [](const Self& self) {
            const auto& state = detail::Access::state(self.get());
            const auto use = detail::Channel::Use(*state.channel, *state.label);
            state.channel->throw_if_broken(*state.label);
        },
        "Raises why the communicator cannot be used any more, such as PeerLost. Does not communicate.");
    c.def(
        "monitored_barrier",
        [](const Self& self) {
            auto& on = self.get();
            without_gil(leaving(on), [&] { on.monitored_barrier(); });
        },
        "Like barrier(), but an expired timeout raises Timeout with `arrived` and `missing` on every engine, "
        "also on MPI.");
    bind_objects(c);
}

}  // namespace rankmesh::python
