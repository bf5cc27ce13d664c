// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <concepts>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/accept.hpp>
#include <rankmesh/engine/buffers.hpp>
#include <rankmesh/engine/make_call.hpp>
#include <rankmesh/engine/pending.hpp>

namespace rankmesh {

namespace detail {
struct Access;
}  // namespace detail

/// A live group: what collectives run on.
///
/// A communicator is a light handle on a channel, which holds what an MPI_Comm does: groups of the same ranks
/// share one, unless one is declared separate. Every member of the group calls the
/// same collectives in the same order; messages between two members arrive in the order in which they were
/// sent. One thread at a time uses a channel; a second one throws UsageError.
///
/// Every blocking call throws UsageError for buffers of the wrong length, Timeout when the timeout expires,
/// and PeerLost when a peer has left; after Timeout and PeerLost the channel stays unusable. On MPI an
/// expired timeout is reported and ends the job.
///
/// On a device, calls do not block this thread: each runs once its stream has come to it and the calls before
/// it on this channel are complete, so that messages that must match go in one batch or send_recv. What fails
/// there is thrown by Pending::synchronize(), or by the next call.
///
/// Each call has a `start_` twin that returns at once; the buffers belong to its Pending until that is waited
/// for.
///
/// Lengths, counts and parts are in elements, a struct or a complex number being one. What is given as a
/// buffer is a Buffer, what is written an OutBuffer, and what is reduced a type that the reduction makes
/// sense on (Reduces); anything else does not compile, with a sentence that says why.
///
///     void step(Communicator& tp, std::vector<float>& partial) { tp.all_reduce(partial, sum); }
class RANKMESH_EXPORT Communicator {
public:
    Communicator(Communicator&&) noexcept = default;
    Communicator& operator=(Communicator&&) noexcept = default;
    ~Communicator() = default;

    /// This process's rank in the group.
    int rank() const;
    /// The number of members.
    int size() const;
    /// The world rank of the rank `group_rank`.
    int world_rank(int group_rank) const;
    /// The world ranks of all members, in order.
    std::vector<int> world_ranks() const;
    /// The group rank of a world rank, nothing if it is no member.
    std::optional<int> group_rank_of(int world_rank) const;
    /// What this is, in words: `'dp,cp' of mesh 'dense'`.
    std::string label() const;

    /// The same channel with another timeout for its blocking calls.
    Communicator within(std::chrono::nanoseconds timeout) const;
    /// Where the buffers of its calls must lie: on a device if the world has an engine for one.
    Space space() const;
    /// The same group on the host's engine; itself if it is there already.
    Communicator host() const;
    /// The same channel with its calls ordered on `stream`; throws UsageError on a host engine, which has
    /// none.
    Communicator on(Stream stream) const;

    /// Every member's `out` becomes the reduction of all members' `in`, element by element: all are equally
    /// long.
    template <detail::Given In, detail::Given Out, detail::IsReduction R = decltype(sum)>
    void all_reduce(const In& in, Out&& out, R r = {}) {
        run(detail::reducing(Op::all_reduce, in, std::forward<Out>(out), r));
    }
    /// The same in place.
    template <detail::Given B, detail::IsReduction R = decltype(sum)>
    void all_reduce(B&& buffer, R r = {}) {
        run(detail::reducing(Op::all_reduce, buffer, std::forward<B>(buffer), r));
    }

    /// The `out` of group rank `root` becomes the reduction of all members' `in`, as long as each
    /// of them; the others' `out` is ignored. Throws UsageError for a root that is no group rank.
    template <detail::Given In, detail::Given Out, detail::IsReduction R>
    void reduce(const In& in, Out&& out, R r, int root = 0) {
        run(detail::reducing(Op::reduce, in, std::forward<Out>(out), r, root));
    }
    /// The same by sum.
    template <detail::Given In, detail::GivenNext Out>
    void reduce(const In& in, Out&& out, int root = 0) {
        run(detail::reducing(Op::reduce, in, std::forward<Out>(out), sum, root));
    }
    /// The same in place: the root's buffer becomes the reduction, the others' stay.
    template <detail::Given B, detail::IsReduction R = decltype(sum)>
    void reduce(B&& buffer, R r = {}, int root = 0) {
        run(detail::reducing(Op::reduce, buffer, std::forward<B>(buffer), r, root));
    }
    /// The same in place by sum.
    template <detail::Given B, detail::Integer N>
    void reduce(B&& buffer, N&& root) {
        const auto group_rank = detail::integer_behind<B, N>(root);
        run(detail::reducing(Op::reduce, buffer, std::forward<B>(buffer), sum, group_rank));
    }

