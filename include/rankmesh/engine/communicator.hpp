// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <rankmesh/engine/call.hpp>
#include <rankmesh/engine/pending.hpp>

namespace rankmesh {

/// A live group: what collectives run on.
///
/// A communicator is a light handle; several may stand for one channel. Every member of the group calls the
/// same operations in the same order. One thread at a time uses a channel; a second one throws Misuse.
///
/// Every blocking call throws Misuse for buffers of the wrong length, Deadline when the deadline passes, and
/// Lost when a peer has left; after Deadline and Lost the channel stays unusable. On MPI a passed deadline is
/// reported and ends the job.
///
///     void step(Communicator& tp, std::vector<float>& partial) { tp.all_reduce(partial, sum); }
class Communicator {
public:
    Communicator(Communicator&&) noexcept = default;
    Communicator& operator=(Communicator&&) noexcept = default;
    ~Communicator() = default;

    /// This process's position in the group.
    int rank() const;
    /// The number of members.
    int size() const;
    /// The world rank of the member at `position`.
    int world_rank(int position) const;
    /// The world ranks of all members, in order.
    std::vector<int> world_ranks() const;
    /// What this is, in words: `'dp,cp' of mesh 'dense'`.
    std::string label() const;
    /// The same channel with another deadline for its blocking calls.
    Communicator within(std::chrono::nanoseconds deadline) const;

    /// Every member's buffer becomes the reduction of all members' buffers, element by element.
    template <OutBuffer B, class R = decltype(sum)>
    requires Reduces<R, element_t<B>>
    void all_reduce(B&& buffer, R reduction = {}) {
        run(reduce_call(detail::Operation::all_reduce, buffer, buffer, reduction));
    }
    /// The same, read from `in` and written to `out`, which are of one length and do not overlap.
    template <Buffer In, OutBuffer Out, class R = decltype(sum)>
    requires Reduces<R, element_t<In>>
    void all_reduce(const In& in, Out&& out, R reduction = {}) {
        run(reduce_call(detail::Operation::all_reduce, in, out, reduction));
    }
    /// `out` becomes the members' `in` one after the other; it is size() times as long.
    template <Buffer In, OutBuffer Out>
    void all_gather(const In& in, Out&& out) {
        run(call(detail::Operation::all_gather, in, out));
    }
    /// `in`, size() times as long as `out`, is reduced over the members; member i gets its part i.
    template <Buffer In, OutBuffer Out, class R = decltype(sum)>
    requires Reduces<R, element_t<In>>
    void reduce_scatter(const In& in, Out&& out, R reduction = {}) {
        run(reduce_call(detail::Operation::reduce_scatter, in, out, reduction));
    }
    /// Every member's buffer becomes the buffer of the member at position `root`.
    template <OutBuffer B>
    void broadcast(B&& buffer, int root = 0) {
        run(call(detail::Operation::broadcast, buffer, buffer, root));
    }
    /// Part j of member i's `in` becomes part i of member j's `out`; both have the same length, a multiple of
    /// size().
    template <Buffer In, OutBuffer Out>
    void all_to_all(const In& in, Out&& out) {
        run(call(detail::Operation::all_to_all, in, out));
    }
    /// `out` becomes the `in` of the member `by` positions before; where an open edge leaves none, `out`
    /// stays.
    template <Buffer In, OutBuffer Out>
    void shift(const In& in, Out&& out, int by = 1, Edge edge = Edge::wrap) {
        run(call(detail::Operation::shift, in, out, by, edge));
    }
    /// Returns once every member has called it.
    void barrier() { run({}); }

    // The same operations, started: they return at once, and the buffers belong to the Pending until it is
    // waited for.

    template <OutBuffer B, class R = decltype(sum)>
    requires Reduces<R, element_t<B>> && Outlives<B> Pending start_all_reduce(B&& buffer, R reduction = {}) {
        return start(reduce_call(detail::Operation::all_reduce, buffer, buffer, reduction));
    }
    template <Buffer In, OutBuffer Out, class R = decltype(sum)>
    requires Reduces<R, element_t<In>> && Outlives<In> && Outlives<Out> Pending
    start_all_reduce(In&& in, Out&& out, R reduction = {}) {
        return start(reduce_call(detail::Operation::all_reduce, in, out, reduction));
    }
    template <Buffer In, OutBuffer Out>
    requires Outlives<In> && Outlives<Out> Pending start_all_gather(In&& in, Out&& out) {
        return start(call(detail::Operation::all_gather, in, out));
    }
    template <Buffer In, OutBuffer Out, class R = decltype(sum)>
    requires Reduces<R, element_t<In>> && Outlives<In> && Outlives<Out> Pending
    start_reduce_scatter(In&& in, Out&& out, R reduction = {}) {
        return start(reduce_call(detail::Operation::reduce_scatter, in, out, reduction));
    }
    template <OutBuffer B>
    requires Outlives<B> Pending start_broadcast(B&& buffer, int root = 0) {
        return start(call(detail::Operation::broadcast, buffer, buffer, root));
    }
    template <Buffer In, OutBuffer Out>
    requires Outlives<In> && Outlives<Out> Pending start_all_to_all(In&& in, Out&& out) {
        return start(call(detail::Operation::all_to_all, in, out));
    }
    template <Buffer In, OutBuffer Out>
    requires Outlives<In> && Outlives<Out> Pending start_shift(In&& in, Out&& out, int by = 1,
                                                               Edge edge = Edge::wrap) {
        return start(call(detail::Operation::shift, in, out, by, edge));
    }
    Pending start_barrier() { return start({}); }

private:
    friend class Member;
    explicit Communicator(std::shared_ptr<detail::Line> line) : line_(std::move(line)) {}

    template <class In, class Out>
    static detail::Call call(detail::Operation operation, In& in, Out& out, int argument = 0,
                             Edge edge = {}) {
        using detail::dtype_for;
        static_assert(dtype_for<element_t<In>>() == dtype_for<element_t<Out>>() &&
                          sizeof(element_t<In>) == sizeof(element_t<Out>),
                      "both buffers hold the same type of element");
        return {.operation = operation,
                .dtype = dtype_for<element_t<In>>(),
                .edge = edge,
                .argument = argument,
                .in = detail::data_of(in),
                .out = detail::data_of(out),
                .in_count = detail::count_of(in),
                .out_count = detail::count_of(out)};
    }
    template <class In, class Out, class R>
    static detail::Call reduce_call(detail::Operation operation, In& in, Out& out, R) {
        auto made = call(operation, in, out);
        made.reduction = R::value;
        return made;
    }

    void run(const detail::Call& call);
    Pending start(const detail::Call& call);
    detail::Line& line() const;

    std::shared_ptr<detail::Line> line_;  // null: moved from
};

}  // namespace rankmesh
