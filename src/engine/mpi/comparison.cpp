// SPDX-License-Identifier: Apache-2.0
#include "engine/mpi/comparison.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/mpi/types.hpp"

namespace rankmesh::detail {
namespace {

using Side = Comparison::Side;
using Sides = Comparison::Sides;

std::uint64_t with_word(std::uint64_t hash, std::uint64_t word) {
    hash = (hash ^ word) * 0xbf58476d1ce4e5b9U;
    return hash ^ (hash >> 29);
}

std::uint64_t hash_of(const Agreed& call, std::uint64_t before, std::uint64_t number, bool started) {
    auto words = std::array<std::uint64_t, sizeof call / sizeof(std::uint64_t)>{};
    std::memcpy(words.data(), &call, sizeof call);
    for (const auto word : words) before = with_word(before, word);
    return with_word(before, number << 1 | (started ? 1 : 0));
}

void merge(Side& into, const Side& other, bool other_is_further) {
    if (into.hash == other.hash) {
        into.ranks |= other.ranks;
        into.count += other.count;
        into.rank = std::min(into.rank, other.rank);
    } else if (other_is_further) {
        into = other;
    }
}

extern "C" void rankmesh_merge_sides(void* in, void* inout, int* count, MPI_Datatype*) {
    using Extremes = decltype(Sides::extremes);
    for (auto i = 0; i < *count; ++i) {
        const auto& from = static_cast<const Extremes*>(in)[i];
        auto& into = static_cast<Extremes*>(inout)[i];
        merge(into[0], from[0], from[0].hash < into[0].hash);
        merge(into[1], from[1], from[1].hash > into[1].hash);
    }
}

/// What MPI reduces comparisons by, made at its first use.
struct Reducer {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Op op = MPI_OP_NULL;

    static Reducer& of_process() {
        static auto reducer = Reducer();
        return reducer;
    }
    void make() {
        static std::mutex mutex;  // channels of a multithreaded world may call this at the same time
        const auto lock = std::lock_guard(mutex);
        if (op != MPI_OP_NULL) return;
        MPI_Type_contiguous(sizeof(Sides::extremes), MPI_BYTE, &type);
        MPI_Type_commit(&type);
        MPI_Op_create(rankmesh_merge_sides, 1, &op);
    }
};

std::vector<int> world_ranks(const Side& side, const Label& label) {
    auto ranks = std::vector<int>{};
    for (auto i = 0; i < 64 && i < label.ranks.size(); ++i)
        if ((side.ranks >> i & 1) != 0) ranks.push_back(label.ranks[i]);
    if (ranks.empty()) ranks.push_back(label.ranks[side.rank]);
    return ranks;
}

}  // namespace

std::optional<Side> Comparison::note(const Call& call, std::uint64_t number, bool started, int group_rank) {
    const auto agreed = Agreed::of(call);
    started = started && is_collective_of_mpi(call.operation);
    const auto hash = hash_of(agreed, hash_, number, started);
    // A monitored barrier says itself who has not come.
    const auto is_due =
        (number <= first_calls || number % interval == 0) && call.operation != Operation::monitored_barrier;
    hash_ = is_due ? 0 : hash;
    if (!is_due) return std::nullopt;
    const auto first = std::exchange(compared_, number) + 1;
    return Side{.hash = hash,
                .ranks = group_rank < 64 ? std::uint64_t{1} << group_rank : 0,
                .rank = group_rank,
                .started = started ? 1U : 0U,
                .call = agreed,
                .unit = call.unit,
                .first = first};
}

void Comparison::post(const Side& own, MPI_Comm comm, Sides& sides, MPI_Request* request) {
    auto& reducer = Reducer::of_process();
    reducer.make();
    sides = {.own = own, .extremes = {own, own}};
    MPI_Iallreduce(MPI_IN_PLACE, sides.extremes.data(), 1, reducer.type, reducer.op, comm, request);
}

void Comparison::check(const Sides& sides, std::uint64_t number, const Label& label) {
    const auto& [least, greatest] = sides.extremes;
    if (!sides.differ()) return;
    const auto kinds_differ = least.started != greatest.started;
    const auto text = [&](const Side& side) {
        return cat(!kinds_differ       ? ""
                   : side.started != 0 ? "started "
                                       : "blocking ",
                   to_string(side.call, side.unit));
    };
    auto classes = std::vector<DifferingCall>{};
    for (const auto* side : {&least, &greatest, &sides.own})
        if (side != &sides.own || (side->hash != least.hash && side->hash != greatest.hash))
            classes.push_back({text(*side), world_ranks(*side, label), side->count});
    const auto same = text(least) == text(greatest);
    auto failure = differing_calls(number, label, std::move(classes));
    if (same)
        failure.why =
            cat("the calls from number ", sides.own.first, " to ", number, " on ", label.text_with_group(),
                ", are not the same on ", label.named({label.ranks[least.rank]}), " and ",
                label.named({label.ranks[greatest.rank]}), "; ranks are compared at the first ", first_calls,
                " calls and every ", interval, ", and at each one in checked mode (RANKMESH_CHECK=1)");
    throw Disagreement(failure.why, failure.lost);
}

void free_comparison() {
    auto& reducer = Reducer::of_process();
    if (reducer.op == MPI_OP_NULL) return;
    MPI_Op_free(&reducer.op);
    MPI_Type_free(&reducer.type);
}

}  // namespace rankmesh::detail