    /// The `out` of rank i becomes the reduction of the `in` of ranks 0 to i: all are equally long.
    template <detail::Given In, detail::Given Out, detail::IsReduction R = decltype(sum)>
    void scan(const In& in, Out&& out, R r = {}) {
        run(detail::scanning(in, std::forward<Out>(out), r));
    }
    /// The same in place.
    template <detail::Given B, detail::IsReduction R = decltype(sum)>
    void scan(B&& buffer, R r = {}) {
        run(detail::scanning(buffer, std::forward<B>(buffer), r));
    }

    /// `in`, size() times as long as `out`, is reduced over the members; rank i gets its part i.
    template <detail::Given In, detail::Given Out, detail::IsReduction R = decltype(sum)>
    void reduce_scatter(const In& in, Out&& out, R r = {}) {
        run(detail::reducing(Op::reduce_scatter, in, std::forward<Out>(out), r));
    }
    /// The same in place, of a multiple of size(): part i of rank i's buffer becomes the result, the other
    /// parts are left undefined.
    template <detail::Given B, detail::IsReduction R = decltype(sum)>
    void reduce_scatter(B&& buffer, R r = {}) {
        run(own_part_out(detail::reducing(Op::reduce_scatter, buffer, std::forward<B>(buffer), r)));
    }

    /// Every member's buffer becomes the buffer of group rank `root`: all are equally long.
    /// Throws UsageError for a root that is no group rank.
    template <detail::Given B>
    void broadcast(B&& buffer, int root = 0) {
        run(detail::moving(Op::broadcast, buffer, std::forward<B>(buffer), root));
    }

    /// `out` becomes the members' `in` one after the other: these are equally long, it size() times as long.
    template <detail::Given In, detail::Given Out>
    void all_gather(const In& in, Out&& out) {
        run(detail::moving(Op::all_gather, in, std::forward<Out>(out)));
    }
    /// The same in place: every member gives its own part of the buffer, a multiple of size() long.
    template <detail::Given B>
    void all_gather(B&& buffer) {
        run(own_part_in(detail::moving(Op::all_gather, buffer, std::forward<B>(buffer))));
    }
    /// The same with parts of different lengths: `counts[i]` is the length of rank i's `in`, their sum that
    /// of `out`. Throws UsageError for another number of counts than size().
    template <detail::Given In, detail::Given Out>
    void all_gather_v(const In& in, Out&& out, std::span<const std::size_t> counts) {
        run(counted(detail::moving(Op::all_gather_v, in, std::forward<Out>(out)), counts, counts));
    }
    template <class In, class Out, detail::OtherCounts Counts>
    void all_gather_v(const In&, Out&&, const Counts&) = delete;  // use std::size_t counts
    /// The `out` of group rank `root` becomes the members' `in` one after the other, size() times
    /// as long; the others' `out` is ignored. Throws UsageError for a root that is no group rank.
    template <detail::Given In, detail::Given Out>
    void gather(const In& in, Out&& out, int root = 0) {
        run(detail::moving(Op::gather, in, std::forward<Out>(out), root));
    }
    /// Rank i's `out` becomes part i of the `in` of group rank `root`, which is size() times as
    /// long; the others' `in` is ignored. Throws UsageError for a root that is no group rank.
    template <detail::Given In, detail::Given Out>
    void scatter(const In& in, Out&& out, int root = 0) {
        run(detail::moving(Op::scatter, in, std::forward<Out>(out), root));
    }

