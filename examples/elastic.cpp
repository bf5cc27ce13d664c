// SPDX-License-Identifier: Apache-2.0
// Training that loses a rank, goes on smaller, and gets it back, on Gloo; rank 2 kills itself in step 2 to
// show it, and a process that is started again takes its place:
//     export RANKMESH_STORE=$HOME/.rankmesh RANKMESH_JOB=$(uuidgen) WORLD_SIZE=4
//     for r in 0 1 2 3; do RANK=$r ./elastic & done
//     RANK=2 ./elastic again & wait
#include <signal.h>

#include <chrono>
#include <cstdio>

#include <rankmesh/engine/world.hpp>

using namespace std::chrono_literals;
using rankmesh::World;

constexpr int size = 4;
constexpr int steps = 8;

/// Steps until the end, or to the step before which a smaller world waits for who is gone.
void train(World& world, int& step, bool dies) {
    auto dp = world.join({{"dp", world.size()}}).on("dp");
    dp.all_reduce(step, rankmesh::min);  // where the last one is: your checkpoint
    for (; step < steps && (world.size() == size || step < 5); ++step) {
        if (dies && step == 2) raise(SIGKILL);
        auto sum = dp.rank() + 1;
        dp.all_reduce(sum);
        if (dp.rank() == 0) std::printf("step %d on %d ranks: sum %d\n", step, dp.size(), sum);
    }
}

int main(int argc, char**) {
    const auto again = argc > 1;
    auto world = again ? World::rejoin({.timeout = 1min})  // in the place of rank RANK
                       : World::from_environment({.engine = "gloo"});
    const auto dies = !again && world.rank() == 2;
    auto step = again ? steps : 0;  // one that comes back goes on where the others are
    do {
        try {
            train(world, step, dies);
            if (world.size() < size) world = world.grow(size - world.size(), 1min);
        } catch (const rankmesh::PeerLost& lost) {
            if (world.rank() == 0) std::printf("%s\n", lost.what());
            world = world.survivors(10s);
        }
    } while (step < steps);
}
