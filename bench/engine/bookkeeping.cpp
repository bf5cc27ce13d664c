// SPDX-License-Identifier: Apache-2.0
// What join works out before it speaks with anyone, and the memory that it asks for: in larger worlds beside
// one of eight ranks.
#include <rankmesh/engine/join_cost.hpp>

#include "../frameworks/allocated.hpp"
#include "../measure.hpp"

int main() {
    using namespace rankmesh::bench;
    const auto declared =
        rankmesh::Declaration{.mesh = {{"pp", 2}, {"dp", rankmesh::rest}, {"cp", 2}, {"tp", 2}},
                              .over = {{"dp", "cp"}, {"cp", "tp"}}};
    const auto plan = rankmesh::Plan{declared};
    for (int bits = 3; bits <= 30; bits += 3) {
        const auto world = 1 << bits;
        const auto ask = [&](int size) { return rankmesh::join_cost(plan, size, size / 2).communicators; };
        const auto bytes = [&](int size) {
            const auto before = allocated_bytes();
            ask(size);
            return static_cast<double>(allocated_bytes() - before);
        };
        report("join's bookkeeping/" + std::to_string(world),
               in_turn(
                   rounds_of(101), 20, [&] { ask(world); }, [&] { ask(8); }));
        keep_samples("join's memory in bytes/" + std::to_string(world),
                     {{bytes(world)}, {bytes(8)}, {bytes(8)}});
    }
}
