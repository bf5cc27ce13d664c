// SPDX-License-Identifier: Apache-2.0
// From nothing to the first barrier of each axis with ranks as threads, beside as many threads of the
// standard library that meet once for each axis.
//
//     bench_engine_threads 64
#include <barrier>
#include <cstdlib>
#include <thread>

#include <rankmesh/engine/threads.hpp>

#include "../measure.hpp"

int main(int argc, char** argv) {
    using namespace rankmesh::bench;
    const auto size = argc > 1 ? std::atoi(argv[1]) : 64;
    const auto spec = rankmesh::MeshSpec::parse(size % 8 == 0 ? "pp=2 dp=* cp=2 tp=2" : "dp=* tp=2");
    const auto mesh = spec.resolve(size);
    const auto ours = [&] {
        rankmesh::threads::run(size, [&](rankmesh::World& world) {
            const auto me = world.join(spec);
            for (int a = 0; a < mesh.axis_count(); ++a) me.on(mesh.name(rankmesh::AxisId{a})).barrier();
        });
    };
    const auto theirs = [&] {
        auto meet = std::barrier(size);
        auto ranks = std::vector<std::jthread>{};
        for (int rank = 0; rank < size; ++rank)
            ranks.emplace_back([&] {
                for (int a = 0; a < mesh.axis_count(); ++a) meet.arrive_and_wait();
            });
    };
    report("bring-up of threads/" + std::to_string(size),
           in_turn(rounds_of(std::clamp(32768 / size, 11, 51)), 1, ours, theirs));
}
