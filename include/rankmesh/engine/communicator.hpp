// SPDX-License-Identifier: Apache-2.0
// Communicator, a group of ranks with its collectives and messages.
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
// Before buffers.hpp, which includes it too: a compiler lists fewer headers above a refusal.
#include <rankmesh/engine/detail/accept.hpp>

#include <rankmesh/engine/buffers.hpp>
#include <rankmesh/engine/counts.hpp>
#include <rankmesh/engine/detail/make_call.hpp>
#include <rankmesh/engine/message.hpp>
#include <rankmesh/engine/pending.hpp>
#include <rankmesh/engine/tag.hpp>

namespace rankmesh {

namespace detail {
struct Access;
}  // namespace detail

/// A connected group of ranks that runs collectives and messages, like an MPI_Comm.
///
/// A communicator is a lightweight handle of a channel, which holds the engine's resources, such as an
/// MPI_Comm or connections. Groups with the same ranks share one channel, unless one is declared separate.
///
/// Rules: Every rank of the group calls the same collectives in the same order. Messages between two ranks
/// arrive in the order in which they were sent, and both ends pass the same tag. Only one thread at a time
/// may use a channel; a second thread gets UsageError.
///
/// Errors: Every blocking call throws UsageError for buffers of the wrong length, Timeout if the timeout
/// expires, and PeerLost if a peer has left. After Timeout or PeerLost the channel stays unusable. On MPI an
/// expired timeout is reported and ends the job.
///
/// On a device, calls do not block this thread. Each call runs in stream order, after earlier calls on this
/// channel. Therefore put a send and a recv that wait for each other into one batch or send_recv.
/// Pending::synchronize() or the next call throws errors.
///
/// Each call has a `start_` variant, which returns a Pending at once. The buffers must not be used until
/// Pending::wait() has returned.
///
/// Lengths and counts are in elements; a struct or a complex number is one element. A buffer of size() * n
/// elements has size() parts: part i is the n elements from i * n on. Inputs are Buffers, outputs are
/// OutBuffers, and the element type of a reduction satisfies Reduces. Other arguments fail to compile, with a
/// sentence that says why.
///
///     void step(Communicator& tp, std::vector<float>& partial) { tp.all_reduce(partial, sum); }
class RANKMESH_EXPORT Communicator {
public:
    Communicator(Communicator&&) noexcept = default;
    Communicator& operator=(Communicator&&) noexcept = default;
    ~Communicator() = default;

    /// Returns this process's rank in the group, from 0 to size() - 1.
    int rank() const;
    /// Returns the number of ranks in the group.
    int size() const;
    /// Returns the world rank of group rank `group_rank`.
    int world_rank(Int group_rank) const;
    /// Returns the world ranks of the group, in group-rank order.
    std::vector<int> world_ranks() const;
    /// Returns the group rank of a world rank; nullopt if the group does not contain that rank.
    std::optional<int> group_rank_of(Int world_rank) const;
    /// Returns a description for messages: `'dp,cp' of mesh 'dense'`.
    std::string label() const;

    /// Returns a handle of the same channel with another timeout for its blocking calls.
    Communicator within(std::chrono::nanoseconds timeout) const;
    /// Returns where buffers must be: on a device if the world has a device engine, else on the host.
    Space space() const;
    /// Returns the same group on the host engine. Returns itself if it is already on the host.
    Communicator host() const;
    /// Returns a handle of the same channel that orders its calls on `stream`. Throws UsageError on a host
    /// engine, which has no streams.
    Communicator on(Stream stream) const;

    /// Reduces `in` element by element over all ranks into every rank's `out`. `in` and `out` have the same
    /// length on all ranks.
    template <detail::Given In, detail::Given Out, detail::GivenReduction R = decltype(sum)>
    void all_reduce(const In& in, Out&& out, R r = {}) {
        run(detail::reducing(Op::all_reduce, in, std::forward<Out>(out), r));
    }
    /// all_reduce in place.
    template <detail::Given B, detail::IsReduction R = decltype(sum)>
    void all_reduce(B&& buffer, R r = {}) {
        run(detail::reducing(Op::all_reduce, buffer, std::forward<B>(buffer), r));
    }

