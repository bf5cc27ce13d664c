// SPDX-License-Identifier: Apache-2.0
// Sample sort: the ranks agree on splitters, and each sorts the keys between two of them. The keys are the
// same for any number of ranks. examples/plain_mpi/sample_sort.cpp is the same program on MPI alone.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <vector>

#include <rankmesh/engine/run.hpp>

using Keys = std::vector<std::uint64_t>;

constexpr auto keys_of_all = 100000;
constexpr auto oversampling = std::size_t{32};

/// Returns this rank's part of the keys of all ranks in ascending order. The ranks' parts follow one another.
Keys sample_sort(rankmesh::Communicator& on, Keys keys) {
    const auto size = static_cast<std::size_t>(on.size());
    std::ranges::sort(keys);
    auto sample = Keys(oversampling, ~std::uint64_t{0});
    for (std::size_t i = 0; i < oversampling && !keys.empty(); ++i)
        sample[i] = keys[i * keys.size() / oversampling];
    auto samples = Keys(size * oversampling);
    on.all_gather(sample, samples);
    std::ranges::sort(samples);

    auto to = std::vector<std::size_t>(size);  // how many keys go to each rank
    auto from = to;
    auto begin = keys.begin();
    for (std::size_t i = 0; i < size; ++i) {
        const auto last = i + 1 == size;
        const auto end =
            last ? keys.end() : std::lower_bound(begin, keys.end(), samples[(i + 1) * oversampling]);
        to[i] = static_cast<std::size_t>(end - begin);
        begin = end;
    }
    on.all_to_all(to, from);
    auto sorted = Keys(std::accumulate(from.begin(), from.end(), std::size_t{0}));
    on.all_to_all_v(keys, to, sorted, from);
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

int sort_and_check(rankmesh::World& world) {
    auto dp = world.join({{"dp", rankmesh::rest}}).on("dp");
    const auto sorted = sample_sort(dp, numbered(dp.rank(), dp.size()));

    auto position = sorted.size();
    dp.exclusive_scan(position);  // how many keys are on the ranks below
    auto expected = numbered(0, 1);
    std::ranges::sort(expected);
    auto order = std::uint64_t{0};
    auto wrong = 0;
    for (auto key : sorted) {
        wrong += key == expected[position] ? 0 : 1;
        order ^= ++position * key;
    }
    auto count = sorted.size();
    dp.all_reduce(count);
    dp.all_reduce(wrong);
    dp.all_reduce(order, rankmesh::bit_xor);
    const auto right = wrong == 0 && count == expected.size();
    if (dp.rank() == 0)
        std::printf("%zu keys are %s, %016jx\n", count, right ? "in order" : "in disorder",
                    static_cast<std::uintmax_t>(order));
    return right ? 0 : 1;
}

int main(int argc, char** argv) { return rankmesh::run(argc, argv, sort_and_check, {.threads = 3}); }
