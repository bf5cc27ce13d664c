// SPDX-License-Identifier: Apache-2.0
// The operations of a communicator, for those that run them and those that start them.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

// Before buffers.hpp, which includes it too: a compiler lists fewer headers above a refusal.
#include <rankmesh/engine/detail/accept.hpp>

#include <rankmesh/engine/buffers.hpp>
#include <rankmesh/engine/counts.hpp>
#include <rankmesh/engine/detail/make_call.hpp>
#include <rankmesh/engine/message.hpp>
#include <rankmesh/engine/pending.hpp>
#include <rankmesh/engine/tag.hpp>

namespace rankmesh {

/// The operations of a Communicator, whose Result is void, and of what its `start()` returns, whose Result is
/// a Pending.
///
/// Lengths and counts are in elements; a struct or a complex number is one element. A buffer of size() * n
/// elements has size() parts: part i is the n elements from i * n on. Inputs are Buffers, outputs are
/// OutBuffers, and the element type of a reduction satisfies Reduces. Other arguments fail to compile, with a
/// sentence that says why.
template <class Self, class Result>
class Operations {
public:
    /// Reduces `in` element by element over all ranks into every rank's `out`. `in` and `out` have the same
    /// length on all ranks.
    template <detail::BufferArgument In, detail::BufferArgument Out,
              detail::ReductionArgument R = decltype(sum)>
    Result all_reduce(In&& in, Out&& out, R r = {}) {
        return self().perform(detail::reducing(Op::all_reduce, input<In>(in), std::forward<Out>(out), r));
    }
    /// all_reduce in place.
    template <detail::BufferArgument B, detail::IsReduction R = decltype(sum)>
    Result all_reduce(B&& buffer, R r = {}) {
        return self().perform(detail::reducing(Op::all_reduce, buffer, std::forward<B>(buffer), r));
    }

    /// Reduces `in` element by element over all ranks into the `out` of group rank `root`. `in` on all ranks
    /// and the root's `out` have the same length; the other ranks' `out` is ignored. Throws UsageError if
    /// `root` is not a group rank.
    template <detail::BufferArgument In, detail::BufferArgument Out, detail::ReductionArgument R>
    Result reduce(In&& in, Out&& out, R r, Int root = 0) {
        return self().perform(detail::reducing(Op::reduce, input<In>(in), std::forward<Out>(out), r, root));
    }
    /// reduce with sum.
    template <detail::BufferArgument In, detail::NextBufferArgument Out>
    Result reduce(In&& in, Out&& out, Int root = 0) {
        return self().perform(detail::reducing(Op::reduce, input<In>(in), std::forward<Out>(out), sum, root));
    }
    /// reduce in place: the root's buffer becomes the result, the other ranks' buffers are unchanged.
    template <detail::BufferArgument B, detail::IsReduction R = decltype(sum)>
    Result reduce(B&& buffer, R r = {}, Int root = 0) {
        return self().perform(detail::reducing(Op::reduce, buffer, std::forward<B>(buffer), r, root));
    }
    /// reduce in place with sum.
    template <detail::BufferArgument B, detail::Integer N>
    Result reduce(B&& buffer, N&& root) {
        const auto group_rank = detail::integer_behind<B, N>(root);
        return self().perform(detail::reducing(Op::reduce, buffer, std::forward<B>(buffer), sum, group_rank));
    }

    /// Inclusive prefix reduction: reduces the `in` of ranks 0 to i into the `out` of rank i. `in` and `out`
    /// have the same length on all ranks.
    template <detail::BufferArgument In, detail::BufferArgument Out,
              detail::ReductionArgument R = decltype(sum)>
    Result scan(In&& in, Out&& out, R r = {}) {
        return self().perform(detail::scanning(Op::scan, input<In>(in), std::forward<Out>(out), r));
    }
    /// scan in place.
    template <detail::BufferArgument B, detail::IsReduction R = decltype(sum)>
    Result scan(B&& buffer, R r = {}) {
        return self().perform(detail::scanning(Op::scan, buffer, std::forward<B>(buffer), r));
    }

    /// Exclusive prefix reduction: reduces the `in` of ranks 0 to i - 1 into the `out` of rank i. Rank 0's
    /// `out` becomes the reduction of nothing, such as 0 for sum and infinity for min; it is unchanged for
    /// locations and functions, which have no such value. `in` and `out` have the same length on all ranks.
    ///
    ///     void find_first_row(Communicator& dp, std::size_t rows, std::size_t& first) {
    ///         dp.exclusive_scan(rows, first);  // the rows of the ranks below
    ///     }
    template <detail::BufferArgument In, detail::BufferArgument Out,
              detail::ReductionArgument R = decltype(sum)>
    Result exclusive_scan(In&& in, Out&& out, R r = {}) {
        return self().perform(detail::scanning(Op::exclusive_scan, input<In>(in), std::forward<Out>(out), r));
    }
    /// exclusive_scan in place.
    template <detail::BufferArgument B, detail::IsReduction R = decltype(sum)>
    Result exclusive_scan(B&& buffer, R r = {}) {
        return self().perform(detail::scanning(Op::exclusive_scan, buffer, std::forward<B>(buffer), r));
    }

