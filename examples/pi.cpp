// SPDX-License-Identifier: Apache-2.0
// The first program of docs/mpi-programmers.md.
#include <cstdio>

#include <rankmesh/engine/run.hpp>

void program(rankmesh::World& world) {
    auto all = world.join({{"all", rankmesh::rest}}).on("all");
    const auto steps = 1'000'000;
    auto sum = 0.0;
    for (auto i = all.rank(); i < steps; i += all.size()) {
        const auto x = (i + 0.5) / steps;
        sum += 4 / (1 + x * x);
    }
    all.all_reduce(sum);
    if (all.rank() == 0)
        std::printf("pi is %.9f on %d ranks of %s\n", sum / steps, all.size(), world.engine().c_str());
}

int main(int argc, char** argv) { return rankmesh::run(argc, argv, program, {.threads = 4}); }
