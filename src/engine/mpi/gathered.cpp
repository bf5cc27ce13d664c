// SPDX-License-Identifier: Apache-2.0
// Reductions that need all inputs at once: MPI moves the inputs, and each rank combines what it gets.
#include <algorithm>
#include <numeric>

#include "engine/combine.hpp"
#include "engine/mpi/channel.hpp"
#include "engine/mpi/types.hpp"

namespace rankmesh::detail {
namespace {

// An all_reduce and a reduce gather everything in one step up to these bytes from all ranks together. Longer
// ones take two steps, piece by piece; a rank holds a copy of one piece.
constexpr auto most_in_one_step = std::size_t{64} << 10;
constexpr auto piece_bytes = std::size_t{4} << 20;

/// Pointers to `count` blocks of `bytes`.
std::vector<const void*> blocks(const char* data, int count, std::size_t bytes) {
    auto all = std::vector<const void*>{};
    for (int i = 0; i < count; ++i) all.push_back(data + static_cast<std::size_t>(i) * bytes);
    return all;
}

}  // namespace

/// True for a blocking call whose elements are divided among the ranks, combined there and gathered.
bool MpiChannel::is_in_two_steps(const Call& call) const {
    return (call.operation == Operation::all_reduce || call.operation == Operation::reduce) &&
           call.in_bytes() * static_cast<std::size_t>(size_) > most_in_one_step;
}

void MpiChannel::reduce_in_two_steps(const Call& call) {
    const auto width = size_of(call.dtype);
    const auto type = type_of(call.dtype);
    const auto n = static_cast<std::size_t>(size_);
    auto counts = std::vector<int>(n);
    auto offsets = std::vector<int>(n);
    auto in_counts = std::vector<int>(n);
    auto in_offsets = std::vector<int>(n);
    const auto most = piece_bytes / width;
    for (std::size_t begin = 0; begin < call.in_count; begin += most) {
        const auto count = std::min(most, call.in_count - begin);
        for (std::size_t i = 0; i < n; ++i) counts[i] = static_cast<int>(count / n + (i < count % n ? 1 : 0));
        std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
        const auto own = counts[static_cast<std::size_t>(rank_)];
        for (std::size_t i = 0; i < n; ++i) {
            in_counts[i] = own;
            in_offsets[i] = own * static_cast<int>(i);
        }
        const auto bytes = static_cast<std::size_t>(own) * width;
        held_.resize(bytes * n);
        const auto* in = static_cast<const char*>(call.in) + begin * width;
        MPI_Alltoallv(in, counts.data(), offsets.data(), type, held_.data(), in_counts.data(),
                      in_offsets.data(), type, comm_);
        combine(call, blocks(held_.data(), size_, bytes), held_.data(), static_cast<std::size_t>(own));
        auto* out = static_cast<char*>(call.out) + begin * width;
        if (call.operation == Operation::all_reduce)
            MPI_Allgatherv(held_.data(), own, type, out, counts.data(), offsets.data(), type, comm_);
        else
            MPI_Gatherv(held_.data(), own, type, out, counts.data(), offsets.data(), type, call.argument,
                        comm_);
    }
}

/// Posts the gathering of all inputs that this rank's result needs.
void MpiChannel::post_gathering(Started& started, Slot& slot) {
    const auto& call = started.call;
    const auto n = static_cast<std::size_t>(size_);
    const auto is_root = call.operation != Operation::reduce || call.argument == rank_;
    started.held.resize(is_root ? call.out_bytes() * n : 0);
    auto* request = &slot.requests.emplace_back(MPI_REQUEST_NULL);
    auto* held = started.held.data();
    const auto part = call.operation == Operation::reduce_scatter ? call.out_count : call.in_count;
    const auto gather = [&](int count, MPI_Datatype type) {
        if (call.operation == Operation::reduce_scatter)
            MPI_Ialltoall(call.in, count, type, held, count, type, comm_, request);
        else if (call.operation == Operation::reduce)
            MPI_Igather(call.in, count, type, held, count, type, call.argument, comm_, request);
        else
            MPI_Iallgather(call.in, count, type, held, count, type, comm_, request);
    };
    if (part > mpi_count_limit)
        gather(1, LargeType(part, type_of(call.dtype), size_of(call.dtype)));
    else
        gather(static_cast<int>(part), type_of(call.dtype));
}

void MpiChannel::finish_gathering(const Started& started) const {
    const auto& call = started.call;
    if (!writes(call, rank_)) return;
    auto ins = blocks(started.held.data(), size_, call.out_bytes());
    if (call.operation == Operation::scan) ins.resize(static_cast<std::size_t>(rank_) + 1);
    if (call.operation == Operation::exclusive_scan) ins.resize(static_cast<std::size_t>(rank_));
    if (ins.empty())
        fill_with_nothing(call);
    else
        combine(call, ins, call.out, call.out_count);
}

}  // namespace rankmesh::detail
