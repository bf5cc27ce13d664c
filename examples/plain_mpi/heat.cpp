// SPDX-License-Identifier: Apache-2.0
// heat.cpp of the folder above on MPI alone, with the halo of halo.hpp.
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "halo.hpp"

namespace plain {

constexpr auto cells = 48;

/// Returns this rank's cells after some steps.
std::vector<double> simulate(MPI_Comm cart, int cells, int steps) {
    int sizes[3], periods[3], coords[3];
    MPI_Cart_get(cart, 3, sizes, periods, coords);
    const auto nx = cells / sizes[0] + 2, ny = cells / sizes[1] + 2, nz = cells / sizes[2] + 2;
    const auto at = [&](int i, int j, int k) { return static_cast<std::size_t>((i * ny + j) * nz + k); };
    auto now = std::vector<double>(at(nx, 0, 0)), next = now;
    if (coords[0] + coords[1] + coords[2] == 0) now[at(1, 1, 1)] = 1000;  // all heat in one cell

    auto halo = Halo<3>(cart, {nx, ny, nz});
    for (int step = 0; step < steps; ++step) {
        halo.exchange(now.data());
        for (int i = 1; i < nx - 1; ++i)
            for (int j = 1; j < ny - 1; ++j)
                for (int k = 1; k < nz - 1; ++k) {
                    const auto around = now[at(i - 1, j, k)] + now[at(i + 1, j, k)] + now[at(i, j - 1, k)] +
                                        now[at(i, j + 1, k)] + now[at(i, j, k - 1)] + now[at(i, j, k + 1)];
                    next[at(i, j, k)] = now[at(i, j, k)] + 0.1 * (around - 6 * now[at(i, j, k)]);
                }
        std::swap(now, next);
    }

    auto own = std::vector<double>();
    for (int i = 1; i < nx - 1; ++i)
        for (int j = 1; j < ny - 1; ++j)
            for (int k = 1; k < nz - 1; ++k) own.push_back(now[at(i, j, k)]);
    return own;
}

int simulate_and_check() {
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int sizes[] = {0, 0, 0};
    MPI_Dims_create(ranks, 3, sizes);
    const int periods[] = {1, 1, 1};
    auto cart = MPI_COMM_NULL;
    MPI_Cart_create(MPI_COMM_WORLD, 3, sizes, periods, 0, &cart);
    const auto own = simulate(cart, cells, 100);
    MPI_Comm_free(&cart);
    auto heat = 0.0;
    for (auto cell : own) heat += cell;
    MPI_Allreduce(MPI_IN_PLACE, &heat, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) std::printf("heat %.6f of 1000\n", heat);
    return std::abs(heat - 1000) < 1e-9 ? 0 : 1;
}

}  // namespace plain

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    const auto code = plain::simulate_and_check();
    MPI_Finalize();
    return code;
}
