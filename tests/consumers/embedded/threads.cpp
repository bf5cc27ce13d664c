// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/threads.hpp>

int main() {
    auto wrong = 0;
    rankmesh::threads::run(4, [&](rankmesh::World& world) {
        auto me = world.join({{"dp", 2}, {"tp", 2}});
        auto sum = world.rank();
        me.on("tp").all_reduce(sum);
        if (sum != (world.rank() < 2 ? 1 : 5)) ++wrong;
    });
    return wrong;
}
