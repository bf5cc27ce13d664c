// SPDX-License-Identifier: Apache-2.0
// sample_sort.cpp of the folder above on MPI alone.
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <vector>

namespace plain {

using Keys = std::vector<std::uint64_t>;

constexpr auto keys_of_all = 100000;
constexpr auto oversampling = std::size_t{32};

/// Returns this rank's part of the keys of all ranks in ascending order. The ranks' parts follow one another.
Keys sample_sort(MPI_Comm on, Keys keys) {
    int ranks = 0;
    MPI_Comm_size(on, &ranks);
    const auto size = static_cast<std::size_t>(ranks);
    std::ranges::sort(keys);
    auto sample = Keys(oversampling, ~std::uint64_t{0});
    for (std::size_t i = 0; i < oversampling && !keys.empty(); ++i)
        sample[i] = keys[i * keys.size() / oversampling];
    auto samples = Keys(size * oversampling);
    const auto count = static_cast<int>(oversampling);
    MPI_Allgather(sample.data(), count, MPI_UINT64_T, samples.data(), count, MPI_UINT64_T, on);
    std::ranges::sort(samples);

    auto to = std::vector<int>(size);  // how many keys go to each rank
    auto from = to;
    auto to_offsets = to;
    auto from_offsets = to;
    auto begin = keys.begin();
    for (std::size_t i = 0; i < size; ++i) {
        const auto last = i + 1 == size;
        const auto end =
            last ? keys.end() : std::lower_bound(begin, keys.end(), samples[(i + 1) * oversampling]);
        to[i] = static_cast<int>(end - begin);
        begin = end;
    }
    MPI_Alltoall(to.data(), 1, MPI_INT, from.data(), 1, MPI_INT, on);
    std::exclusive_scan(to.begin(), to.end(), to_offsets.begin(), 0);
    std::exclusive_scan(from.begin(), from.end(), from_offsets.begin(), 0);
    auto sorted = Keys(static_cast<std::size_t>(std::accumulate(from.begin(), from.end(), 0)));
    MPI_Alltoallv(keys.data(), to.data(), to_offsets.data(), MPI_UINT64_T, sorted.data(), from.data(),
                  from_offsets.data(), MPI_UINT64_T, on);
    std::ranges::sort(sorted);
    return sorted;
}

/// The keys of numbers `first`, `first + step`, ... of all keys.
Keys numbered(int first, int step) {
    auto keys = Keys();
    for (auto i = first; i < keys_of_all; i += step)
        keys.push_back((static_cast<std::uint64_t>(i) + 1) * 0x9e3779b97f4a7c15);
    return keys;
}

int sort_and_check() {
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const auto sorted = sample_sort(MPI_COMM_WORLD, numbered(rank, size));

    auto count = static_cast<std::uint64_t>(sorted.size());
    auto position = std::uint64_t{0};  // how many keys are on the ranks below
    MPI_Exscan(&count, &position, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    auto expected = numbered(0, 1);
    std::ranges::sort(expected);
    auto order = std::uint64_t{0};
    auto wrong = 0;
    for (auto key : sorted) {
        wrong += key == expected[position] ? 0 : 1;
        order ^= ++position * key;
    }
    MPI_Allreduce(MPI_IN_PLACE, &count, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &order, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
    const auto right = wrong == 0 && count == expected.size();
    if (rank == 0)
        std::printf("%zu keys are %s, %016jx\n", static_cast<std::size_t>(count),
                    right ? "in order" : "in disorder", static_cast<std::uintmax_t>(order));
    return right ? 0 : 1;
}

}  // namespace plain

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    const auto code = plain::sort_and_check();
    MPI_Finalize();
    return code;
}