    /// Reduces `in` element by element over all ranks into the `out` of group rank `root`. `in` on all ranks
    /// and the root's `out` have the same length; the other ranks' `out` is ignored. Throws UsageError if
    /// `root` is not a group rank.
    template <detail::Given In, detail::Given Out, detail::GivenReduction R>
    void reduce(const In& in, Out&& out, R r, Int root = 0) {
        run(detail::reducing(Op::reduce, in, std::forward<Out>(out), r, root));
    }
    /// reduce with sum.
    template <detail::Given In, detail::GivenNext Out>
    void reduce(const In& in, Out&& out, Int root = 0) {
        run(detail::reducing(Op::reduce, in, std::forward<Out>(out), sum, root));
    }
    /// reduce in place: the root's buffer becomes the result, the other ranks' buffers are unchanged.
    template <detail::Given B, detail::IsReduction R = decltype(sum)>
    void reduce(B&& buffer, R r = {}, Int root = 0) {
        run(detail::reducing(Op::reduce, buffer, std::forward<B>(buffer), r, root));
    }
    /// reduce in place with sum.
    template <detail::Given B, detail::Integer N>
    void reduce(B&& buffer, N&& root) {
        const auto group_rank = detail::integer_behind<B, N>(root);
        run(detail::reducing(Op::reduce, buffer, std::forward<B>(buffer), sum, group_rank));
    }

    /// Inclusive prefix reduction: reduces the `in` of ranks 0 to i into the `out` of rank i. `in` and `out`
    /// have the same length on all ranks.
    template <detail::Given In, detail::Given Out, detail::GivenReduction R = decltype(sum)>
    void scan(const In& in, Out&& out, R r = {}) {
        run(detail::scanning(Op::scan, in, std::forward<Out>(out), r));
    }
    /// scan in place.
    template <detail::Given B, detail::IsReduction R = decltype(sum)>
    void scan(B&& buffer, R r = {}) {
        run(detail::scanning(Op::scan, buffer, std::forward<B>(buffer), r));
    }

    /// Exclusive prefix reduction: reduces the `in` of ranks 0 to i - 1 into the `out` of rank i. Rank 0's
    /// `out` becomes the reduction of nothing, such as 0 for sum and infinity for min; it is unchanged for
    /// locations and functions, which have no such value. `in` and `out` have the same length on all ranks.
    ///
    ///     void find_first_row(Communicator& dp, std::size_t rows, std::size_t& first) {
    ///         dp.exclusive_scan(rows, first);  // the rows of the ranks below
    ///     }
    template <detail::Given In, detail::Given Out, detail::GivenReduction R = decltype(sum)>
    void exclusive_scan(const In& in, Out&& out, R r = {}) {
        run(detail::scanning(Op::exclusive_scan, in, std::forward<Out>(out), r));
    }
    /// exclusive_scan in place.
    template <detail::Given B, detail::IsReduction R = decltype(sum)>
    void exclusive_scan(B&& buffer, R r = {}) {
        run(detail::scanning(Op::exclusive_scan, buffer, std::forward<B>(buffer), r));
    }

    /// Reduces `in` element by element over all ranks and writes part i of the result into rank i's `out`.
    /// `out` has the same length on all ranks; `in` is size() times as long.
    template <detail::Given In, detail::Given Out, detail::GivenReduction R = decltype(sum)>
    void reduce_scatter(const In& in, Out&& out, R r = {}) {
        run(detail::reducing(Op::reduce_scatter, in, std::forward<Out>(out), r));
    }
    /// reduce_scatter in place: rank i's result replaces part i of its buffer; the other parts are undefined
    /// afterwards. The length is a multiple of size() and the same on all ranks.
    template <detail::Given B, detail::IsReduction R = decltype(sum)>
    void reduce_scatter(B&& buffer, R r = {}) {
        run(own_part(detail::reducing(Op::reduce_scatter, buffer, std::forward<B>(buffer), r)));
    }

