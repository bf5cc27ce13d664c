// SPDX-License-Identifier: Apache-2.0
// The heat equation in a periodic box of cells, which a mesh of axes x, y and z splits into blocks with one
// layer of ghost cells. Runs on the processes of a launcher, else as threads: heat "x=2 y=2 z=1".
// examples/plain_mpi/heat.cpp is the same program on MPI alone.
#include <cmath>
#include <cstdio>
#include <vector>

#include <rankmesh/engine/halo.hpp>
#include <rankmesh/engine/run.hpp>

/// Returns this rank's cells of a box of cells * cells * cells after some steps.
std::vector<double> simulate(const rankmesh::Member& me, int cells, int steps) {
    const auto nx = cells / me.mesh().size("x") + 2, ny = cells / me.mesh().size("y") + 2,
               nz = cells / me.mesh().size("z") + 2;
    const auto at = [&](int i, int j, int k) { return static_cast<std::size_t>((i * ny + j) * nz + k); };
    auto now = std::vector<double>(at(nx, 0, 0)), next = now;
    if (me.rank() == 0) now[at(1, 1, 1)] = 1000;  // all heat in one cell

    for (int step = 0; step < steps; ++step) {
        rankmesh::halo(me, rankmesh::strided(now.data(), {nx, ny, nz}), {"x", "y", "z"});
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

int main(int argc, char** argv) {
    const auto mesh = rankmesh::Mesh::parse(argc > 1 ? argv[1] : "x=2 y=2 z=1");
    const auto program = [&](rankmesh::World& world) {
        auto me = world.join(mesh, {.over = {{"x", "y", "z"}}});
        const auto own = simulate(me, 48, 100);
        auto all = me.on("x", "y", "z");
        const auto heat = all.reproducible_sum(own);  // the same bits for any mesh
        const auto squares = all.reproducible_dot(own, own);
        if (me.rank() == 0) std::printf("heat %.6f of 1000, sum of squares %a\n", heat, squares);
        return std::abs(heat - 1000) < 1e-9 ? 0 : 1;
    };
    return rankmesh::run(argc, argv, program, {.threads = mesh.size()});
}
