// SPDX-License-Identifier: Apache-2.0
// A user's program against the installed package: started by mpirun, it checks its sums itself.
#include <cstdio>
#include <vector>

#include <rankmesh/engine/world.hpp>

int main(int argc, char** argv) {
    auto world = rankmesh::World::from_environment(argc, argv);
    auto me = world.join({{"dp", rankmesh::rest}, {"tp", 2}}, {.over = {{"dp", "tp"}}});

    auto grads = std::vector<float>(1000, static_cast<float>(world.rank()));
    auto norm = static_cast<float>(world.rank());
    auto sum = me.on("dp", "tp").start().all_reduce(grads);
    me.on("tp").all_reduce(norm, rankmesh::max);
    sum.wait();

    const auto n = world.size();
    const auto expected_sum = static_cast<float>(n * (n - 1) / 2);
    const auto expected_norm = static_cast<float>(world.rank() | 1);
    auto wrong = world.engine() == "mpi" ? 0 : 1;
    for (auto value : grads) wrong += value == expected_sum ? 0 : 1;
    wrong += norm == expected_norm ? 0 : 1;
    std::printf("rank %d of %d on %s: %d wrong\n", world.rank(), n, world.engine().c_str(), wrong);
    return wrong == 0 ? 0 : 1;
}
