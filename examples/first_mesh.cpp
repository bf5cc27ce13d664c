// SPDX-License-Identifier: Apache-2.0
// The program of docs/start-cpp.md: a mesh of two axes, and a call along each.
#include <cstdio>
#include <vector>

#include <rankmesh/engine/run.hpp>

void program(rankmesh::World& world) {
    auto me = world.join({{"dp", rankmesh::rest}, {"tp", 2}}, {.over = {{"dp", "tp"}}});

    auto gradients = std::vector<float>(4, static_cast<float>(me.rank()));
    me.on("dp").all_reduce(gradients, rankmesh::mean);  // along dp, with my index on tp

    auto largest = gradients[0];
    me.on("tp").all_reduce(largest, rankmesh::max);  // of the ranks with my index on dp

    auto hello = to_string(me.coord());
    me.on("dp", "tp").barrier();  // of all ranks
    if (me.rank() == world.size() - 1)
        std::printf("rank %d is %s, mean %g, largest %g\n", me.rank(), hello.c_str(), gradients[0], largest);
}

int main(int argc, char** argv) { return rankmesh::run(argc, argv, program, {.threads = 8}); }