    /// Reduces `in` element by element over all ranks and writes part i of the result into rank i's `out`.
    /// `out` has the same length on all ranks; `in` is size() times as long.
    template <detail::BufferArgument In, detail::BufferArgument Out,
              detail::ReductionArgument R = decltype(sum)>
    Result reduce_scatter(In&& in, Out&& out, R r = {}) {
        return self().perform(detail::reducing(Op::reduce_scatter, input<In>(in), std::forward<Out>(out), r));
    }
    /// reduce_scatter in place: rank i's result replaces part i of its buffer; the other parts are undefined
    /// afterwards. The length is a multiple of size() and the same on all ranks.
    template <detail::BufferArgument B, detail::IsReduction R = decltype(sum)>
    Result reduce_scatter(B&& buffer, R r = {}) {
        return self().perform(
            own_part(detail::reducing(Op::reduce_scatter, buffer, std::forward<B>(buffer), r)));
    }

    /// Copies the buffer of group rank `root` into every rank's buffer. All buffers have the same length.
    /// Throws UsageError if `root` is not a group rank.
    template <detail::BufferArgument B>
    Result broadcast(B&& buffer, Int root = 0) {
        return self().perform(detail::moving(Op::broadcast, buffer, std::forward<B>(buffer), root));
    }

    /// Concatenates all ranks' `in` in group-rank order into every rank's `out`. `in` has the same length on
    /// all ranks; `out` is size() times as long.
    template <detail::BufferArgument In, detail::BufferArgument Out>
    Result all_gather(In&& in, Out&& out) {
        return self().perform(detail::moving(Op::all_gather, input<In>(in), std::forward<Out>(out)));
    }
    /// all_gather in place: rank i contributes part i of its buffer. The length is a multiple of size() and
    /// the same on all ranks.
    template <detail::BufferArgument B>
    Result all_gather(B&& buffer) {
        return self().perform(own_part(detail::moving(Op::all_gather, buffer, std::forward<B>(buffer))));
    }
    /// all_gather of inputs of different lengths: `counts[i]` is the length of rank i's `in`; the sum of the
    /// counts is the length of `out`. All ranks pass the same counts. Throws UsageError unless there are
    /// size() counts.
    template <detail::BufferArgument In, detail::BufferArgument Out>
    Result all_gather_v(In&& in, Out&& out, const detail::Counts& counts) {
        return self().perform(
            counted(detail::moving(Op::all_gather_v, input<In>(in), std::forward<Out>(out)), counts, counts));
    }
    /// Concatenates all ranks' `in` in group-rank order into the `out` of group rank `root`. `in` has the
    /// same length on all ranks; the root's `out` is size() times as long; the other ranks' `out` is ignored.
    /// Throws UsageError if `root` is not a group rank.
    template <detail::BufferArgument In, detail::BufferArgument Out>
    Result gather(In&& in, Out&& out, Int root = 0) {
        return self().perform(detail::moving(Op::gather, input<In>(in), std::forward<Out>(out), root));
    }
    /// Copies part i of the `in` of group rank `root` into rank i's `out`. `out` has the same length on all
    /// ranks; the root's `in` is size() times as long; the other ranks' `in` is ignored. Throws UsageError if
    /// `root` is not a group rank.
    template <detail::BufferArgument In, detail::BufferArgument Out>
    Result scatter(In&& in, Out&& out, Int root = 0) {
        return self().perform(detail::moving(Op::scatter, input<In>(in), std::forward<Out>(out), root));
    }
    /// gather of inputs of different lengths. At the root `counts[i]` is the length of rank i's `in`, and the
    /// sum of the counts is the length of `out`. The other ranks' `out` and `counts` are ignored. Throws
    /// UsageError unless the root passes size() counts.
    template <detail::BufferArgument In, detail::BufferArgument Out>
    Result gather_v(In&& in, Out&& out, const detail::Counts& counts, Int root = 0) {
        return self().perform(counted_at_root(
            detail::moving(Op::gather_v, input<In>(in), std::forward<Out>(out), root), counts));
    }
    /// scatter of parts of different lengths. At the root `counts[i]` is the length of rank i's `out`, and
    /// the sum of the counts is the length of `in`. The other ranks' `in` and `counts` are ignored. Throws
    /// UsageError unless the root passes size() counts.
    template <detail::BufferArgument In, detail::BufferArgument Out>
    Result scatter_v(In&& in, const detail::Counts& counts, Out&& out, Int root = 0) {
        return self().perform(counted_at_root(
            detail::moving(Op::scatter_v, input<In>(in), std::forward<Out>(out), root), counts));
    }

