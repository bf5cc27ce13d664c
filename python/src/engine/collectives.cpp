// SPDX-License-Identifier: Apache-2.0
// Operations of all ranks of a group on arrays: copies of their parts, reductions, reproducible sums, and
// extremes with their locations.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>

#include <nanobind/stl/vector.h>

#include <rankmesh/engine/detail/make_call.hpp>
#include <rankmesh/engine/equal.hpp>
#include <rankmesh/engine/location.hpp>

#include "engine/engine.hpp"

namespace rankmesh::python {
namespace {

using detail::cat;
using Self = CommunicatorHandle;

int root_of(nb::handle root) { return int_of(root, "the root"); }
bool is_list(nb::handle object) {
    return nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object);
}

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

Prepared reducing(Prepared&& arrays, nb::handle reduction, int root = 0) {
    arrays.call =
        detail::make_reduction(arrays.call.operation, arrays.in, arrays.out, reduction_of(reduction), root);
    return std::move(arrays);
}

/// The arrays of a reduction, whose name is not passed in the place of an array.
Prepared arrays_to_reduce(Op operation, nb::handle in, nb::handle out) {
    if (nb::isinstance<nb::str>(out))
        throw TypeFault(cat("the output of ", detail::to_string(operation), " is ", described(out),
                            "; a reduction is passed by its name: reduction=", nb::repr(out).c_str()));
    return arrays_of(operation, in, out);
}

template <Op operation>
Prepared reduction(const Self&, nb::handle in, nb::handle out, nb::handle by) {
    return reducing(arrays_to_reduce(operation, in, out), by);
}

/// Reduces one array, or a list of arrays in place.
nb::object all_reduce(const Self& self, nb::handle in, nb::handle out, nb::handle by) {
    if (!is_list(in)) return run(self, reduction<Op::all_reduce>(self, in, out, by));
    if (!out.is_none()) throw UsageError("all_reduce of a list is in place; leave out the output");
    return run_list(self, in, {.operation = Op::all_reduce, .reduction = reduction_of(by)});
}

/// The pairs of a location, copied to and from two arrays.
class Pairs {
public:
    Pairs(const char* name, nb::handle values, nb::handle indices)
        : values_(contiguous_array_of(values, cat("the values of ", name), true)),
          indices_(contiguous_array_of(indices, cat("the indices of ", name), true)) {
        if (indices_.dtype != DType::i64)
            throw UsageError(cat("the indices of ", name, " are ", to_string(indices_.dtype),
                                 "; they must be i64, as numpy.int64 is"));
        if (indices_.count != values_.count / values_.unit)
            throw UsageError(cat(name, " was given ", values_.count / values_.unit, " values and ",
                                 indices_.count, " indices; both must be equal"));
        if (values_.unit == 1) copy([](void* pair, void* of, std::size_t n) { std::memcpy(pair, of, n); });
    }
    detail::AnyBuffer<void> buffer() { return {pairs_.data(), values_.count, values_.dtype, values_.unit}; }
    void write() {
        copy([](void* pair, void* of, std::size_t n) { std::memcpy(of, pair, n); });
    }

private:
    template <class Copy>
    void copy(Copy&& copy) {
        pairs_.resize(indices_.count);
        const auto width = size_of(values_.dtype);
        for (std::size_t i = 0; i < pairs_.size(); ++i) {
            auto* pair = reinterpret_cast<char*>(&pairs_[i]);
            copy(pair, static_cast<char*>(values_.data) + i * width, width);
            copy(pair + offsetof(Located<double>, index),
                 static_cast<char*>(indices_.data) + i * sizeof(std::int64_t), sizeof(std::int64_t));
        }
    }
    Array values_;
    Array indices_;
    std::vector<Located<double>> pairs_;
};

nb::object locate(const Self& self, Reduction reduction, nb::handle values, nb::handle indices) {
    auto pairs = Pairs(std::string(to_string(reduction)).c_str(), values, indices);
    auto& on = self.get();
    const auto call =
        detail::make_reduction(detail::Operation::all_reduce, pairs.buffer(), pairs.buffer(), reduction);
    without_gil(leaving(on), [&] { detail::Access::run(on, call); });
    pairs.write();
    return nb::make_tuple(nb::borrow(values), nb::borrow(indices));
}

std::vector<int> unequal(const Self& self, nb::handle buffer) {
    const auto array = contiguous_array_of(buffer, "the buffer of unequal", false);
    auto& on = self.get();
    return result_without_gil(leaving(on), [&] { return detail::unequal(on, array); });
}

double sum_reproducibly(const Self& self, const Array& x, const std::optional<Array>& y) {
    auto& on = self.get();
    const auto layout_of = [](const Array& array) {
        return array.layout ? *array.layout : detail::MemoryLayout();
    };
    const auto x_layout = layout_of(x);
    const auto y_layout = y ? layout_of(*y) : detail::MemoryLayout();
    return result_without_gil(leaving(on),
                              [&] { return detail::Access::sum_reproducibly(on, x, y, x_layout, y_layout); });
}

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

void bind_reductions(nb::class_<CommunicatorHandle>& c) {
    auto names = reductions_of_arrays();
    for (auto& name : names) name = cat("'", name, "'");
    const auto parameters = cat("(self, buffer: _T, out: _T | None = None, reduction: typing.Literal[",
                                detail::with_commas(names), "] = 'sum'");
    const auto all_reduce_signature = cat("def all_reduce", parameters, ") -> _T");
    method(c, all_reduce_signature,
           "Reduces all ranks' `buffer` element by element into every rank's `out`; without `out` in place. "
           "All arrays have the same length and type. A list of arrays of any lengths and types is reduced "
           "in place, in few engine calls.",
           &all_reduce);
    bind_start(c, all_reduce_signature, &reduction<Op::all_reduce>);
    bind_operation(
        c, cat("def reduce", parameters, ", root: int = 0) -> _T | None"),
        "Reduces all ranks' `buffer` into the root's `out`; all have the same length. The other "
        "ranks' `out` may be None. If the root's `out` is None, the root's `buffer` becomes the "
        "result; the other ranks' `buffer` is unchanged.",
        +[](const Self& self, nb::handle in, nb::handle out, nb::handle by, nb::handle root) {
            const auto at = root_of(root);
            if (!out.is_none() || self.get().rank() == at)
                return reducing(arrays_to_reduce(Op::reduce, in, out), by, at);
            return reducing(rooted_arrays(Op::reduce, self.get(), in, out, at), by, at);
        });
    bind_operation(c, cat("def scan", parameters, ") -> _T"),
                   "Inclusive prefix reduction: reduces the `buffer` of ranks 0 to i into rank i's `out`; "
                   "without `out` in place. All arrays have the same length. Does not support mean.",
                   &reduction<Op::scan>);
    bind_operation(c, cat("def exclusive_scan", parameters, ") -> _T"),
                   "Exclusive prefix reduction: reduces the `buffer` of ranks 0 to i - 1 into rank i's "
                   "`out`; without `out` in place. Rank 0's result is the reduction of nothing, such as 0 "
                   "for sum. All arrays have the same length. Does not support mean.",
                   &reduction<Op::exclusive_scan>);
    bind_operation(
        c, cat("def reduce_scatter", parameters, ") -> _T"),
        "Reduces all ranks' `buffer` and writes part i of the result into rank i's `out`; "
        "`buffer` is `size` times as long as `out`. Without `out` in place: part i of rank i's "
        "`buffer` becomes the result; its other parts are undefined.",
        +[](const Self& self, nb::handle in, nb::handle out, nb::handle by) {
            auto prepared = reduction<Op::reduce_scatter>(self, in, out, by);
            return out.is_none() ? own_part(self, std::move(prepared)) : std::move(prepared);
        });
    method(c, "def reproducible_sum(self, buffer: typing.Any) -> float",
           "Returns the sum of all elements of all ranks' `buffer`, whose lengths may differ: exact, then "
           "rounded once to the type of the elements. The same bits on every engine, and however the "
           "elements are spread over the ranks.",
           [](const Self& self, nb::handle buffer) {
               return sum_reproducibly(self, array_of(buffer, "the buffer of reproducible_sum", false), {});
           });
    method(c, "def reproducible_dot(self, x: typing.Any, y: typing.Any) -> float",
           "Returns the scalar product of all ranks' `x` and `y` like reproducible_sum; each product is "
           "rounded to double.",
           [](const Self& self, nb::handle x, nb::handle y) {
               return sum_reproducibly(self, array_of(x, "the first buffer of reproducible_dot", false),
                                       array_of(y, "the second buffer of reproducible_dot", false));
           });
    method(
        c, "def unequal(self, buffer: typing.Any) -> list[int]",
        "Returns the group ranks whose contiguous `buffer` differs in a bit, the length or the type from "
        "that "
        "of most ranks, or, of equally many, of the lowest one; [] if all are equal. Every rank of the group "
        "calls it; the ranks compare a hash of 64 bits.",
        &unequal);
    method(c, "def all_equal(self, buffer: typing.Any) -> bool",
           "Returns True if no rank has another `buffer`: unequal() says which.",
           [](const Self& self, nb::handle buffer) { return unequal(self, buffer).empty(); });
    method(c, "def min_location(self, values: _T, indices: _T) -> tuple[_T, _T]",
           "Replaces each element of `values` by the least of all ranks, and that of `indices`, which are "
           "int64, by the index that stood beside it; of equal values the lowest index. A NaN counts as less "
           "than every number. Returns both arrays.",
           [](const Self& self, nb::handle values, nb::handle indices) {
               return locate(self, Reduction::min_location, values, indices);
           });
    method(c, "def max_location(self, values: _T, indices: _T) -> tuple[_T, _T]",
           "Like min_location, for the greatest values. A NaN counts as greater than every number.",
           [](const Self& self, nb::handle values, nb::handle indices) {
               return locate(self, Reduction::max_location, values, indices);
           });
}

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