    /// Part j of rank i's `in` becomes part i of rank j's `out`; both have the same length, a multiple of
    /// size().
    template <detail::Given In, detail::Given Out>
    void all_to_all(const In& in, Out&& out) {
        run(detail::moving(Op::all_to_all, in, std::forward<Out>(out)));
    }
    /// The same in place; host engines copy the buffer first.
    template <detail::Given B>
    void all_to_all(B&& buffer) {
        run(detail::moving(Op::all_to_all, buffer, std::forward<B>(buffer)));
    }
    /// The same with parts of different lengths: `in_counts[j]` elements go to rank j, `out_counts[i]` come
    /// from i, and their sums are the lengths of `in` and `out`. Throws UsageError for another number of
    /// counts than size().
    template <detail::Given In, detail::Given Out>
    void all_to_all_v(const In& in, std::span<const std::size_t> in_counts, Out&& out,
                      std::span<const std::size_t> out_counts) {
        run(counted(detail::moving(Op::all_to_all_v, in, std::forward<Out>(out)), in_counts, out_counts));
    }
    template <class In, class Counts, class Out, detail::EitherOtherCounts<Counts> More>
    void all_to_all_v(const In&, const Counts&, Out&&, const More&) = delete;  // use std::size_t counts

    /// `out` becomes the `in` of the member `by` group ranks before, as long; where an open edge leaves none,
    /// `out` stays.
    template <detail::Given In, detail::Given Out>
    void shift(const In& in, Out&& out, int by, Edge edge = Edge::wrap) {
        run(detail::moving(Op::shift, in, std::forward<Out>(out), by, edge));
    }
    /// The same by 1, round the edge.
    template <detail::Given In, detail::GivenNext Out>
    void shift(const In& in, Out&& out) {
        run(detail::moving(Op::shift, in, std::forward<Out>(out), 1, Edge::wrap));
    }
    /// The same in place.
    template <detail::Given B, detail::Integer N>
    void shift(B&& buffer, N&& by, Edge edge = Edge::wrap) {
        const auto distance = detail::integer_behind<B, N>(by);
        run(detail::moving(Op::shift, buffer, std::forward<B>(buffer), distance, edge));
    }

    /// Returns once every member has called it.
    void barrier() { run({}); }
    /// Like barrier(), but an expired timeout throws Timeout with `arrived` and `missing` on every engine,
    /// MPI included, where group rank 0 collects a message from every rank: for diagnosis, not for every
    /// step.
    void monitored_barrier() { host().run({.operation = Op::monitored_barrier}); }

    /// Sends to group rank `to`, which calls recv with the same length; may return before it has.
    /// Throws UsageError for a `to` that is no group rank, or one's own outside a batch.
    template <detail::Given In>
    void send(In&& in, int to) {
        run(detail::sending(std::forward<In>(in), to));
    }
    /// Receives what group rank `from` sends, which is as long; throws UsageError as send does.
    template <detail::Given Out>
    void recv(Out&& out, int from) {
        run(detail::moving(Op::recv, out, std::forward<Out>(out), from));
    }
    /// Sends to one member while receiving from another, or the same; `in` and `out` may differ in length,
    /// not in type.
    template <detail::Given In, detail::Given Out>
    void send_recv(In&& in, int to, Out&& out, int from) {
        run(detail::exchanging(std::forward<In>(in), to, std::forward<Out>(out), from));
    }

    /// Runs every send, recv and send_recv that `body` calls on this channel as one, so that no order among
    /// them can deadlock; their buffers must live until it returns.
    ///
    /// A send to oneself matches the recv from oneself of the same batch. If `body` throws, nothing is sent.
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
    void batch(Body&& body) {
        const auto state = begin_batch();
        collect(body, *state);
        run_batch(state);
    }

    /// Every member's string or vector becomes that of group rank `root`, which alone knows its
    /// length: what a serialised object travels as. Its start_ twin waits for the length.
    template <detail::Resizable Container>
    void broadcast_object(Container& object, int root = 0) {
        start_broadcast_object(object, root).wait();
    }
    /// Sends a string or vector to group rank `to`, which calls recv_object and need not know its
    /// length: two messages, on the host also where a device is, and in no batch.
    ///
    ///     void hand_on(Communicator& pp, std::string& state) {
    ///         if (pp.rank() == 0) pp.send_object(state, 1);
    ///         if (pp.rank() == 1) pp.recv_object(state, 0);
    ///     }
    template <detail::Resizable Container>
    void send_object(const Container& object, int to) {
        auto on_host = for_object("send_object", to);
        const auto length = static_cast<std::uint64_t>(object.size());
        on_host.start_send(length, to).wait();  // started, since a batch would keep it for later
        on_host.start_send(object, to).wait();
    }
    /// Receives what group rank `from` sends by send_object; `object` becomes as long as that.
    template <detail::Resizable Container>
    void recv_object(Container& object, int from) {
        auto on_host = for_object("recv_object", from);
        auto length = std::uint64_t{0};
        on_host.start_recv(length, from).wait();
        if (object.size() != length) object.resize(length);
        on_host.start_recv(object, from).wait();
    }