    /// Copies part j of rank i's `in` into part i of rank j's `out`. `in` and `out` have the same length on
    /// all ranks, a multiple of size().
    template <detail::BufferArgument In, detail::BufferArgument Out>
    Result all_to_all(In&& in, Out&& out) {
        return self().perform(detail::moving(Op::all_to_all, input<In>(in), std::forward<Out>(out)));
    }
    /// all_to_all in place; host engines copy the buffer first.
    template <detail::BufferArgument B>
    Result all_to_all(B&& buffer) {
        return self().perform(detail::moving(Op::all_to_all, buffer, std::forward<B>(buffer)));
    }
    /// all_to_all with parts of different lengths: `in_counts[j]` elements go to rank j, and `out_counts[i]`
    /// elements come from rank i. The sums of the counts are the lengths of `in` and `out`. Throws UsageError
    /// unless there are size() counts of each.
    template <detail::BufferArgument In, detail::BufferArgument Out>
    Result all_to_all_v(In&& in, const detail::Counts& in_counts, Out&& out,
                        const detail::Counts& out_counts) {
        return self().perform(counted(detail::moving(Op::all_to_all_v, input<In>(in), std::forward<Out>(out)),
                                      in_counts, out_counts));
    }

    /// Sends `in` to the rank `distance` group ranks higher and receives `out` from the rank `distance`
    /// lower, modulo size(). `in` and `out` have the same length on all ranks. With Edge::open nothing wraps
    /// around: a rank without a sender leaves its `out` unchanged.
    template <detail::BufferArgument In, detail::BufferArgument Out>
    Result shift(In&& in, Out&& out, Int distance, Edge edge = Edge::wrap) {
        return self().perform(
            detail::moving(Op::shift, input<In>(in), std::forward<Out>(out), distance, edge));
    }
    /// shift by 1, wrapping around.
    template <detail::BufferArgument In, detail::NextBufferArgument Out>
    Result shift(In&& in, Out&& out) {
        return self().perform(
            detail::moving(Op::shift, input<In>(in), std::forward<Out>(out), 1, Edge::wrap));
    }
    /// shift in place.
    template <detail::BufferArgument B, detail::Integer N>
    Result shift(B&& buffer, N&& distance, Edge edge = Edge::wrap) {
        const auto by = detail::integer_behind<B, N>(distance);
        return self().perform(detail::moving(Op::shift, buffer, std::forward<B>(buffer), by, edge));
    }

    /// Returns when every rank of the group has called barrier.
    Result barrier() { return self().perform(detail::Call{}); }
    /// Like barrier(), but an expired timeout throws Timeout with `arrived` and `missing` on every engine,
    /// also on MPI. On MPI, group rank 0 collects a message from every rank; use it for diagnosis, not in
    /// every step.
    Result monitored_barrier() {
        return self().host().perform(detail::Call{.operation = Op::monitored_barrier});
    }

    /// Sends `in` to group rank `to`, which must call recv with the same length and tag. On threads and Gloo
    /// it returns once `to` has called recv, on MPI maybe before. Throws UsageError if `to` is not a group
    /// rank, or if `to` is this rank outside a batch.
    template <detail::BufferArgument In>
    Result send(In&& in, Int to, Tag tag = 0) {
        return self().perform(detail::sending(std::forward<In>(in), to, tag));
    }
    /// Receives a message of group rank `from` into `out`. The message must have the same length and tag.
    /// Throws UsageError like send.
    template <detail::BufferArgument Out>
    Result recv(Out&& out, Int from, Tag tag = 0) {
        return self().perform(detail::receiving(std::forward<Out>(out), from, tag));
    }
    /// Receives a message of any other rank of the group into `out` and returns the sender's group rank;
    /// started, Pending::sender() returns it. The message must have the same length.
    ///
    /// A rank's messages are received in the order in which it sent them: of each rank only the next message
    /// is considered, and only if it has this tag. Of several the first to arrive is received. Receives and
    /// probes of any rank take messages in the order of their calls.
    ///
    /// Throws PeerLost once nobody is left who could send. Throws UsageError inside a batch, and on a device,
    /// where host() has it.
    ///
    ///     void serve(Communicator& on, std::vector<double>& task, std::vector<double>& result) {
    ///         const int worker = on.recv(result, any_rank);
    ///         on.send(task, worker);
    ///     }
    template <detail::BufferArgument Out>
    auto recv(Out&& out, AnyRank, Tag tag = 0) {
        return self().perform_from_any(detail::receiving(std::forward<Out>(out), detail::any_source, tag));
    }
    /// Sends `in` to group rank `to` and receives `out` from group rank `from` at the same time; `to` and
    /// `from` may be equal. `in` and `out` may differ in length, but not in element type. Both messages have
    /// the same tag.
    template <detail::BufferArgument In, detail::BufferArgument Out>
    Result send_recv(In&& in, Int to, Out&& out, Int from, Tag tag = 0) {
        return self().perform(
            detail::exchanging(std::forward<In>(in), to, std::forward<Out>(out), from, tag));
    }

