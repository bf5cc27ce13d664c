// SPDX-License-Identifier: Apache-2.0
// A program with eight points between its steps, at each of which a test may break it.
#pragma once

#include <vector>

#include <rankmesh/engine/world.hpp>

/// Runs on four ranks; `at(0)` to `at(7)` stand between its steps, one of them inside a batch.
template <class At>
void run_steps(rankmesh::World& world, At&& at) {
    at(0);
    auto me = world.join({{"dp", 2}, {"tp", 2}}, {.over = {{"dp", "tp"}}});
    at(1);
    auto x = std::vector<float>(100, 1);
    me.on("dp").all_reduce(x);
    at(2);
    auto pending = me.on("tp").start().all_reduce(x);
    at(3);
    auto other = me.on("dp", "tp").start().barrier();
    at(4);
    pending.wait();
    at(5);
    auto tp = me.on("tp");
    auto y = x;
    tp.batch([&] {
        tp.send(x, 1 - tp.rank());
        at(6);
        tp.recv(y, 1 - tp.rank());
    });
    other.wait();
    auto half = world.sub(world.rank() % 2 == 0 ? std::vector{0, 2} : std::vector{1, 3});
    at(7);
    half.join({{"dp", rankmesh::rest}}).on("dp").barrier();
    me.on("dp", "tp").barrier();
}
