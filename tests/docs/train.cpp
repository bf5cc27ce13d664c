// SPDX-License-Identifier: Apache-2.0
// The job of docs/explain.md, in which something happens to rank 2: what the argument says.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <rankmesh/engine/world.hpp>

using namespace std::chrono_literals;

namespace {

std::size_t batch(const std::string& what, int rank, int step) {
    if (rank != 2 || step != 2) return 4;
    if (what == "hang") std::this_thread::sleep_for(4s);
    if (what == "lost") raise(SIGKILL);
    return what == "mismatch" ? 3 : 4;
}

void train(rankmesh::World& world, const std::string& what) {
    auto me = world.join({{"dp", 2}, {"tp", 2}}, {.over = {{"dp", "tp"}}});
    auto activations = std::vector<float>(8);
    for (int step = 0; step < 4; ++step) {
        me.on("tp").all_reduce(activations);
        auto losses = std::vector<float>(batch(what, world.rank(), step));
        me.on("dp", "tp").all_reduce(losses);
    }
}

}  // namespace

int main(int argc, char** argv) {
    auto rank = -1;
    try {
        auto world = rankmesh::World::from_environment(argc, argv, {.timeout = 2s});
        rank = world.rank();
        train(world, argc > 1 ? argv[1] : "");
    } catch (const rankmesh::Error& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        return 1;
    }
}
