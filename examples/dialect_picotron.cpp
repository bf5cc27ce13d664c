// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <rankmesh/dialect/picotron/process_group_manager.hpp>
#include <rankmesh/engine/launcher.hpp>
#include <rankmesh/engine/threads.hpp>

void program(rankmesh::World& world) {
    const auto sizes = rankmesh::picotron::Sizes{.tp = 2, .cp = 2, .pp = 2};
    auto pgm = rankmesh::picotron::ProcessGroupManager(world.join(plan(sizes)), sizes);
    const auto check = [&](rankmesh::Communicator& on, const rankmesh::Group& ids) {
        auto first = pgm.global_rank;
        on.all_reduce(first, rankmesh::min);
        if (first != ids.front() || on.size() != ids.size()) throw rankmesh::Error("other ranks");
    };
    check(pgm.tp_group, pgm.tp_group_ids), check(pgm.cp_group, pgm.cp_group_ids);
    check(pgm.pp_group, pgm.pp_group_ids), check(pgm.dp_group, pgm.dp_group_ids);
    check(pgm.cp_dp_group, pgm.cp_dp_group_ids), check(pgm.pp_dp_group, pgm.pp_dp_group_ids);
    if (pgm.global_rank == 0) std::printf("picotron: %s and all groups\n", pgm.str().c_str());
}
int main(int argc, char** argv) {
    if (!rankmesh::is_launched()) return rankmesh::threads::run(8, program), 0;
    auto world = rankmesh::World::from_environment(argc, argv);
    program(world);
}