    /// Returns the sum of all elements of all ranks' `in`, which differ in length: exact, then rounded once,
    /// so the same bits on every engine and however the elements are spread over the ranks. Complex numbers
    /// are not supported. `in` is in host memory, on a device's communicator too. Costs one all_reduce of 73
    /// i64, on the host engine.
    ///
    ///     void norm(Communicator& dp, const std::vector<double>& r, double& squared) {
    ///         squared = dp.reproducible_dot(r, r);
    ///     }
    template <detail::Given In>
    auto reproducible_sum(const In& in) {
        return detail::summed<In, In>([&](auto what) {
            return sum_reproducibly(detail::any_buffer<const void>(in, what), {}, detail::layout_of(in));
        });
    }
    /// Returns the scalar product of all ranks' `x` and `y` in the same way: the exact sum of the products,
    /// each rounded to double, rounded once. `x` and `y` have the same length on this rank.
    template <detail::Given X, detail::Given Y>
    auto reproducible_dot(const X& x, const Y& y) {
        return detail::summed<X, Y>([&](auto what) {
            return sum_reproducibly(detail::any_buffer<const void>(x, what),
                                    detail::any_buffer<const void>(y, what), detail::layout_of(x),
                                    detail::layout_of(y));
        });
    }

    /// Copies the buffer of group rank `root` into every rank's buffer. All buffers have the same length.
    /// Throws UsageError if `root` is not a group rank.
    template <detail::Given B>
    void broadcast(B&& buffer, Int root = 0) {
        run(detail::moving(Op::broadcast, buffer, std::forward<B>(buffer), root));
    }

    /// Concatenates all ranks' `in` in group-rank order into every rank's `out`. `in` has the same length on
    /// all ranks; `out` is size() times as long.
    template <detail::Given In, detail::Given Out>
    void all_gather(const In& in, Out&& out) {
        run(detail::moving(Op::all_gather, in, std::forward<Out>(out)));
    }
    /// all_gather in place: rank i contributes part i of its buffer. The length is a multiple of size() and
    /// the same on all ranks.
    template <detail::Given B>
    void all_gather(B&& buffer) {
        run(own_part(detail::moving(Op::all_gather, buffer, std::forward<B>(buffer))));
    }
    /// all_gather of inputs of different lengths: `counts[i]` is the length of rank i's `in`; the sum of the
    /// counts is the length of `out`. All ranks pass the same counts. Throws UsageError unless there are
    /// size() counts.
    template <detail::Given In, detail::Given Out>
    void all_gather_v(const In& in, Out&& out, const detail::Counts& counts) {
        run(counted(detail::moving(Op::all_gather_v, in, std::forward<Out>(out)), counts, counts));
    }
    /// Concatenates all ranks' `in` in group-rank order into the `out` of group rank `root`. `in` has the
    /// same length on all ranks; the root's `out` is size() times as long; the other ranks' `out` is ignored.
    /// Throws UsageError if `root` is not a group rank.
    template <detail::Given In, detail::Given Out>
    void gather(const In& in, Out&& out, Int root = 0) {
        run(detail::moving(Op::gather, in, std::forward<Out>(out), root));
    }
    /// Copies part i of the `in` of group rank `root` into rank i's `out`. `out` has the same length on all
    /// ranks; the root's `in` is size() times as long; the other ranks' `in` is ignored. Throws UsageError if
    /// `root` is not a group rank.
    template <detail::Given In, detail::Given Out>
    void scatter(const In& in, Out&& out, Int root = 0) {
        run(detail::moving(Op::scatter, in, std::forward<Out>(out), root));
    }
    /// gather of inputs of different lengths. At the root `counts[i]` is the length of rank i's `in`, and the
    /// sum of the counts is the length of `out`. The other ranks' `out` and `counts` are ignored. Throws
    /// UsageError unless the root passes size() counts.
    template <detail::Given In, detail::Given Out>
    void gather_v(const In& in, Out&& out, const detail::Counts& counts, Int root = 0) {
        run(counted_at_root(detail::moving(Op::gather_v, in, std::forward<Out>(out), root), counts));
    }
    /// scatter of parts of different lengths. At the root `counts[i]` is the length of rank i's `out`, and
    /// the sum of the counts is the length of `in`. The other ranks' `in` and `counts` are ignored. Throws
    /// UsageError unless the root passes size() counts.
    template <detail::Given In, detail::Given Out>
    void scatter_v(const In& in, const detail::Counts& counts, Out&& out, Int root = 0) {
        run(counted_at_root(detail::moving(Op::scatter_v, in, std::forward<Out>(out), root), counts));
    }

