// SPDX-License-Identifier: Apache-2.0
// Training that goes on when a rank is killed, on Gloo; rank 2 kills itself in step 3 to show it:
//     export RANKMESH_STORE=$HOME/.rankmesh RANKMESH_JOB=$(uuidgen) WORLD_SIZE=4
//     for r in 0 1 2 3; do RANK=$r ./survivors & done; wait
#include <signal.h>

#include <chrono>
#include <cstdio>

#include <rankmesh/engine/world.hpp>

constexpr int steps = 6;

void train(rankmesh::World& world, int& step, bool dies) {
    auto dp = world.join({{"dp", world.size()}}).on("dp");
    dp.all_reduce(step, rankmesh::min);  // where the last one is: your checkpoint
    for (; step < steps; ++step) {
        if (dies && step == 3) raise(SIGKILL);
        auto gradient = 1.0F;
        dp.all_reduce(gradient);
        if (dp.rank() == 0) std::printf("step %d on %.0f ranks\n", step, static_cast<double>(gradient));
    }
}

int main() {
    auto world = rankmesh::World::from_environment({.engine = "gloo"});
    const auto dies = world.rank() == 2;
    auto step = 0;
    while (step < steps) {
        try {
            train(world, step, dies);
        } catch (const rankmesh::PeerLost& lost) {
            std::printf("rank %d of %d: %s\n", world.rank(), world.size(), lost.what());
            world = world.survivors(std::chrono::seconds(10));
        }
    }
}