    /// Runs all send, recv and send_recv calls of `body` on this channel as one operation; their order cannot
    /// deadlock. The buffers must live until batch returns.
    ///
    /// Messages are sent and received in the order of their tags; messages with one tag in the order of the
    /// calls. Use tags if two ranks are neighbours on both sides. A send to this rank matches a recv from
    /// this rank in the same batch. If `body` throws, nothing is sent.
    ///
    ///     void both_ways(Communicator& pp, std::vector<float>& activations, std::vector<float>& grads) {
    ///         const auto last = pp.rank() == pp.size() - 1;
    ///         pp.batch([&] {
    ///             if (!last) pp.send(activations, pp.rank() + 1);
    ///             if (!last) pp.recv(grads, pp.rank() + 1);
    ///             if (pp.rank() > 0) pp.send(grads, pp.rank() - 1);
    ///         });
    ///     }
    template <std::invocable Body>
    Result batch(Body&& body) {
        auto& on = self().communicator();
        const auto state = on.begin_batch();
        on.collect(body, *state);
        return Self::perform_batch(state);  // the body may have moved from this communicator
    }

    /// Copies the string or vector of group rank `root` to every rank and resizes the other ranks'
    /// containers. For serialised objects, because only the root knows their length. Started, it waits for
    /// the length, then starts to copy the content.
    template <detail::Resizable Container>
    Result broadcast_object(Container& object, Int root = 0) {
        auto on_host = self().host();
        auto length = static_cast<std::uint64_t>(object.size());
        on_host.communicator().broadcast(length, root);
        if (object.size() != length) object.resize(length);
        return on_host.broadcast(object, root);
    }
    /// all_reduce in place of every buffer of the list, packed into few engine calls.
    template <detail::ReductionArgument R = decltype(sum)>
    Result all_reduce(const Buffers& list, R = {}, const ListOptions& options = {}) {
        return self().perform_list({.operation = Op::all_reduce, .reduction = detail::reduction_of<R>()},
                                   list, list, options);
    }
    /// broadcast of every buffer of the list, packed into few engine calls.
    Result broadcast(const Buffers& list, Int root = 0, const ListOptions& options = {}) {
        return self().perform_list({.operation = Op::broadcast, .argument = root}, list, list, options);
    }
    /// all_gather of every buffer of `ins` into the buffer of the same index in `outs`, packed into few
    /// engine calls.
    Result all_gather(const ConstBuffers& ins, const Buffers& outs, const ListOptions& options = {}) {
        return self().perform_list({.operation = Op::all_gather}, ins, outs, options);
    }
    /// reduce_scatter of every buffer of `ins` into the buffer of the same index in `outs`, packed into few
    /// engine calls.
    template <detail::ReductionArgument R = decltype(sum)>
    Result reduce_scatter(const ConstBuffers& ins, const Buffers& outs, R = {},
                          const ListOptions& options = {}) {
        return self().perform_list({.operation = Op::reduce_scatter, .reduction = detail::reduction_of<R>()},
                                   ins, outs, options);
    }

private:
    friend Self;
    using Op = detail::Operation;
    Operations() = default;
    Self& self() { return static_cast<Self&>(*this); }

    /// An input as it was given. A temporary that is only started would be destroyed before it is sent, which
    /// a call refuses; one that blocks may read it.
    template <class In>
    static constexpr decltype(auto) input(std::remove_reference_t<In>& in) {
        return static_cast<std::conditional_t<std::is_void_v<Result>, const In&, In&&>>(in);
    }

    // Each of these completes a call and returns it.
    template <class Call>
    const Call& counted(Call&& call, const detail::Counts& in_counts, const detail::Counts& out_counts) {
        self().communicator().set_counts(call, in_counts, out_counts);
        return call;
    }
    template <class Call>
    const Call& counted_at_root(Call&& call, const detail::Counts& counts) {
        self().communicator().set_counts_at_root(call, counts);
        return call;
    }
    template <class Call>
    const Call& own_part(Call&& call) {
        self().communicator().take_own_part(call);
        return call;
    }
};

}  // namespace rankmesh
