// SPDX-License-Identifier: Apache-2.0
#include "engine/mpi/channel.hpp"

#include <algorithm>

#include "engine/arithmetic.hpp"
#include "engine/mpi/types.hpp"

namespace rankmesh::detail {
namespace {

constexpr int shift_tag = 0;

const void* in_or_in_place(const Call& call) { return call.in == call.out ? MPI_IN_PLACE : call.in; }

/// The elements that go from one rank to one other in one call.
std::size_t part_of(const Call& call, int size) {
    if (call.operation == Operation::all_to_all) return call.in_count / static_cast<std::size_t>(size);
    return call.operation == Operation::reduce_scatter || call.operation == Operation::broadcast
               ? call.out_count
               : call.in_count;
}

/// Calls `body(offset, count)` for pieces of at most the count limit.
template <class Body>
void in_pieces(std::size_t count, Body&& body) {
    for (std::size_t done = 0; done < count; done += mpi_count_limit)
        body(done, static_cast<int>(std::min(mpi_count_limit, count - done)));
}

/// A type that stands for `count` elements, however many: for moving, not for reducing.
class LargeType {
public:
    LargeType(std::size_t count, MPI_Datatype element, std::size_t width) {
        const auto limit = static_cast<int>(mpi_count_limit);
        const auto whole = static_cast<int>(count / mpi_count_limit);
        const auto rest = static_cast<int>(count % mpi_count_limit);
        MPI_Datatype parts[2];
        MPI_Type_vector(whole, limit, limit, element, &parts[0]);
        MPI_Type_contiguous(rest, element, &parts[1]);
        const int lengths[2] = {1, 1};
        const MPI_Aint offsets[2] = {0, static_cast<MPI_Aint>(mpi_count_limit * width) * whole};
        MPI_Type_create_struct(2, lengths, offsets, parts, &type_);
        MPI_Type_commit(&type_);
        MPI_Type_free(&parts[0]);
        MPI_Type_free(&parts[1]);
    }
    ~LargeType() { MPI_Type_free(&type_); }  // operations in flight keep what they need of it
    LargeType(const LargeType&) = delete;
    LargeType& operator=(const LargeType&) = delete;
    operator MPI_Datatype() const { return type_; }

private:
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

char* offset(void* data, std::size_t elements, DType dtype) {
    return static_cast<char*>(data) + elements * size_of(dtype);
}
const char* offset(const void* data, std::size_t elements, DType dtype) {
    return static_cast<const char*>(data) + elements * size_of(dtype);
}

}  // namespace

MpiChannel::MpiChannel(std::shared_ptr<Runtime> runtime, MPI_Comm comm)
    : runtime_(std::move(runtime)), comm_(comm) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    runtime_->watchdog().add(flight_);
}

MpiChannel::~MpiChannel() {
    runtime_->watchdog().remove(flight_);
    if (runtime_->is_usable()) MPI_Comm_free(&comm_);
}

void MpiChannel::run(const Call& call, const Label& label, Duration deadline) {
    runtime_->check_thread();
    const auto watched = InFlight(flight_, call, label, deadline);
    const auto part = part_of(call, size_);
    if (part > mpi_count_limit) return run_large(call);
    const auto count = static_cast<int>(part);
    const auto type = type_of(call.dtype);
    switch (call.operation) {
        case Operation::all_reduce:
            MPI_Allreduce(in_or_in_place(call), call.out, count, type, op_of(call.reduction, call.dtype),
                          comm_);
            break;
        case Operation::all_gather:
            MPI_Allgather(call.in, count, type, call.out, count, type, comm_);
            break;
        case Operation::reduce_scatter:
            MPI_Reduce_scatter_block(call.in, call.out, count, type, op_of(call.reduction, call.dtype),
                                     comm_);
            break;
        case Operation::broadcast:
            MPI_Bcast(call.out, count, type, call.argument, comm_);
            break;
        case Operation::all_to_all:
            MPI_Alltoall(call.in, count, type, call.out, count, type, comm_);
            break;
        case Operation::shift:
            MPI_Sendrecv(call.in, count, type, target_of(call), shift_tag, call.out, count, type,
                         source_of(call), shift_tag, comm_, MPI_STATUS_IGNORE);
            break;
        case Operation::barrier:
            MPI_Barrier(comm_);
            break;
    }
    finish(call);
}

/// The same for parts of more than an int of elements: reductions in pieces, the rest as one element of a
/// large type.
void MpiChannel::run_large(const Call& call) {
    const auto part = part_of(call, size_);
    const auto type = type_of(call.dtype);
    const auto op = op_of(call.reduction, call.dtype);
    switch (call.operation) {
        case Operation::all_reduce:
            in_pieces(part, [&](std::size_t at, int count) {
                const auto* in = call.in == call.out ? MPI_IN_PLACE : offset(call.in, at, call.dtype);
                MPI_Allreduce(in, offset(call.out, at, call.dtype), count, type, op, comm_);
            });
            break;
        case Operation::reduce_scatter:
            // A piece of every part is not contiguous, so each part goes to its owner by itself.
            for (int root = 0; root < size_; ++root)
                in_pieces(part, [&](std::size_t at, int count) {
                    MPI_Reduce(offset(call.in, static_cast<std::size_t>(root) * part + at, call.dtype),
                               root == rank_ ? offset(call.out, at, call.dtype) : nullptr, count, type, op,
                               root, comm_);
                });
            break;
        case Operation::all_gather: {
            const auto large = LargeType(part, type, size_of(call.dtype));
            MPI_Allgather(call.in, 1, large, call.out, 1, large, comm_);
            break;
        }
        case Operation::broadcast: {
            const auto large = LargeType(part, type, size_of(call.dtype));
            MPI_Bcast(call.out, 1, large, call.argument, comm_);
            break;
        }
        case Operation::all_to_all: {
            const auto large = LargeType(part, type, size_of(call.dtype));
            MPI_Alltoall(call.in, 1, large, call.out, 1, large, comm_);
            break;
        }
        case Operation::shift: {
            const auto large = LargeType(part, type, size_of(call.dtype));
            MPI_Sendrecv(call.in, 1, large, target_of(call), shift_tag, call.out, 1, large, source_of(call),
                         shift_tag, comm_, MPI_STATUS_IGNORE);
            break;
        }
        case Operation::barrier:
            break;
    }
    finish(call);
}

std::uint64_t MpiChannel::start(const Call& call, const Label&) {
    runtime_->check_thread();
    auto slot = std::ranges::find(slots_, false, &Slot::taken);
    if (slot == slots_.end()) slot = slots_.insert(slot, Slot{});
    slot->taken = true;
    slot->call = call;
    auto& requests = slot->requests;
    requests.clear();
    const auto next = [&] { return &requests.emplace_back(MPI_REQUEST_NULL); };
    const auto part = part_of(call, size_);
    const auto op = op_of(call.reduction, call.dtype);
    const auto element = type_of(call.dtype);
    // Moving operations take one element of a large type where a count does not fit.
    const auto moves = [&](auto&& body) {
        if (part > mpi_count_limit)
            body(1, LargeType(part, element, size_of(call.dtype)));
        else
            body(static_cast<int>(part), element);
    };
    switch (call.operation) {
        case Operation::all_reduce:
            if (part == 0) break;
            in_pieces(part, [&](std::size_t at, int count) {
                const auto* in = call.in == call.out ? MPI_IN_PLACE : offset(call.in, at, call.dtype);
                MPI_Iallreduce(in, offset(call.out, at, call.dtype), count, element, op, comm_, next());
            });
            break;
        case Operation::reduce_scatter:
            if (part <= mpi_count_limit) {
                MPI_Ireduce_scatter_block(call.in, call.out, static_cast<int>(part), element, op, comm_,
                                          next());
                break;
            }
            for (int root = 0; root < size_; ++root)
                in_pieces(part, [&](std::size_t at, int count) {
                    MPI_Ireduce(offset(call.in, static_cast<std::size_t>(root) * part + at, call.dtype),
                                root == rank_ ? offset(call.out, at, call.dtype) : nullptr, count, element,
                                op, root, comm_, next());
                });
            break;
        case Operation::all_gather:
            moves([&](int count, MPI_Datatype type) {
                MPI_Iallgather(call.in, count, type, call.out, count, type, comm_, next());
            });
            break;
        case Operation::broadcast:
            moves([&](int count, MPI_Datatype type) {
                MPI_Ibcast(call.out, count, type, call.argument, comm_, next());
            });
            break;
        case Operation::all_to_all:
            moves([&](int count, MPI_Datatype type) {
                MPI_Ialltoall(call.in, count, type, call.out, count, type, comm_, next());
            });
            break;
        case Operation::shift:
            moves([&](int count, MPI_Datatype type) {
                MPI_Irecv(call.out, count, type, source_of(call), shift_tag, comm_, next());
                MPI_Isend(call.in, count, type, target_of(call), shift_tag, comm_, next());
            });
            break;
        case Operation::barrier:
            MPI_Ibarrier(comm_, next());
            break;
    }
    return static_cast<std::uint64_t>(slot - slots_.begin());
}

void MpiChannel::wait(std::uint64_t ticket, const Label& label, Duration deadline) {
    runtime_->check_thread();
    auto& slot = slots_[static_cast<std::size_t>(ticket)];
    const auto watched = InFlight(flight_, slot.call, label, deadline);
    MPI_Waitall(static_cast<int>(slot.requests.size()), slot.requests.data(), MPI_STATUSES_IGNORE);
    finish(slot.call);
    slot.taken = false;
}

bool MpiChannel::done(std::uint64_t ticket) {
    runtime_->check_thread();
    auto& slot = slots_[static_cast<std::size_t>(ticket)];
    auto flag = 0;
    MPI_Testall(static_cast<int>(slot.requests.size()), slot.requests.data(), &flag, MPI_STATUSES_IGNORE);
    return flag != 0;
}

void MpiChannel::leave(std::uint64_t ticket, const Label& label) noexcept {
    // MPI may still write into buffers that are about to go, and can not take a collective back.
    runtime_->abort(cat("rank ", label.ranks[rank_], " [", label.member,
                        "] left by an exception with a pending ",
                        to_string(slots_[static_cast<std::size_t>(ticket)].call), " on ", label.text()));
}

void MpiChannel::leave() noexcept { runtime_->leave_by_exception(); }

int MpiChannel::target_of(const Call& call) const {
    const auto to = std::int64_t{rank_} + call.argument;
    if (call.edge == Edge::wrap) return static_cast<int>((to % size_ + size_) % size_);
    return to < 0 || to >= size_ ? MPI_PROC_NULL : static_cast<int>(to);
}

int MpiChannel::source_of(const Call& call) const {
    const auto from = std::int64_t{rank_} - call.argument;
    if (call.edge == Edge::wrap) return static_cast<int>((from % size_ + size_) % size_);
    return from < 0 || from >= size_ ? MPI_PROC_NULL : static_cast<int>(from);
}

void MpiChannel::finish(const Call& call) const {
    const auto reduces =
        call.operation == Operation::all_reduce || call.operation == Operation::reduce_scatter;
    if (reduces && call.reduction == Reduction::mean) divide(call.dtype, call.out, call.out_count, size_);
}

}  // namespace rankmesh::detail
