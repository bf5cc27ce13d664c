// SPDX-License-Identifier: Apache-2.0
// The calls of MPI that make up one operation.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/arithmetic.hpp"
#include "engine/combine.hpp"
#include "engine/mpi/channel.hpp"
#include "engine/mpi/large_type.hpp"
#include "engine/mpi/monitored_barrier.hpp"
#include "engine/mpi/tags.hpp"
#include "engine/mpi/types.hpp"

namespace rankmesh::detail {
namespace {

char* offset(void* data, std::size_t elements, DType dtype) {
    return static_cast<char*>(data) + elements * size_of(dtype);
}
const char* offset(const void* data, std::size_t elements, DType dtype) {
    return static_cast<const char*>(data) + elements * size_of(dtype);
}

/// The elements that go from one rank to one other in one call.
std::size_t part_of(const Call& call, int size) {
    const auto& operation = traits(call.operation);
    if (call.operation == Operation::send_recv) return std::max(call.in_count, call.out_count);
    if (operation.in_parts && operation.out_parts) return call.in_count / static_cast<std::size_t>(size);
    return operation.in_parts ? call.out_count : common_length(call);
}

/// The input of an operation: MPI_IN_PLACE where input and output are one buffer.
const void* in_or_in_place(const Call& call, int rank) {
    return is_in_place(call, rank) && writes(call, rank) ? MPI_IN_PLACE : call.in;
}

/// The buffer of an in-place reduce_scatter, in whose first part MPI leaves the result.
void* whole(const Call& call) { return const_cast<void*>(call.in); }

/// Calls `body(count, type)` with a type for moving in which `count` elements of `dtype` fit an int.
template <class Body>
void moving(std::size_t count, DType dtype, Body&& body) {
    if (count > mpi_count_limit)
        body(1, LargeType(count, type_of(dtype), size_of(dtype)));
    else
        body(static_cast<int>(count), type_of(dtype));
}

/// Calls `body(offset, count)` for pieces of at most the count limit.
template <class Body>
void in_pieces(std::size_t count, Body&& body) {
    for (std::size_t done = 0; done < count; done += mpi_count_limit)
        body(done, static_cast<int>(std::min(mpi_count_limit, count - done)));
}

}  // namespace

/// True if every count and displacement of one call is an int.
bool MpiChannel::fits(const Call& call, std::size_t part) const {
    return (call.operation == Operation::all_gather_v ? call.out_count : part) <= mpi_count_limit;
}

void MpiChannel::fill(const Call& call, Parts& parts) const {
    const auto n = static_cast<std::size_t>(size_);
    parts.counts.resize(n);
    parts.offsets.resize(n);
    auto at = 0;
    for (std::size_t i = 0; i < n; ++i) {
        parts.offsets[i] = at;
        at += parts.counts[i] = static_cast<int>(call.out_counts[i] * call.unit);
    }
}

/// Where a blocking reduce reads: a copy at a root in place that is not the first rank of MPICH, whose
/// MPI_Reduce crashes there (its issue 6540, in 4.0.2 and 4.1.1).
const void* MpiChannel::in_of_reduce(const Call& call) {
    const auto* in = in_or_in_place(call, rank_);
#ifdef MPICH_VERSION
    if (in == MPI_IN_PLACE && rank_ != 0) {
        const auto* data = static_cast<const char*>(call.in);
        held_.assign(data, data + call.in_bytes());
        in = held_.data();
    }
#endif
    return in;
}

void MpiChannel::run(const Call& call, const Label& label, Duration timeout) {
    // An operation that is not one blocking MPI call is started and waited for.
    const auto part = part_of(call, size_);
    if (!fits(call, part) || call.operation == Operation::monitored_barrier ||
        call.operation == Operation::all_to_all_v || call.operation == Operation::gather_v ||
        call.operation == Operation::scatter_v || (needs_all(call.reduction) && !is_in_two_steps(call)))
        return wait(start({&call, 1}, label), label, timeout);
    runtime_->check_thread();
    cause_->clear();
    const auto number = number_of(call, false);
    const auto watched = InFlight(flight_, call, label, timeout, number);
    if (!is_point_to_point(call.operation)) compare(call, number, label);
    if (reduces(call.operation)) return reduce_now(call, part);
    const auto count = static_cast<int>(part);
    const auto type = type_of(call.dtype);
    switch (call.operation) {
        case Operation::broadcast:
            MPI_Bcast(call.out, count, type, call.argument, comm_);
            break;
        case Operation::all_gather:
            MPI_Allgather(in_or_in_place(call, rank_), count, type, call.out, count, type, comm_);
            break;
        case Operation::all_gather_v:
            fill(call, parts_);
            MPI_Allgatherv(call.in, count, type, call.out, parts_.counts.data(), parts_.offsets.data(), type,
                           comm_);
            break;
        case Operation::gather:
            MPI_Gather(call.in, count, type, call.out, count, type, call.argument, comm_);
            break;
        case Operation::scatter:
            MPI_Scatter(call.in, count, type, call.out, count, type, call.argument, comm_);
            break;
        case Operation::all_to_all:
            MPI_Alltoall(in_or_in_place(call, rank_), count, type, call.out, count, type, comm_);
            break;
        case Operation::shift: {
            const auto returns = ReturnsErrors();
            auto status = MPI_Status{};
            const auto to = target_of(call);
            const auto from = source_of(call);
            const auto code = call.in == call.out
                                  ? MPI_Sendrecv_replace(call.out, count, type, to, shift_tag, from,
                                                         shift_tag, comm_, &status)
                                  : MPI_Sendrecv(call.in, count, type, to, shift_tag, call.out, count, type,
                                                 from, shift_tag, comm_, &status);
            check_length(call, number, label, status, code, part, from);
            break;
        }
        case Operation::barrier:
            MPI_Barrier(comm_);
            break;
        case Operation::send:
            MPI_Send(call.in, count, type, call.argument, message_tag(call), comm_);
            break;
        case Operation::recv: {
            const auto returns = ReturnsErrors();
            auto status = MPI_Status{};
            const auto code =
                MPI_Recv(call.out, count, type, peer(call.argument), message_tag(call), comm_, &status);
            check_length(call, number, label, status, code, part, status.MPI_SOURCE);
            if (call.argument == any_source) set_sender(status.MPI_SOURCE);
            break;
        }
        case Operation::send_recv: {
            const auto returns = ReturnsErrors();
            auto status = MPI_Status{};
            const auto code = MPI_Sendrecv(call.in, static_cast<int>(call.in_count), type, call.argument,
                                           message_tag(call), call.out, static_cast<int>(call.out_count),
                                           type, call.source, message_tag(call), comm_, &status);
            check_length(call, number, label, status, code, call.out_count, call.source);
            break;
        }
        default:
            break;
    }
}

/// Reduces `part` elements by one blocking MPI call, or by two if all inputs are needed at once.
void MpiChannel::reduce_now(const Call& call, std::size_t part) {
    if (needs_all(call.reduction)) return reduce_in_two_steps(call);
    const auto [type, op, unit] = reduced_of(call);
    const auto count = static_cast<int>(part / unit);
    switch (call.operation) {
        case Operation::all_reduce:
            MPI_Allreduce(in_or_in_place(call, rank_), call.out, count, type, op, comm_);
            break;
        case Operation::reduce:
            MPI_Reduce(in_of_reduce(call), call.out, count, type, op, call.argument, comm_);
            break;
        case Operation::scan:
            MPI_Scan(in_or_in_place(call, rank_), call.out, count, type, op, comm_);
            break;
        case Operation::exclusive_scan:
            MPI_Exscan(in_or_in_place(call, rank_), call.out, count, type, op, comm_);
            break;
        case Operation::reduce_scatter:
            if (is_in_place(call, rank_))
                MPI_Reduce_scatter_block(MPI_IN_PLACE, whole(call), count, type, op, comm_);
            else
                MPI_Reduce_scatter_block(call.in, call.out, count, type, op, comm_);
            break;
        default:
            break;
    }
    finish(call);
}

void MpiChannel::post(Started& started, Slot& slot) {
    auto& call = started.call;
    auto& requests = slot.requests;
    const auto next = [&] { return &requests.emplace_back(MPI_REQUEST_NULL); };
    const auto element = type_of(call.dtype);
    if (reduces(call.operation))
        return needs_all(call.reduction) ? post_gathering(started, slot) : post_reduction(call, slot);
    const auto in_place = call.in == call.out &&
                          (call.operation == Operation::all_to_all || call.operation == Operation::shift);
    if (in_place) {
        started.held.assign(offset(call.in, 0, call.dtype), offset(call.in, call.in_count, call.dtype));
        call.in = started.held.data();
    }
    const auto part = part_of(call, size_);
    const auto moves = [&](std::size_t count, auto&& body) { moving(count, call.dtype, body); };
    switch (call.operation) {
        case Operation::broadcast:
            moves(part, [&](int count, MPI_Datatype type) {
                MPI_Ibcast(call.out, count, type, call.argument, comm_, next());
            });
            break;
        case Operation::all_gather:
            moves(part, [&](int count, MPI_Datatype type) {
                MPI_Iallgather(in_or_in_place(call, rank_), count, type, call.out, count, type, comm_,
                               next());
            });
            break;
        case Operation::gather:
            moves(part, [&](int count, MPI_Datatype type) {
                MPI_Igather(call.in, count, type, call.out, count, type, call.argument, comm_, next());
            });
            break;
        case Operation::scatter:
            moves(part, [&](int count, MPI_Datatype type) {
                MPI_Iscatter(call.in, count, type, call.out, count, type, call.argument, comm_, next());
            });
            break;
        case Operation::all_to_all:
            moves(part, [&](int count, MPI_Datatype type) {
                MPI_Ialltoall(call.in, count, type, call.out, count, type, comm_, next());
            });
            break;
        case Operation::all_gather_v:
            if (!fits(call, part)) return post_parts(call, slot);
            fill(call, started.parts);
            MPI_Iallgatherv(call.in, static_cast<int>(part), element, call.out, started.parts.counts.data(),
                            started.parts.offsets.data(), element, comm_, next());
            break;
        case Operation::all_to_all_v:
        case Operation::gather_v:
        case Operation::scatter_v:
            post_parts(call, slot);
            break;
        case Operation::shift:
            moves(part, [&](int count, MPI_Datatype type) {
                expect(slot, part, peers_of(call, rank_, size_).from);
                MPI_Irecv(call.out, count, type, source_of(call), shift_tag, comm_, next());
                MPI_Isend(call.in, count, type, target_of(call), shift_tag, comm_, next());
            });
            break;
        case Operation::barrier:
            MPI_Ibarrier(comm_, next());
            break;
        case Operation::send:
        case Operation::recv:
        case Operation::send_recv:
            if (call.operation != Operation::send)
                moves(call.out_count, [&](int count, MPI_Datatype type) {
                    expect(slot, call.out_count, peers_of(call, rank_, size_).from);
                    MPI_Irecv(call.out, count, type, source_of(call), message_tag(call), comm_, next());
                });
            if (call.operation != Operation::recv)
                moves(call.in_count, [&](int count, MPI_Datatype type) {
                    const auto send = is_sparse(call.tag) ? MPI_Issend : MPI_Isend;
                    send(call.in, count, type, call.argument, message_tag(call), comm_, next());
                });
            break;
        case Operation::monitored_barrier:
            post_arrival(comm_, requests);
            break;
        default:
            break;
    }
}

/// Posts a reduction, in pieces whose lengths fit an int.
void MpiChannel::post_reduction(const Call& call, Slot& slot) {
    const auto [type, op, unit] = reduced_of(call);
    const auto next = [&] { return &slot.requests.emplace_back(MPI_REQUEST_NULL); };
    const auto part = part_of(call, size_) / unit;
    const auto width = unit;  // for the lambdas
    const auto in_at = [&](std::size_t at) -> const void* {
        return call.in == call.out ? MPI_IN_PLACE : offset(call.in, at * width, call.dtype);
    };
    const auto out_at = [&](std::size_t at) { return offset(call.out, at * width, call.dtype); };
    const auto reduce_piece = [&, type = type, op = op](std::size_t in, std::size_t at, int count, int root) {
        auto* to = root == rank_ ? out_at(at) : nullptr;
        const void* from = offset(call.in, (in + at) * width, call.dtype);
        MPI_Ireduce(from == to ? MPI_IN_PLACE : from, to, count, type, op, root, comm_, next());
    };
    in_pieces(call.operation == Operation::reduce_scatter ? 0 : part,
              [&, type = type, op = op](std::size_t at, int count) {
                  if (call.operation == Operation::all_reduce)
                      MPI_Iallreduce(in_at(at), out_at(at), count, type, op, comm_, next());
                  else if (call.operation == Operation::reduce)
                      reduce_piece(0, at, count, call.argument);
                  else if (call.operation == Operation::scan)
                      MPI_Iscan(in_at(at), out_at(at), count, type, op, comm_, next());
                  else
                      MPI_Iexscan(in_at(at), out_at(at), count, type, op, comm_, next());
              });
    if (call.operation != Operation::reduce_scatter) return;
    if (part <= mpi_count_limit) {
        const auto own = is_in_place(call, rank_);
        MPI_Ireduce_scatter_block(own ? MPI_IN_PLACE : call.in, own ? whole(call) : call.out,
                                  static_cast<int>(part), type, op, comm_, next());
        return;
    }
    // A piece of every part is not contiguous, so each part is reduced to its owner separately.
    for (int root = 0; root < size_; ++root)
        in_pieces(part, [&](std::size_t at, int count) {
            reduce_piece(static_cast<std::size_t>(root) * part, at, count, root);
        });
}

/// Posts a v-operation as one message each way a member; empty parts are not sent.
///
/// An all_to_all_v, a gather_v and a scatter_v are always done this way: only one rank may know that its
/// counts do not fit an int, and it cannot choose another MPI operation than the others.
void MpiChannel::post_parts(const Call& call, Slot& slot) {
    auto& requests = slot.requests;
    const auto n = static_cast<std::size_t>(size_);
    const auto own = static_cast<std::size_t>(rank_);
    const auto gathers = call.operation == Operation::all_gather_v || call.operation == Operation::gather_v;
    auto* own_out = call.out;
    auto at = std::size_t{0};
    for (std::size_t i = 0; i < n; ++i) {
        const auto count = expected_from(call, static_cast<int>(i));
        auto* out = offset(call.out, at, call.dtype);
        at += count;
        if (i == own)
            own_out = out;
        else if (count > 0)
            moving(count, call.dtype, [&](int number, MPI_Datatype type) {
                expect(slot, count, static_cast<int>(i));
                MPI_Irecv(out, number, type, static_cast<int>(i), part_tag, comm_,
                          &requests.emplace_back(MPI_REQUEST_NULL));
            });
    }
    // Each rank sends to the ranks after it first, so that not all send to the same one.
    at = gathers || !call.in_counts
             ? 0
             : std::accumulate(call.in_counts, call.in_counts + own, std::size_t{0}) * call.unit;
    for (std::size_t step = 0, i = own; step < n; ++step) {
        const auto count = given_to(call, static_cast<int>(i));
        const auto* in = offset(call.in, at, call.dtype);
        if (!gathers) at += count;
        if (i == own && count > 0)
            std::memcpy(own_out, in, count * size_of(call.dtype));
        else if (count > 0)
            moving(count, call.dtype, [&](int number, MPI_Datatype type) {
                MPI_Isend(in, number, type, static_cast<int>(i), part_tag, comm_,
                          &requests.emplace_back(MPI_REQUEST_NULL));
            });
        if (++i == n) i = 0, at = 0;
    }
}

/// The next request receives so many elements.
void MpiChannel::expect(Slot& slot, std::size_t count, int from) const {
    if (from >= 0 || from == any_source)
        slot.receives.push_back({slot.requests.size(), count, from, slot.calls - 1});
}

/// Finishes a reduction locally: moves the result of an in-place reduce_scatter to its part, divides a mean,
/// and makes logical values of a scan 0 or 1.
void MpiChannel::finish(const Call& call) const {
    if (call.operation == Operation::reduce_scatter &&
        call.out_count / (call.function ? call.unit : 1) <= mpi_count_limit && is_in_place(call, rank_) &&
        call.out_count > 0 && rank_ > 0)
        std::memmove(call.out, call.in, call.out_bytes());
    // A logical result is 0 or 1 also for a single rank.
    if (call.operation == Operation::scan && rank_ == 0) make_logical(call);
    if (call.operation == Operation::exclusive_scan && rank_ == 0) fill_with_nothing(call);
    if (call.operation == Operation::exclusive_scan && rank_ == 1) make_logical(call);
    if (call.reduction == Reduction::mean && writes(call, rank_))
        divide(call.dtype, call.out, call.out_count, size_);
}

}  // namespace rankmesh::detail