    /// All buffers of the list are reduced as by one all_reduce each, in few engine calls.
    template <detail::IsReduction R = decltype(sum)>
    void all_reduce(const Buffers& list, R = {}, const ListOptions& options = {}) {
        run_list({.operation = Op::all_reduce, .reduction = R::value}, list, list, options);
    }
    /// All buffers of the list become those of group rank `root`.
    void broadcast(const Buffers& list, int root = 0, const ListOptions& options = {}) {
        run_list({.operation = Op::broadcast, .argument = root}, list, list, options);
    }
    /// Each buffer of `outs` becomes the members' buffer of the same number in `ins`, one after the other.
    void all_gather(const ConstBuffers& ins, const Buffers& outs, const ListOptions& options = {}) {
        run_list({.operation = Op::all_gather}, ins, outs, options);
    }
    /// Each buffer of `ins`, size() times as long as that of the same number in `outs`, is reduced over the
    /// members; rank i gets its part i.
    template <class R = decltype(sum)>
    requires detail::IsReduction<R>
    void reduce_scatter(const ConstBuffers& ins, const Buffers& outs, R = {},
                        const ListOptions& options = {}) {
        run_list({.operation = Op::reduce_scatter, .reduction = R::value}, ins, outs, options);
    }

    // The same calls, started.