    /// Copies part j of rank i's `in` into part i of rank j's `out`. `in` and `out` have the same length on
    /// all ranks, a multiple of size().
    template <detail::Given In, detail::Given Out>
    void all_to_all(const In& in, Out&& out) {
        run(detail::moving(Op::all_to_all, in, std::forward<Out>(out)));
    }
    /// all_to_all in place; host engines copy the buffer first.
    template <detail::Given B>
    void all_to_all(B&& buffer) {
        run(detail::moving(Op::all_to_all, buffer, std::forward<B>(buffer)));
    }
    /// all_to_all with parts of different lengths: `in_counts[j]` elements go to rank j, and `out_counts[i]`
    /// elements come from rank i. The sums of the counts are the lengths of `in` and `out`. Throws UsageError
    /// unless there are size() counts of each.
    template <detail::Given In, detail::Given Out>
    void all_to_all_v(const In& in, const detail::Counts& in_counts, Out&& out,
                      const detail::Counts& out_counts) {
        run(counted(detail::moving(Op::all_to_all_v, in, std::forward<Out>(out)), in_counts, out_counts));
    }

    /// Sends `in` to the rank `distance` group ranks higher and receives `out` from the rank `distance`
    /// lower, modulo size(). `in` and `out` have the same length on all ranks. With Edge::open nothing wraps
    /// around: a rank without a sender leaves its `out` unchanged.
    template <detail::Given In, detail::Given Out>
    void shift(const In& in, Out&& out, Int distance, Edge edge = Edge::wrap) {
        run(detail::moving(Op::shift, in, std::forward<Out>(out), distance, edge));
    }
    /// shift by 1, wrapping around.
    template <detail::Given In, detail::GivenNext Out>
    void shift(const In& in, Out&& out) {
        run(detail::moving(Op::shift, in, std::forward<Out>(out), 1, Edge::wrap));
    }
    /// shift in place.
    template <detail::Given B, detail::Integer N>
    void shift(B&& buffer, N&& distance, Edge edge = Edge::wrap) {
        const auto by = detail::integer_behind<B, N>(distance);
        run(detail::moving(Op::shift, buffer, std::forward<B>(buffer), by, edge));
    }

    /// Returns when every rank of the group has called barrier.
    void barrier() { run({}); }
    /// Like barrier(), but an expired timeout throws Timeout with `arrived` and `missing` on every engine,
    /// also on MPI. On MPI, group rank 0 collects a message from every rank; use it for diagnosis, not in
    /// every step.
    void monitored_barrier() { host().run({.operation = Op::monitored_barrier}); }

