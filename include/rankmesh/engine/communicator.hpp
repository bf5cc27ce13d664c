// SPDX-License-Identifier: Apache-2.0
// Communicator, a group of ranks with its collectives and messages.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/operations.hpp>

namespace rankmesh {

namespace detail {
struct Access;
}  // namespace detail

class Starting;

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
/// `start()` has the same operations, which return a Pending at once. The buffers must not be used until
/// Pending::wait() has returned.
///
///     void step(Communicator& tp, std::vector<float>& partial) { tp.all_reduce(partial, sum); }
class RANKMESH_EXPORT Communicator : public Operations<Communicator, void> {
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
    /// Returns the operations of this communicator that return a Pending at once:
    /// `dp.start().all_reduce(grads)`.
    Starting start() const;

    /// Returns the sum of all elements of all ranks' `in`, which differ in length: exact, then rounded once,
    /// so the same bits on every engine and however the elements are spread over the ranks. Complex numbers
    /// are not supported. `in` is in host memory, on a device's communicator too. Costs one all_reduce of 73
    /// i64, on the host engine.
    ///
    ///     void norm(Communicator& dp, const std::vector<double>& r, double& squared) {
    ///         squared = dp.reproducible_dot(r, r);
    ///     }
    template <detail::BufferArgument In>
    auto reproducible_sum(const In& in) {
        return detail::summed<In, In>([&](auto what) {
            return sum_reproducibly(detail::any_buffer<const void>(in, what), {}, detail::layout_of(in));
        });
    }
    /// Returns the scalar product of all ranks' `x` and `y` in the same way: the exact sum of the products,
    /// each rounded to double, rounded once. `x` and `y` have the same length on this rank.
    template <detail::BufferArgument X, detail::BufferArgument Y>
    auto reproducible_dot(const X& x, const Y& y) {
        return detail::summed<X, Y>([&](auto what) {
            return sum_reproducibly(detail::any_buffer<const void>(x, what),
                                    detail::any_buffer<const void>(y, what), detail::layout_of(x),
                                    detail::layout_of(y));
        });
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
        on_host.start(detail::sending(length, to, 0)).wait();  // started: a batch would defer a send
        on_host.start(detail::sending(object, to, 0)).wait();
    }
    /// Receives what group rank `from` sends with send_object and resizes `object` to its length.
    template <detail::Resizable Container>
    void recv_object(Container& object, Int from) {
        auto on_host = for_object("recv_object", from);
        auto length = std::uint64_t{0};
        on_host.start(detail::receiving(length, from, 0)).wait();
        if (object.size() != length) object.resize(length);
        on_host.start(detail::receiving(object, from, 0)).wait();
    }

private:
    friend class Member;
    friend class Starting;
    friend struct detail::Access;
    template <class, class>
    friend class Operations;
    explicit Communicator(std::shared_ptr<detail::CommunicatorState> state) : state_(std::move(state)) {}

    Communicator& communicator() { return *this; }

    // Each of these completes `call`, with counts or with this rank's own part as input or output.
    void set_counts(detail::Call& call, const detail::Counts& in_counts,
                    const detail::Counts& out_counts) const;
    void set_counts_at_root(detail::Call& call, const detail::Counts& counts) const;
    void take_own_part(detail::Call& call) const;
    void take_own_part(detail::StridedCall& call) const { call.own_part = true; }

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
    static void perform_batch(const std::shared_ptr<detail::CommunicatorState>& state);
    static Pending start_batch(const std::shared_ptr<detail::CommunicatorState>& state);

    /// Returns the sum of `x`, or of the products of `x` and `y` where `y` is given, rounded to the type of
    /// `x`.
    double sum_reproducibly(const detail::AnyBuffer<const void>& x,
                            const std::optional<detail::AnyBuffer<const void>>& y,
                            const detail::MemoryLayout& x_layout = {},
                            const detail::MemoryLayout& y_layout = {}) const;

    void perform(const detail::Call& call);
    void perform(const detail::StridedCall& call);
    int perform_from_any(const detail::Call& call);
    int perform_from_any(const detail::StridedCall& call);
    std::optional<Message> run_probe(int from, Tag tag, bool waits);
    Pending start(const detail::Call& call);
    Pending start(const detail::StridedCall& call);
    Pending start_list(const detail::Call& like, const ConstBuffers& ins, const Buffers& outs,
                       const ListOptions& options);
    void perform_list(const detail::Call& like, const ConstBuffers& ins, const Buffers& outs,
                      const ListOptions& options);
    detail::CommunicatorState& state() const;

    std::shared_ptr<detail::CommunicatorState> state_;  // null: moved from
};

/// The operations of a communicator, started: each returns a Pending at once. The buffers belong to the
/// Pending until wait() returns. Counts are read before the operation returns.
///
///     void overlap(Communicator& dp, std::vector<float>& grads, const std::function<void()>& work) {
///         auto sum = dp.start().all_reduce(grads);
///         work();
///         sum.wait();
///     }
class Starting : public Operations<Starting, Pending> {
private:
    friend class Communicator;
    template <class, class>
    friend class Operations;
    explicit Starting(Communicator on) : on_(std::move(on)) {}

    Communicator& communicator() { return on_; }
    Starting host() const { return Starting(on_.host()); }
    Pending perform(const auto& call) { return on_.start(call); }
    Pending perform_from_any(const auto& call) { return on_.start(call); }
    static Pending perform_batch(const std::shared_ptr<detail::CommunicatorState>& state) {
        return Communicator::start_batch(state);
    }
    Pending perform_list(const detail::Call& like, const ConstBuffers& ins, const Buffers& outs,
                         const ListOptions& options) {
        return on_.start_list(like, ins, outs, options);
    }

    Communicator on_;
};

inline Starting Communicator::start() const { return Starting(Communicator(state_)); }

}  // namespace rankmesh