    /// all_reduce, started.
    template <detail::Given In, detail::Given Out, detail::IsReduction R = decltype(sum)>
    Pending start_all_reduce(In&& in, Out&& out, R r = {}) {
        return start(detail::reducing(Op::all_reduce, std::forward<In>(in), std::forward<Out>(out), r));
    }
    /// all_reduce in place, started.
    template <detail::Given B, detail::IsReduction R = decltype(sum)>
    Pending start_all_reduce(B&& buffer, R r = {}) {
        return start(detail::reducing(Op::all_reduce, buffer, std::forward<B>(buffer), r));
    }
    /// reduce, started.
    template <detail::Given In, detail::Given Out, detail::IsReduction R>
    Pending start_reduce(In&& in, Out&& out, R r, int root = 0) {
        return start(detail::reducing(Op::reduce, std::forward<In>(in), std::forward<Out>(out), r, root));
    }
    /// reduce by sum, started.
    template <detail::Given In, detail::GivenNext Out>
    Pending start_reduce(In&& in, Out&& out, int root = 0) {
        return start(detail::reducing(Op::reduce, std::forward<In>(in), std::forward<Out>(out), sum, root));
    }
    /// reduce in place, started.
    template <detail::Given B, detail::IsReduction R = decltype(sum)>
    Pending start_reduce(B&& buffer, R r = {}, int root = 0) {
        return start(detail::reducing(Op::reduce, buffer, std::forward<B>(buffer), r, root));
    }
    /// reduce in place by sum, started.
    template <detail::Given B, detail::Integer N>
    Pending start_reduce(B&& buffer, N&& root) {
        const auto group_rank = detail::integer_behind<B, N>(root);
        return start(detail::reducing(Op::reduce, buffer, std::forward<B>(buffer), sum, group_rank));
    }
    /// scan, started.
    template <detail::Given In, detail::Given Out, detail::IsReduction R = decltype(sum)>
    Pending start_scan(In&& in, Out&& out, R r = {}) {
        return start(detail::scanning(std::forward<In>(in), std::forward<Out>(out), r));
    }
    /// scan in place, started.
    template <detail::Given B, detail::IsReduction R = decltype(sum)>
    Pending start_scan(B&& buffer, R r = {}) {
        return start(detail::scanning(buffer, std::forward<B>(buffer), r));
    }
    /// reduce_scatter, started.
    template <detail::Given In, detail::Given Out, detail::IsReduction R = decltype(sum)>
    Pending start_reduce_scatter(In&& in, Out&& out, R r = {}) {
        return start(detail::reducing(Op::reduce_scatter, std::forward<In>(in), std::forward<Out>(out), r));
    }
    /// reduce_scatter in place, started.
    template <detail::Given B, detail::IsReduction R = decltype(sum)>
    Pending start_reduce_scatter(B&& buffer, R r = {}) {
        return start(own_part_out(detail::reducing(Op::reduce_scatter, buffer, std::forward<B>(buffer), r)));
    }
    /// broadcast, started.
    template <detail::Given B>
    Pending start_broadcast(B&& buffer, int root = 0) {
        return start(detail::moving(Op::broadcast, buffer, std::forward<B>(buffer), root));
    }
    /// all_gather, started.
    template <detail::Given In, detail::Given Out>
    Pending start_all_gather(In&& in, Out&& out) {
        return start(detail::moving(Op::all_gather, std::forward<In>(in), std::forward<Out>(out)));
    }
    /// all_gather in place, started.
    template <detail::Given B>
    Pending start_all_gather(B&& buffer) {
        return start(own_part_in(detail::moving(Op::all_gather, buffer, std::forward<B>(buffer))));
    }
    /// all_gather_v, started; the counts are read before it returns.
    template <detail::Given In, detail::Given Out>
    Pending start_all_gather_v(In&& in, Out&& out, std::span<const std::size_t> counts) {
        auto call = detail::moving(Op::all_gather_v, std::forward<In>(in), std::forward<Out>(out));
        return start(counted(std::move(call), counts, counts));
    }
    template <class In, class Out, detail::OtherCounts Counts>
    Pending start_all_gather_v(In&&, Out&&, const Counts&) = delete;  // use std::size_t counts
    /// gather, started.
    template <detail::Given In, detail::Given Out>
    Pending start_gather(In&& in, Out&& out, int root = 0) {
        return start(detail::moving(Op::gather, std::forward<In>(in), std::forward<Out>(out), root));
    }
    /// scatter, started.
    template <detail::Given In, detail::Given Out>
    Pending start_scatter(In&& in, Out&& out, int root = 0) {
        return start(detail::moving(Op::scatter, std::forward<In>(in), std::forward<Out>(out), root));
    }
    /// all_to_all, started.
    template <detail::Given In, detail::Given Out>
    Pending start_all_to_all(In&& in, Out&& out) {
        return start(detail::moving(Op::all_to_all, std::forward<In>(in), std::forward<Out>(out)));
    }
    /// all_to_all in place, started.
    template <detail::Given B>
    Pending start_all_to_all(B&& buffer) {
        return start(detail::moving(Op::all_to_all, buffer, std::forward<B>(buffer)));
    }
    /// all_to_all_v, started; the counts are read before it returns.
    template <detail::Given In, detail::Given Out>
    Pending start_all_to_all_v(In&& in, std::span<const std::size_t> in_counts, Out&& out,
                               std::span<const std::size_t> out_counts) {
        auto call = detail::moving(Op::all_to_all_v, std::forward<In>(in), std::forward<Out>(out));
        return start(counted(std::move(call), in_counts, out_counts));
    }
    template <class In, class Counts, class Out, detail::EitherOtherCounts<Counts> More>
    Pending start_all_to_all_v(In&&, const Counts&, Out&&, const More&) = delete;  // use std::size_t counts
    /// shift, started.
    template <detail::Given In, detail::Given Out>
    Pending start_shift(In&& in, Out&& out, int by, Edge edge = Edge::wrap) {
        return start(detail::moving(Op::shift, std::forward<In>(in), std::forward<Out>(out), by, edge));
    }
    /// shift by 1, started.
    template <detail::Given In, detail::GivenNext Out>
    Pending start_shift(In&& in, Out&& out) {
        return start(detail::moving(Op::shift, std::forward<In>(in), std::forward<Out>(out), 1, Edge::wrap));
    }
    /// shift in place, started.
    template <detail::Given B, detail::Integer N>
    Pending start_shift(B&& buffer, N&& by, Edge edge = Edge::wrap) {
        const auto distance = detail::integer_behind<B, N>(by);
        return start(detail::moving(Op::shift, buffer, std::forward<B>(buffer), distance, edge));
    }
    /// barrier, started.
    Pending start_barrier() { return start({}); }
    /// monitored_barrier, started.
    Pending start_monitored_barrier() { return host().start({.operation = Op::monitored_barrier}); }
    /// send, started.
    template <detail::Given In>
    Pending start_send(In&& in, int to) {
        return start(detail::sending(std::forward<In>(in), to));
    }
    /// recv, started.
    template <detail::Given Out>
    Pending start_recv(Out&& out, int from) {
        return start(detail::moving(Op::recv, out, std::forward<Out>(out), from));
    }
    /// send_recv, started.
    template <detail::Given In, detail::Given Out>
    Pending start_send_recv(In&& in, int to, Out&& out, int from) {
        return start(detail::exchanging(std::forward<In>(in), to, std::forward<Out>(out), from));
    }
    /// batch, started.
    template <std::invocable Body>
    Pending start_batch(Body&& body) {
        const auto state = begin_batch();
        collect(body, *state);
        return start_batch(state);
    }
    /// broadcast_object, started: it waits for the length only.
    template <detail::Resizable Container>
    Pending start_broadcast_object(Container& object, int root = 0) {
        auto on_host = host();
        auto length = static_cast<std::uint64_t>(object.size());
        on_host.broadcast(length, root);
        if (object.size() != length) object.resize(length);
        return on_host.start_broadcast(object, root);
    }
    /// all_reduce of a list, started.
    template <detail::IsReduction R = decltype(sum)>
    Pending start_all_reduce(const Buffers& list, R = {}, const ListOptions& options = {}) {
        return start_list({.operation = Op::all_reduce, .reduction = R::value}, list, list, options);
    }
    /// broadcast of a list, started.
    Pending start_broadcast(const Buffers& list, int root = 0, const ListOptions& options = {}) {
        return start_list({.operation = Op::broadcast, .argument = root}, list, list, options);
    }
    /// all_gather of a list, started.
    Pending start_all_gather(const ConstBuffers& ins, const Buffers& outs, const ListOptions& options = {}) {
        return start_list({.operation = Op::all_gather}, ins, outs, options);
    }
    template <class R = decltype(sum)>
    requires detail::IsReduction<R> Pending start_reduce_scatter(const ConstBuffers& ins, const Buffers& outs,
                                                                 R = {}, const ListOptions& options = {}) {
        return start_list({.operation = Op::reduce_scatter, .reduction = R::value}, ins, outs, options);
    }

private:
    friend class Member;
    friend struct detail::Access;
    using Op = detail::Operation;
    explicit Communicator(std::shared_ptr<detail::CommunicatorState> state) : state_(std::move(state)) {}