    /// Sends `in` to group rank `to`, which must call recv with the same length and tag. On threads and Gloo
    /// it returns once `to` has called recv, on MPI maybe before. Throws UsageError if `to` is not a group
    /// rank, or if `to` is this rank outside a batch.
    template <detail::Given In>
    void send(In&& in, Int to, Tag tag = 0) {
        run(detail::sending(std::forward<In>(in), to, tag));
    }
    /// Receives a message of group rank `from` into `out`. The message must have the same length and tag.
    /// Throws UsageError like send.
    template <detail::Given Out>
    void recv(Out&& out, Int from, Tag tag = 0) {
        run(detail::receiving(std::forward<Out>(out), from, tag));
    }
    /// Receives a message of any other rank of the group into `out` and returns the sender's group rank. The
    /// message must have the same length.
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
    template <detail::Given Out>
    int recv(Out&& out, AnyRank, Tag tag = 0) {
        return run_from_any(detail::receiving(std::forward<Out>(out), detail::any_source, tag));
    }
    /// Waits until group rank `from` has sent a message with this tag that this rank would receive next, and
    /// returns its sender and length without receiving it. Throws UsageError on a device, where host() has
    /// it.
    ///
    ///     void take(Communicator& on, std::vector<double>& particles) {
    ///         const auto message = on.probe(any_rank);
    ///         particles.resize(message.count<double>());
    ///         on.recv(particles, message.from);
    ///     }
    Message probe(Int from, Tag tag = 0) { return *run_probe(from, tag, true); }
    /// probe of a message of any other rank of the group.
    Message probe(AnyRank, Tag tag = 0) { return *run_probe(detail::any_source, tag, true); }
    /// Like probe, but does not wait: returns nullopt if no message is there.
    std::optional<Message> try_probe(Int from, Tag tag = 0) { return run_probe(from, tag, false); }
    /// try_probe of a message of any other rank of the group.
    std::optional<Message> try_probe(AnyRank, Tag tag = 0) {
        return run_probe(detail::any_source, tag, false);
    }
    /// Sends `in` to group rank `to` and receives `out` from group rank `from` at the same time; `to` and
    /// `from` may be equal. `in` and `out` may differ in length, but not in element type. Both messages have
    /// the same tag.
    template <detail::Given In, detail::Given Out>
    void send_recv(In&& in, Int to, Out&& out, Int from, Tag tag = 0) {
        run(detail::exchanging(std::forward<In>(in), to, std::forward<Out>(out), from, tag));
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
    void batch(Body&& body) {
        const auto state = begin_batch();
        collect(body, *state);
        run_batch(state);
    }

    /// Copies the string or vector of group rank `root` to every rank and resizes the other ranks'
    /// containers. For serialised objects, because only the root knows their length.
    template <detail::Resizable Container>
    void broadcast_object(Container& object, Int root = 0) {
        start_broadcast_object(object, root).wait();
    }
    /// Sends a string or vector to group rank `to`, which calls recv_object without knowing the length. Sends
    /// two messages over the host engine, even if buffers are on a device. Never part of a batch.
    ///
    ///     void hand_on(Communicator& pp, std::string& state) {
    ///         if (pp.rank() == 0) pp.send_object(state, 1);
    ///         if (pp.rank() == 1) pp.recv_object(state, 0);
    ///     }
    template <detail::Resizable Container>
    void send_object(const Container& object, Int to) {
        auto on_host = for_object("send_object", to);
        const auto length = static_cast<std::uint64_t>(object.size());
        on_host.start_send(length, to).wait();  // started, because a batch would defer a send
        on_host.start_send(object, to).wait();
    }
    /// Receives what group rank `from` sends with send_object and resizes `object` to its length.
    template <detail::Resizable Container>
    void recv_object(Container& object, Int from) {
        auto on_host = for_object("recv_object", from);
        auto length = std::uint64_t{0};
        on_host.start_recv(length, from).wait();
        if (object.size() != length) object.resize(length);
        on_host.start_recv(object, from).wait();
    }

    /// all_reduce in place of every buffer of the list, packed into few engine calls.
    template <detail::GivenReduction R = decltype(sum)>
    void all_reduce(const Buffers& list, R = {}, const ListOptions& options = {}) {
        run_list({.operation = Op::all_reduce, .reduction = detail::reduction_of<R>()}, list, list, options);
    }
    /// broadcast of every buffer of the list, packed into few engine calls.
    void broadcast(const Buffers& list, Int root = 0, const ListOptions& options = {}) {
        run_list({.operation = Op::broadcast, .argument = root}, list, list, options);
    }
    /// all_gather of every buffer of `ins` into the buffer of the same index in `outs`, packed into few
    /// engine calls.
    void all_gather(const ConstBuffers& ins, const Buffers& outs, const ListOptions& options = {}) {
        run_list({.operation = Op::all_gather}, ins, outs, options);
    }
    /// reduce_scatter of every buffer of `ins` into the buffer of the same index in `outs`, packed into few
    /// engine calls.
    template <detail::GivenReduction R = decltype(sum)>
    void reduce_scatter(const ConstBuffers& ins, const Buffers& outs, R = {},
                        const ListOptions& options = {}) {
        run_list({.operation = Op::reduce_scatter, .reduction = detail::reduction_of<R>()}, ins, outs,
                 options);
    }

    // Each start_ call begins the call of that name and returns a Pending at once. The buffers belong to the
    // Pending until wait() returns.

    /// Starts all_reduce.
    template <detail::Given In, detail::Given Out, detail::GivenReduction R = decltype(sum)>
    Pending start_all_reduce(In&& in, Out&& out, R r = {}) {
        return start(detail::reducing(Op::all_reduce, std::forward<In>(in), std::forward<Out>(out), r));
    }
    /// Starts all_reduce in place.
    template <detail::Given B, detail::IsReduction R = decltype(sum)>
    Pending start_all_reduce(B&& buffer, R r = {}) {
        return start(detail::reducing(Op::all_reduce, buffer, std::forward<B>(buffer), r));
    }
    /// Starts reduce.
    template <detail::Given In, detail::Given Out, detail::GivenReduction R>
    Pending start_reduce(In&& in, Out&& out, R r, Int root = 0) {
        return start(detail::reducing(Op::reduce, std::forward<In>(in), std::forward<Out>(out), r, root));
    }
    /// Starts reduce with sum.
    template <detail::Given In, detail::GivenNext Out>
    Pending start_reduce(In&& in, Out&& out, Int root = 0) {
        return start(detail::reducing(Op::reduce, std::forward<In>(in), std::forward<Out>(out), sum, root));
    }
    /// Starts reduce in place.
    template <detail::Given B, detail::IsReduction R = decltype(sum)>
    Pending start_reduce(B&& buffer, R r = {}, Int root = 0) {
        return start(detail::reducing(Op::reduce, buffer, std::forward<B>(buffer), r, root));
    }
    /// Starts reduce in place with sum.
    template <detail::Given B, detail::Integer N>
    Pending start_reduce(B&& buffer, N&& root) {
        const auto group_rank = detail::integer_behind<B, N>(root);
        return start(detail::reducing(Op::reduce, buffer, std::forward<B>(buffer), sum, group_rank));
    }
    /// Starts scan.
    template <detail::Given In, detail::Given Out, detail::GivenReduction R = decltype(sum)>
    Pending start_scan(In&& in, Out&& out, R r = {}) {
        return start(detail::scanning(Op::scan, std::forward<In>(in), std::forward<Out>(out), r));
    }
    /// Starts scan in place.
    template <detail::Given B, detail::IsReduction R = decltype(sum)>
    Pending start_scan(B&& buffer, R r = {}) {
        return start(detail::scanning(Op::scan, buffer, std::forward<B>(buffer), r));
    }
    /// Starts exclusive_scan.
    template <detail::Given In, detail::Given Out, detail::GivenReduction R = decltype(sum)>
    Pending start_exclusive_scan(In&& in, Out&& out, R r = {}) {
        return start(detail::scanning(Op::exclusive_scan, std::forward<In>(in), std::forward<Out>(out), r));
    }
    /// Starts exclusive_scan in place.
    template <detail::Given B, detail::IsReduction R = decltype(sum)>
    Pending start_exclusive_scan(B&& buffer, R r = {}) {
        return start(detail::scanning(Op::exclusive_scan, buffer, std::forward<B>(buffer), r));
    }
    /// Starts reduce_scatter.
    template <detail::Given In, detail::Given Out, detail::GivenReduction R = decltype(sum)>
    Pending start_reduce_scatter(In&& in, Out&& out, R r = {}) {
        return start(detail::reducing(Op::reduce_scatter, std::forward<In>(in), std::forward<Out>(out), r));
    }
    /// Starts reduce_scatter in place.
    template <detail::Given B, detail::IsReduction R = decltype(sum)>
    Pending start_reduce_scatter(B&& buffer, R r = {}) {
        return start(own_part(detail::reducing(Op::reduce_scatter, buffer, std::forward<B>(buffer), r)));
    }
    /// Starts broadcast.
    template <detail::Given B>
    Pending start_broadcast(B&& buffer, Int root = 0) {
        return start(detail::moving(Op::broadcast, buffer, std::forward<B>(buffer), root));
    }
    /// Starts all_gather.
    template <detail::Given In, detail::Given Out>
    Pending start_all_gather(In&& in, Out&& out) {
        return start(detail::moving(Op::all_gather, std::forward<In>(in), std::forward<Out>(out)));
    }
    /// Starts all_gather in place.
    template <detail::Given B>
    Pending start_all_gather(B&& buffer) {
        return start(own_part(detail::moving(Op::all_gather, buffer, std::forward<B>(buffer))));
    }
    /// Starts all_gather_v. Reads the counts before it returns.
    template <detail::Given In, detail::Given Out>
    Pending start_all_gather_v(In&& in, Out&& out, const detail::Counts& counts) {
        auto call = detail::moving(Op::all_gather_v, std::forward<In>(in), std::forward<Out>(out));
        return start(counted(std::move(call), counts, counts));
    }
    /// Starts gather.
    template <detail::Given In, detail::Given Out>
    Pending start_gather(In&& in, Out&& out, Int root = 0) {
        return start(detail::moving(Op::gather, std::forward<In>(in), std::forward<Out>(out), root));
    }
    /// Starts scatter.
    template <detail::Given In, detail::Given Out>
    Pending start_scatter(In&& in, Out&& out, Int root = 0) {
        return start(detail::moving(Op::scatter, std::forward<In>(in), std::forward<Out>(out), root));
    }
    /// Starts gather_v. Reads the counts before it returns.
    template <detail::Given In, detail::Given Out>
    Pending start_gather_v(In&& in, Out&& out, const detail::Counts& counts, Int root = 0) {
        auto call = detail::moving(Op::gather_v, std::forward<In>(in), std::forward<Out>(out), root);
        return start(counted_at_root(std::move(call), counts));
    }
    /// Starts scatter_v. Reads the counts before it returns.
    template <detail::Given In, detail::Given Out>
    Pending start_scatter_v(In&& in, const detail::Counts& counts, Out&& out, Int root = 0) {
        auto call = detail::moving(Op::scatter_v, std::forward<In>(in), std::forward<Out>(out), root);
        return start(counted_at_root(std::move(call), counts));
    }
    /// Starts all_to_all.
    template <detail::Given In, detail::Given Out>
    Pending start_all_to_all(In&& in, Out&& out) {
        return start(detail::moving(Op::all_to_all, std::forward<In>(in), std::forward<Out>(out)));
    }
    /// Starts all_to_all in place.
    template <detail::Given B>
    Pending start_all_to_all(B&& buffer) {
        return start(detail::moving(Op::all_to_all, buffer, std::forward<B>(buffer)));
    }
    /// Starts all_to_all_v. Reads the counts before it returns.
    template <detail::Given In, detail::Given Out>
    Pending start_all_to_all_v(In&& in, const detail::Counts& in_counts, Out&& out,
                               const detail::Counts& out_counts) {
        auto call = detail::moving(Op::all_to_all_v, std::forward<In>(in), std::forward<Out>(out));
        return start(counted(std::move(call), in_counts, out_counts));
    }
    /// Starts shift.
    template <detail::Given In, detail::Given Out>
    Pending start_shift(In&& in, Out&& out, Int distance, Edge edge = Edge::wrap) {
        return start(detail::moving(Op::shift, std::forward<In>(in), std::forward<Out>(out), distance, edge));
    }
    /// Starts shift by 1.
    template <detail::Given In, detail::GivenNext Out>
    Pending start_shift(In&& in, Out&& out) {
        return start(detail::moving(Op::shift, std::forward<In>(in), std::forward<Out>(out), 1, Edge::wrap));
    }
    /// Starts shift in place.
    template <detail::Given B, detail::Integer N>
    Pending start_shift(B&& buffer, N&& distance, Edge edge = Edge::wrap) {
        const auto by = detail::integer_behind<B, N>(distance);
        return start(detail::moving(Op::shift, buffer, std::forward<B>(buffer), by, edge));
    }
    /// Starts barrier.
    Pending start_barrier() { return start({}); }
    /// Starts monitored_barrier.
    Pending start_monitored_barrier() { return host().start({.operation = Op::monitored_barrier}); }
    /// Starts send.
    template <detail::Given In>
    Pending start_send(In&& in, Int to, Tag tag = 0) {
        return start(detail::sending(std::forward<In>(in), to, tag));
    }
    /// Starts recv.
    template <detail::Given Out>
    Pending start_recv(Out&& out, Int from, Tag tag = 0) {
        return start(detail::receiving(std::forward<Out>(out), from, tag));
    }
    /// Starts recv of any rank; Pending::sender() says whose message was received.
    template <detail::Given Out>
    Pending start_recv(Out&& out, AnyRank, Tag tag = 0) {
        return start(detail::receiving(std::forward<Out>(out), detail::any_source, tag));
    }
    /// Starts send_recv.
    template <detail::Given In, detail::Given Out>
    Pending start_send_recv(In&& in, Int to, Out&& out, Int from, Tag tag = 0) {
        return start(detail::exchanging(std::forward<In>(in), to, std::forward<Out>(out), from, tag));
    }
    /// Starts batch.
    template <std::invocable Body>
    Pending start_batch(Body&& body) {
        const auto state = begin_batch();
        collect(body, *state);
        return start_batch(state);
    }
    /// Starts broadcast_object: waits for the length, then starts to copy the content.
    template <detail::Resizable Container>
    Pending start_broadcast_object(Container& object, Int root = 0) {
        auto on_host = host();
        auto length = static_cast<std::uint64_t>(object.size());
        on_host.broadcast(length, root);
        if (object.size() != length) object.resize(length);
        return on_host.start_broadcast(object, root);
    }
    /// Starts all_reduce of a list.
    template <detail::GivenReduction R = decltype(sum)>
    Pending start_all_reduce(const Buffers& list, R = {}, const ListOptions& options = {}) {
        return start_list({.operation = Op::all_reduce, .reduction = detail::reduction_of<R>()}, list, list,
                          options);
    }
    /// Starts broadcast of a list.
    Pending start_broadcast(const Buffers& list, Int root = 0, const ListOptions& options = {}) {
        return start_list({.operation = Op::broadcast, .argument = root}, list, list, options);
    }
    /// Starts all_gather of a list.
    Pending start_all_gather(const ConstBuffers& ins, const Buffers& outs, const ListOptions& options = {}) {
        return start_list({.operation = Op::all_gather}, ins, outs, options);
    }
    /// Starts reduce_scatter of a list.
    template <detail::GivenReduction R = decltype(sum)>
    Pending start_reduce_scatter(const ConstBuffers& ins, const Buffers& outs, R = {},
                                 const ListOptions& options = {}) {
        return start_list({.operation = Op::reduce_scatter, .reduction = detail::reduction_of<R>()}, ins,
                          outs, options);
    }

private:
    friend class Member;
    friend struct detail::Access;
    using Op = detail::Operation;
    explicit Communicator(std::shared_ptr<detail::CommunicatorState> state) : state_(std::move(state)) {}

    // Each of these completes `call`, with counts or with this rank's own part as input or output, and
    // returns `call`.
    const detail::Call& counted(detail::Call&& call, const detail::Counts& in_counts,
                                const detail::Counts& out_counts) const;
    const detail::Call& counted_at_root(detail::Call&& call, const detail::Counts& counts) const;
    const detail::Call& own_part(detail::Call&& call) const;
    const detail::StridedCall& counted(detail::StridedCall&& call, const detail::Counts& in_counts,
                                       const detail::Counts& out_counts) const {
        (void)counted(static_cast<detail::Call&&>(call), in_counts, out_counts);
        return call;
    }
    const detail::StridedCall& counted_at_root(detail::StridedCall&& call,
                                               const detail::Counts& counts) const {
        (void)counted_at_root(static_cast<detail::Call&&>(call), counts);
        return call;
    }
    const detail::StridedCall& own_part(detail::StridedCall&& call) const {
        call.own_part = true;
        return call;
    }

    /// Returns the same group on the host engine. Throws UsageError if `peer` is this rank.
    Communicator for_object(std::string_view call, int peer) const;

    // These take the state instead of `this`, because the body may move from this communicator.
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
    static std::vector<detail::Call> collected(detail::CommunicatorState& state,
                                               std::unique_ptr<detail::Staged>& staged);
    static void run_batch(const std::shared_ptr<detail::CommunicatorState>& state);
    static Pending start_batch(const std::shared_ptr<detail::CommunicatorState>& state);

    /// Returns the sum of `x`, or of the products of `x` and `y` where `y` is given, rounded to the type of
    /// `x`.
    double sum_reproducibly(const detail::AnyBuffer<const void>& x,
                            const std::optional<detail::AnyBuffer<const void>>& y,
                            const detail::MemoryLayout& x_layout = {},
                            const detail::MemoryLayout& y_layout = {}) const;

    void run(const detail::Call& call);
    void run(const detail::StridedCall& call);
    int run_from_any(const detail::Call& call);
    int run_from_any(const detail::StridedCall& call);
    std::optional<Message> run_probe(int from, Tag tag, bool waits);
    Pending start(const detail::Call& call);
    Pending start(const detail::StridedCall& call);
    Pending start_list(const detail::Call& like, const ConstBuffers& ins, const Buffers& outs,
                       const ListOptions& options);
    void run_list(const detail::Call& like, const ConstBuffers& ins, const Buffers& outs,
                  const ListOptions& options);
    detail::CommunicatorState& state() const;

    std::shared_ptr<detail::CommunicatorState> state_;  // null: moved from
};

}  // namespace rankmesh
