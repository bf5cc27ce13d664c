// SPDX-License-Identifier: Apache-2.0
// A program of one main: rank 1 throws, returns 7 or returns early if it is told to.
#include <rankmesh/engine/run.hpp>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string_view>

using namespace rankmesh;
using namespace std::chrono_literals;

int main(int argc, char** argv) {
    const auto mode = std::string_view(argc > 1 ? argv[1] : "well");
    const auto program = [&](World& world) {
        auto dp = world.join({{"dp", rest}}).on("dp");
        auto sum = 1;
        dp.all_reduce(sum);
        if (mode == "throw" && world.rank() == 1) throw std::runtime_error("boom");
        if (mode == "early" && world.rank() == 1) return 0;
        if (mode == "early") dp.barrier();
        if (mode == "throw") dp.barrier();
        std::printf("rank %d of %d on %s: %d\n", world.rank(), world.size(), world.engine().c_str(), sum);
        std::fflush(stdout);
        return mode == "code" && world.rank() == 1 ? 7 : 0;
    };
    return run(argc, argv, program, {.threads = 3, .world = {.timeout = 20s}});
}
