// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/picotron.hpp>

void program(rankmesh::World& world) {
    const auto settings = rankmesh::picotron::Settings{.tp_size = 2, .cp_size = 2, .pp_size = 2};
    auto pgm = rankmesh::picotron::ProcessGroupManager(world.join(plan(settings, world.size())), settings);
    const auto check = [&](rankmesh::Communicator& on, const rankmesh::frameworks::GroupPart& ids) {
        auto first = pgm.global_rank();
        on.all_reduce(first, rankmesh::min);
        if (first != ids.front() || on.size() != ids.size()) throw rankmesh::Error("other ranks");
    };
    check(pgm.tp_group(), pgm.tp_group_ids()), check(pgm.cp_group(), pgm.cp_group_ids());
    check(pgm.pp_group(), pgm.pp_group_ids()), check(pgm.dp_group(), pgm.dp_group_ids());
    const auto& state = static_cast<const rankmesh::picotron::State&>(pgm);  // of which a group is its ranks
    check(pgm.cp_dp_group(), pgm.cp_dp_group_ids()), check(pgm.pp_dp_group(), state.pp_dp_group());
    check(pgm.world_group(), state.world_group());
    if (pgm.global_rank() == 0) std::printf("picotron: %s and all groups\n", pgm.str().c_str());
}
int main(int argc, char** argv) {
    if (!rankmesh::is_launched()) return rankmesh::threads::run(8, program), 0;
    auto world = rankmesh::World::from_environment(argc, argv);
    program(world);
}