    // They complete a call that its caller holds, and hand it on.
    const detail::Call& counted(detail::Call&& call, std::span<const std::size_t> in_counts,
                                std::span<const std::size_t> out_counts) const;
    const detail::Call& own_part_in(detail::Call&& call) const;
    const detail::Call& own_part_out(detail::Call&& call) const;

    /// The group on the host; throws UsageError where `peer` is this member itself.
    Communicator for_object(std::string_view call, int peer) const;

    // They hold the state, since the body may move from this communicator.
    template <class Body>
    static void collect(Body&& body, detail::CommunicatorState& state) {
        try {
            body();
        } catch (...) {
            drop_batch(state);
            throw;
        }
    }
    std::shared_ptr<detail::CommunicatorState> begin_batch() const;
    static void drop_batch(detail::CommunicatorState& state) noexcept;
    static std::vector<detail::Call> collected(detail::CommunicatorState& state);
    static void run_batch(const std::shared_ptr<detail::CommunicatorState>& state);
    static Pending start_batch(const std::shared_ptr<detail::CommunicatorState>& state);

    void run(const detail::Call& call);
    Pending start(const detail::Call& call);
    Pending start_list(const detail::Call& like, const ConstBuffers& ins, const Buffers& outs,
                       const ListOptions& options);
    void run_list(const detail::Call& like, const ConstBuffers& ins, const Buffers& outs,
                  const ListOptions& options);
    detail::CommunicatorState& state() const;

    std::shared_ptr<detail::CommunicatorState> state_;  // null: moved from
};

}  // namespace rankmesh
