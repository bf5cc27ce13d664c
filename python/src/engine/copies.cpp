// SPDX-License-Identifier: Apache-2.0
// Operations that copy parts of arrays between all ranks of a group.
#include <cstddef>

#include <rankmesh/engine/detail/make_call.hpp>

#include "engine/operations.hpp"

namespace rankmesh::python {
namespace {

using detail::cat;
using Self = CommunicatorHandle;

Prepared moving(Prepared&& arrays, int argument = 0, Edge edge = Edge::wrap) {
    arrays.call = detail::make_call(arrays.call.operation, arrays.in, arrays.out, argument, edge);
    return std::move(arrays);
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

/// The counts of the root, which the other ranks need not know.
Prepared counted_at_root(const Communicator& on, Prepared&& prepared, nb::handle counts) {
    if (on.rank() != prepared.call.argument) return std::move(prepared);
    prepared.in_counts = counts_of(on, counts, "the counts");
    prepared.call = detail::Access::counted_at_root(on, std::move(prepared.call), prepared.in_counts);
    return std::move(prepared);
}

Prepared broadcast(const Self&, nb::handle buffer, nb::handle root) {
    const auto from = root_of(root);
    return moving(arrays_of(Op::broadcast, buffer, nb::none()), from);
}

/// `operation` is gather or scatter.
template <Op operation>
Prepared at_root(const Self& self, nb::handle in, nb::handle out, nb::handle root) {
    const auto at = root_of(root);
    return moving(rooted_arrays(operation, self.get(), in, out, at), at);
}

void bind_to_or_from_root(nb::class_<Self>& c) {
    const auto broadcast_signature = "def broadcast(self, buffer: _T, root: int = 0) -> _T";
    method(c, broadcast_signature,
           "Copies the root's `buffer` into every rank's `buffer`; all have the same length. A list of "
           "arrays is sent in few engine calls.",
           [](const Self& self, nb::handle buffer, nb::handle root) {
               if (!is_list(buffer)) return run(self, broadcast(self, buffer, root));
               return run_list(self, buffer, {.operation = Op::broadcast, .argument = root_of(root)});
           });
    bind_start(c, broadcast_signature, &broadcast);
    bind_operation(c, "def gather(self, buffer: typing.Any, out: _T = ..., root: int = 0) -> _T",
                   "Concatenates all ranks' `buffer` into the root's `out`, which is `size` times as long. "
                   "The other ranks' `out` may be None.",
                   &at_root<Op::gather>);
    bind_operation(c, "def scatter(self, buffer: typing.Any, out: _T, root: int = 0) -> _T",
                   "Copies part i of the root's `buffer` into rank i's `out`; `buffer` is `size` times as "
                   "long as `out`. The other ranks' `buffer` may be None.",
                   &at_root<Op::scatter>);
    bind_operation(
        c,
        "def gather_v(self, buffer: typing.Any, out: _T = ..., counts: collections.abc.Sequence[int] | None "
        "= None, root: int = 0) -> _T",
        "gather of arrays of different lengths. At the root `counts[i]` is the length of rank i's `buffer`, "
        "and the sum of `counts` is the length of `out`; the other ranks' `out` and `counts` may be None.",
        +[](const Self& self, nb::handle in, nb::handle out, nb::handle counts, nb::handle root) {
            return counted_at_root(self.get(), at_root<Op::gather_v>(self, in, out, root), counts);
        });
    bind_operation(
        c,
        "def scatter_v(self, buffer: typing.Any, counts: collections.abc.Sequence[int] | None, out: _T, "
        "root: int = 0) -> _T",
        "scatter of parts of different lengths. At the root `counts[i]` is the length of rank i's `out`, and "
        "the sum of `counts` is the length of `buffer`; the other ranks' `buffer` and `counts` may be None.",
        +[](const Self& self, nb::handle in, nb::handle counts, nb::handle out, nb::handle root) {
            return counted_at_root(self.get(), at_root<Op::scatter_v>(self, in, out, root), counts);
        });
}

}  // namespace

void bind_copies(nb::class_<CommunicatorHandle>& c) {
    bind_to_or_from_root(c);
    bind_operation(
        c, "def all_gather(self, buffer: _T, out: _T | None = None) -> _T",
        "Concatenates all ranks' `buffer` into every rank's `out`. All `buffer` have the same "
        "length; `out` is `size` times as long. Without `out` in place: `buffer` has the length "
        "of the result, and rank i contributes part i.",
        +[](const Self& self, nb::handle in, nb::handle out) {
            auto prepared = moving(arrays_of(Op::all_gather, in, out));
            return out.is_none() ? own_part(self, std::move(prepared)) : std::move(prepared);
        });
    bind_operation(
        c, "def all_gather_v(self, buffer: typing.Any, out: _T, counts: collections.abc.Sequence[int]) -> _T",
        "all_gather of arrays of different lengths: `counts[i]` is the length of rank i's `buffer`; the sum "
        "of `counts` is the length of `out`. All ranks pass the same counts.",
        +[](const Self& self, nb::handle in, nb::handle out, nb::handle counts) {
            auto& on = self.get();
            auto prepared = moving(arrays_of(Op::all_gather_v, in, out));
            auto lengths = counts_of(on, counts, "the counts");
            return counted(on, std::move(prepared), std::vector(lengths), std::move(lengths));
        });
    bind_operation(
        c, "def all_to_all(self, buffer: _T, out: _T | None = None) -> _T",
        "Copies part j of rank i's `buffer` into part i of rank j's `out`; both have the same "
        "length, a multiple of `size`. Without `out` in place.",
        +[](const Self&, nb::handle in, nb::handle out) {
            return moving(arrays_of(Op::all_to_all, in, out));
        });
    bind_operation(
        c,
        "def all_to_all_v(self, buffer: typing.Any, counts: collections.abc.Sequence[int], out: "
        "_T, out_counts: collections.abc.Sequence[int]) -> _T",
        "all_to_all with parts of different lengths: `counts[j]` elements of `buffer` go to rank "
        "j, and `out_counts[i]` elements of `out` come from rank i.",
        +[](const Self& self, nb::handle in, nb::handle in_counts, nb::handle out, nb::handle out_counts) {
            auto& on = self.get();
            auto prepared = moving(arrays_of(Op::all_to_all_v, in, out));
            auto ins = counts_of(on, in_counts, "the counts of the input");
            return counted(on, std::move(prepared), std::move(ins),
                           counts_of(on, out_counts, "the counts of the output"));
        });
    bind_operation(
        c,
        "def shift(self, buffer: _T, out: _T | None = None, by: int = 1, edge: "
        "typing.Literal['open', 'wrap'] = 'wrap') -> _T",
        "Copies the `buffer` of group rank i - `by` into rank i's `out`. With edge='open' a rank "
        "without a sender leaves `out` unchanged. Without `out` in place.",
        +[](const Self&, nb::handle in, nb::handle out, nb::handle by, nb::handle edge) {
            const auto distance = int_of(by, "the distance");
            auto arrays = arrays_of(Op::shift, in, out);
            return moving(std::move(arrays), distance, edge_of(edge));
        });
}

}  // namespace rankmesh::python
