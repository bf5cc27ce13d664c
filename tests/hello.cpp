// SPDX-License-Identifier: Apache-2.0
// A small program of threads, whose size a test bounds.
#include <cstdio>

#include <rankmesh/engine/run.hpp>

int main(int argc, char** argv) {
    const auto program = [](rankmesh::World& world) {
        auto dp = world.join({{"dp", rankmesh::rest}}).on("dp");
        auto sum = dp.rank();
        dp.all_reduce(sum);
        if (dp.rank() == 0) std::printf("hello from %d ranks, sum %d\n", dp.size(), sum);
    };
    return rankmesh::run(argc, argv, program, {.threads = 4});
}
