// SPDX-License-Identifier: Apache-2.0
// The calls of MPI that make up one operation.
#include <numeric>

#include "engine/arithmetic.hpp"
#include "engine/combine.hpp"
#include "engine/mpi/channel.hpp"
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

/// True for an operation that is one blocking call of MPI, or two.
bool MpiChannel::is_one_call(const Call& call) const {
    const auto counts = traits(call.operation).counts && call.operation != Operation::all_gather_v;
    return call.operation != Operation::monitored_barrier && !counts && fits(call, part_of(call, size_)) &&
           (!needs_all(call.reduction) || is_in_two_steps(call));
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

/// Runs an operation that is one blocking call of MPI, or two.
void MpiChannel::run_now(const Call& call, std::uint64_t number, const Label& label) {
    const auto part = part_of(call, size_);
    const auto count = static_cast<int>(part);
    if (call.operation == Operation::shift || is_point_to_point(call.operation))
        return move_now(call, number, label);
    if (!reduces(call.operation)) return collect(call, parts_, MpiCalls(), count, type_of(call.dtype));
    if (needs_all(call.reduction)) return reduce_in_two_steps(call);
    reduce(call, MpiCalls());
    finish(call);
}

/// Sends and receives the messages of an operation, blocking.
void MpiChannel::move_now(const Call& call, std::uint64_t number, const Label& label) {
    const auto in_count = static_cast<int>(call.in_count);
    const auto out_count = static_cast<int>(call.out_count);
    const auto type = type_of(call.dtype);
    const auto tag = call.operation == Operation::shift ? shift_tag : message_tag(call);
    if (call.operation == Operation::send) {
        MPI_Send(call.in, in_count, type, call.argument, tag, comm_);
        return;
    }
    const auto returns = ReturnsErrors();
    auto status = MPI_Status{};
    auto code = MPI_SUCCESS;
    const auto to = target_of(call);
    const auto from = source_of(call);
    if (call.operation == Operation::recv)
        code = MPI_Recv(call.out, out_count, type, from, tag, comm_, &status);
    else if (call.operation == Operation::shift && call.in == call.out)
        code = MPI_Sendrecv_replace(call.out, out_count, type, to, tag, from, tag, comm_, &status);
    else
        code = MPI_Sendrecv(call.in, in_count, type, to, tag, call.out, out_count, type, from, tag, comm_,
                            &status);
    const auto is_any = from == MPI_ANY_SOURCE;
    check_length(call, number, label, status, code, call.out_count, is_any ? status.MPI_SOURCE : from);
    if (is_any) set_sender(status.MPI_SOURCE);
}

/// A collective that only moves elements, or none: `count` of `type` between two ranks.
void MpiChannel::collect(const Call& call, Parts& parts, const MpiCalls& mpi, int count, MPI_Datatype type) {
    switch (call.operation) {
        case Operation::broadcast:
            return mpi(MPI_Bcast, MPI_Ibcast, call.out, count, type, call.argument, comm_);
        case Operation::all_gather:
            return mpi(MPI_Allgather, MPI_Iallgather, in_or_in_place(call, rank_), count, type, call.out,
                       count, type, comm_);
        case Operation::all_gather_v:
            fill(call, parts);
            return mpi(MPI_Allgatherv, MPI_Iallgatherv, call.in, count, type, call.out, parts.counts.data(),
                       parts.offsets.data(), type, comm_);
        case Operation::gather:
            return mpi(MPI_Gather, MPI_Igather, call.in, count, type, call.out, count, type, call.argument,
                       comm_);
        case Operation::scatter:
            return mpi(MPI_Scatter, MPI_Iscatter, call.in, count, type, call.out, count, type, call.argument,
                       comm_);
        case Operation::all_to_all:
            return mpi(MPI_Alltoall, MPI_Ialltoall, in_or_in_place(call, rank_), count, type, call.out, count,
                       type, comm_);
        default:
            return mpi(MPI_Barrier, MPI_Ibarrier, comm_);
    }
}

void MpiChannel::post(Started& started, Slot& slot) {
    auto& call = started.call;
    if (reduces(call.operation))
        return needs_all(call.reduction) ? post_gathering(started, slot)
                                         : reduce(call, MpiCalls(&slot.requests));
    const auto in_place = call.in == call.out &&
                          (call.operation == Operation::all_to_all || call.operation == Operation::shift);
    if (in_place) {
        started.held.assign(offset(call.in, 0, call.dtype), offset(call.in, call.in_count, call.dtype));
        call.in = started.held.data();
    }
    if (call.operation == Operation::shift || is_point_to_point(call.operation))
        return post_moves(call, slot);
    if (call.operation == Operation::monitored_barrier) return post_arrival(comm_, slot.requests);
    const auto part = part_of(call, size_);
    if (traits(call.operation).counts && !(call.operation == Operation::all_gather_v && fits(call, part)))
        return post_parts(call, slot);
    moving(part, call.dtype, [&](int count, MPI_Datatype type) {
        collect(call, started.parts, MpiCalls(&slot.requests), count, type);
    });
}

/// Posts the messages of an operation.
void MpiChannel::post_moves(const Call& call, Slot& slot) {
    const auto tag = call.operation == Operation::shift ? shift_tag : message_tag(call);
    const auto next = [&] { return &slot.requests.emplace_back(MPI_REQUEST_NULL); };
    if (call.operation != Operation::send)
        moving(call.out_count, call.dtype, [&](int count, MPI_Datatype type) {
            expect(slot, call.out_count, peers_of(call, rank_, size_).from);
            MPI_Irecv(call.out, count, type, source_of(call), tag, comm_, next());
        });
    if (call.operation != Operation::recv)
        moving(call.in_count, call.dtype, [&](int count, MPI_Datatype type) {
            const auto send = is_sparse(call.tag) ? MPI_Issend : MPI_Isend;
            send(call.in, count, type, target_of(call), tag, comm_, next());
        });
}

/// Reduces, in pieces whose lengths fit an int; a blocking call has one.
void MpiChannel::reduce(const Call& call, const MpiCalls& mpi) {
    const auto reduced = reduced_of(call);
    const auto type = reduced.type;
    const auto op = reduced.op;
    const auto part = part_of(call, size_) / reduced.unit;
    const auto in_at = [&](std::size_t at) -> const void* {
        return call.in == call.out ? MPI_IN_PLACE : offset(call.in, at * reduced.unit, call.dtype);
    };
    const auto out_at = [&](std::size_t at) { return offset(call.out, at * reduced.unit, call.dtype); };
    const auto reduce_to = [&](int root, std::size_t in, std::size_t at, int count) {
        auto* to = root == rank_ ? out_at(at) : nullptr;
        const void* from = offset(call.in, (in + at) * reduced.unit, call.dtype);
        if (from == to) from = mpi.starts() ? MPI_IN_PLACE : in_of_reduce(call);
        mpi(MPI_Reduce, MPI_Ireduce, from, to, count, type, op, root, comm_);
    };
    if (call.operation != Operation::reduce_scatter)
        return in_pieces(part, [&](std::size_t at, int count) {
            if (call.operation == Operation::all_reduce)
                mpi(MPI_Allreduce, MPI_Iallreduce, in_at(at), out_at(at), count, type, op, comm_);
            else if (call.operation == Operation::reduce)
                reduce_to(call.argument, 0, at, count);
            else if (call.operation == Operation::scan)
                mpi(MPI_Scan, MPI_Iscan, in_at(at), out_at(at), count, type, op, comm_);
            else
                mpi(MPI_Exscan, MPI_Iexscan, in_at(at), out_at(at), count, type, op, comm_);
        });
    if (part <= mpi_count_limit) {
        const auto own = is_in_place(call, rank_);
        return mpi(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, own ? MPI_IN_PLACE : call.in,
                   own ? whole(call) : call.out, static_cast<int>(part), type, op, comm_);
    }
    // A piece of every part is not contiguous, so each part is reduced to its owner separately.
    for (int root = 0; root < size_; ++root)
        in_pieces(part, [&](std::size_t at, int count) {
            reduce_to(root, static_cast<std::size_t>(root) * part, at, count);
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
