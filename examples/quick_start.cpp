// SPDX-License-Identifier: Apache-2.0
// Data and tensor parallel sums on one mesh, on any even number of processes under mpirun.
#include <cstdio>
#include <vector>

#include <rankmesh/engine/world.hpp>

int main(int argc, char** argv) {
    auto world = rankmesh::World::from_environment(argc, argv);
    auto me = world.join({{"dp", rankmesh::rest}, {"tp", 2}}, {.over = {{"dp", "tp"}}});

    auto grads = std::vector<float>(1 << 20, 1.0f);
    auto norm = 3.0f;
    auto sum = me.on("dp").start().all_reduce(grads);  // returns at once
    me.on("tp").all_reduce(norm, rankmesh::max);       // meanwhile, along another axis
    sum.wait();

    if (me.rank() == 0) std::printf("%d ranks, dp sum %g, tp max %g\n", world.size(), grads[0], norm);
}
