// SPDX-License-Identifier: Apache-2.0
// Whole programs beside the same programs on MPI alone, which must give the same bits: the heat equation,
// sample sort and conjugate gradients of examples and of examples/plain_mpi. Start with mpirun; rank 0
// reports.
#include <cstdint>
#include <cstdio>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <rankmesh/engine/mpi.hpp>

#include "measure.hpp"

using Vector = std::vector<double>;
using Keys = std::vector<std::uint64_t>;

// Of the programs of examples/.
Vector simulate(const rankmesh::Member& me, int cells, int steps);
Keys sample_sort(rankmesh::Communicator& on, Keys keys);
using Dot = double (*)(rankmesh::Communicator& on, const Vector& x, const Vector& y);
double dot(rankmesh::Communicator& on, const Vector& x, const Vector& y);
double solve(rankmesh::Communicator& on, const Vector& b, Vector& x, Dot dot);
Vector right_side(int begin, int end);

namespace plain {
Vector simulate(MPI_Comm cart, int cells, int steps);
Keys sample_sort(MPI_Comm on, Keys keys);
double solve(MPI_Comm on, const Vector& b, Vector& x);
}  // namespace plain

namespace {

using rankmesh::bench::Way;

int differing = 0;

/// Times both programs in turn, and counts the results that differ.
template <class Result>
void compare(const std::string& name, int rounds, const std::function<Result()>& ours,
             const std::function<Result()>& theirs, bool equal_bits = true) {
    auto results = std::vector<Result>(3);
    const auto times =
        rankmesh::bench::times_of({Way{[&] { results[0] = ours(); }}, Way{[&] { results[1] = theirs(); }},
                                   Way{[&] { results[2] = theirs(); }}},
                                  rankmesh::bench::rounds_of(rounds));
    auto differs = equal_bits && results[0] != results[1] ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &differs, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    differing += differs;
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) rankmesh::bench::report("programs: " + name, {times[0], times[1], times[2]});
    if (rank == 0 && differs > 0) std::printf("    THE RESULTS DIFFER on %d ranks\n", differs);
}

double plain_dot(rankmesh::Communicator& on, const Vector& x, const Vector& y) {
    auto sum = std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
    on.all_reduce(sum);
    return sum;
}

Keys random_keys(std::size_t count, int rank) {
    auto engine = std::mt19937_64(static_cast<std::uint64_t>(rank));
    auto keys = Keys(count);
    for (auto& key : keys) key = engine();
    return keys;
}

}  // namespace

int main(int argc, char** argv) {
    auto world = rankmesh::mpi::World(argc, argv);
    const auto on_n = " on " + std::to_string(world.size()) + "/";
    int sizes[] = {0, 0, 0};
    MPI_Dims_create(world.size(), 3, sizes);
    auto me = world.join(rankmesh::Mesh{{"x", sizes[0]}, {"y", sizes[1]}, {"z", sizes[2]}});
    const int periods[] = {1, 1, 1};
    auto cart = MPI_COMM_NULL;
    MPI_Cart_create(MPI_COMM_WORLD, 3, sizes, periods, 0, &cart);
    for (auto [cells, steps] : {std::pair(24, 200), std::pair(48, 50), std::pair(96, 10)})
        compare<Vector>(
            "heat" + on_n + std::to_string(cells * cells * cells / world.size()), 41,
            [&, n = cells, steps = steps] { return simulate(me, n, steps); },
            [&, n = cells, steps = steps] { return plain::simulate(cart, n, steps); });
    MPI_Comm_free(&cart);

    auto dp = world.join({{"dp", rankmesh::rest}}).on("dp");
    for (int i = 0; i < 128; ++i) dp.barrier();  // ranks compare their first calls, also short jobs do
    for (auto count : {1000, 30000, 1000000}) {
        const auto keys = random_keys(static_cast<std::size_t>(count), world.rank());
        compare<Keys>(
            "sample sort" + on_n + std::to_string(count), count < 1000000 ? 101 : 21,
            [&] { return sample_sort(dp, keys); }, [&] { return plain::sample_sort(MPI_COMM_WORLD, keys); });
    }
    for (auto count : {1000, 30000, 1000000}) {
        const auto rows = right_side(world.rank() * count, (world.rank() + 1) * count);
        const auto solved = [&](auto solver) {
            return [&rows, solver] {
                auto x = Vector(rows.size());
                x.push_back(solver(x));
                return x;
            };
        };
        const auto rounds = count < 1000000 ? 101 : 11;
        const auto on_mpi = solved([&](Vector& x) { return plain::solve(MPI_COMM_WORLD, rows, x); });
        compare<Vector>("conjugate gradients" + on_n + std::to_string(count), rounds,
                        solved([&](Vector& x) { return solve(dp, rows, x, plain_dot); }), on_mpi);
        compare<Vector>("conjugate gradients, reproducible" + on_n + std::to_string(count), rounds,
                        solved([&](Vector& x) { return solve(dp, rows, x, dot); }), on_mpi, false);
    }
    return differing == 0 ? 0 : 1;
}
