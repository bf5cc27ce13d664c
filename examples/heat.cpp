// SPDX-License-Identifier: Apache-2.0
// The heat equation in a periodic box of 48 x 48 x 48 cells, which a mesh of axes x, y and z splits into
// blocks with one layer of ghost cells. Runs on the processes of a launcher, else as threads: heat "x=2 y=2
// z=1".
#include <cmath>
#include <cstdio>
#include <vector>

#include <rankmesh/engine/halo.hpp>
#include <rankmesh/engine/run.hpp>

constexpr auto cells = 48;

int simulate(rankmesh::World& world, const rankmesh::Mesh& mesh) {
    auto me = world.join(mesh);
    const auto nx = cells / mesh.size("x") + 2, ny = cells / mesh.size("y") + 2,
               nz = cells / mesh.size("z") + 2;
    const auto at = [&](int i, int j, int k) { return static_cast<std::size_t>((i * ny + j) * nz + k); };
    auto now = std::vector<double>(at(nx, 0, 0)), next = now;
    if (me.rank() == 0) now[at(1, 1, 1)] = 1000;  // all heat in one cell

    for (int step = 0; step < 100; ++step) {
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

    auto heat = 0.0;
    for (int i = 1; i < nx - 1; ++i)
        for (int j = 1; j < ny - 1; ++j)
            for (int k = 1; k < nz - 1; ++k) heat += now[at(i, j, k)];
    for (const auto* axis : {"x", "y", "z"}) me.on(axis).all_reduce(heat);
    if (me.rank() == 0) std::printf("heat %.6f of 1000 on %d ranks\n", heat, world.size());
    return std::abs(heat - 1000) < 1e-9 ? 0 : 1;
}

int main(int argc, char** argv) {
    const auto mesh = rankmesh::Mesh::parse(argc > 1 ? argv[1] : "x=2 y=2 z=1");
    return rankmesh::run(argc, argv, [&](rankmesh::World& world) { return simulate(world, mesh); },
                         {.threads = mesh.size()});
}
