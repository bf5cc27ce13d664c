// SPDX-License-Identifier: Apache-2.0
// The groups of a framework that is described by rows, as ranks and as communicators.
#include <cstdio>
#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/groups.hpp>

void program(rankmesh::World& world) {
    const auto sizes = rankmesh::frameworks::Values{{"tensor_model_parallel_size", 2}};
    const auto groups = rankmesh::frameworks::Groups("vllm", sizes, world.size());
    const auto me = world.join(groups.plan());
    for (const auto& kind : groups.kinds()) {
        auto first = me.rank();
        me[kind].on("group").all_reduce(first, rankmesh::min);
        if (first != groups.of(kind, me.rank())->front()) throw rankmesh::Error("other ranks");
    }
    if (me.rank() == 0) std::printf("vllm: %s and all groups\n", to_string(groups.mesh()).c_str());
}
int main(int argc, char** argv) {
    if (!rankmesh::is_launched()) return rankmesh::threads::run(8, program), 0;
    auto world = rankmesh::World::from_environment(argc, argv);
    program(world);
}
