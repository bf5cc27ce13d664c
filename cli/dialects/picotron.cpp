// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/picotron/process_group_manager.hpp>

#include "dialects.hpp"

namespace rankmesh::cli {

Words picotron_words(const Arrangement& roles, const Document&) {
    const auto& dense = roles.dense();
    const auto sizes = picotron::Sizes{.tp = size_of(dense, "tp"),
                                       .cp = size_of(dense, "cp"),
                                       .pp = size_of(dense, "pp"),
                                       .dp = data_size(dense)};
    const auto world = dense.size();
    const auto mesh = picotron::mesh(sizes, world);
    auto words = Words{.dialect = {}, .mesh = mesh, .kinds = {}, .answers = [=](int rank) {
                           const auto p = picotron::Place(sizes, rank, world);
                           return Answers{}
                               .add("str(process_group_manager)", [&] { return p.str(); })
                               .add("global_rank", [&] { return p.global_rank; })
                               .add("world_size", [&] { return p.world_size; })
                               .add("dp_rank", [&] { return p.dp_rank; })
                               .add("pp_rank", [&] { return p.pp_rank; })
                               .add("cp_rank", [&] { return p.cp_rank; })
                               .add("tp_rank", [&] { return p.tp_rank; })
                               .add("tp_world_size", [&] { return p.tp_world_size; })
                               .add("tp_first_rank", [&] { return p.tp_first_rank; })
                               .add("tp_last_rank", [&] { return p.tp_last_rank; })
                               .add("cp_world_size", [&] { return p.cp_world_size; })
                               .add("cp_first_rank", [&] { return p.cp_first_rank; })
                               .add("cp_last_rank", [&] { return p.cp_last_rank; })
                               .add("cp_send_rank", [&] { return p.cp_send_rank; })
                               .add("cp_recv_rank", [&] { return p.cp_recv_rank; })
                               .add("pp_world_size", [&] { return p.pp_world_size; })
                               .add("pp_first_rank", [&] { return p.pp_first_rank; })
                               .add("pp_last_rank", [&] { return p.pp_last_rank; })
                               .add("pp_is_first_stage", [&] { return p.pp_is_first_stage; })
                               .add("pp_is_last_stage", [&] { return p.pp_is_last_stage; })
                               .add("pp_next_rank", [&] { return p.pp_next_rank; })
                               .add("pp_prev_rank", [&] { return p.pp_prev_rank; })
                               .add("dp_world_size", [&] { return p.dp_world_size; })
                               .add("dp_first_rank", [&] { return p.dp_first_rank; })
                               .add("dp_last_rank", [&] { return p.dp_last_rank; })
                               .add("cp_dp_world_size", [&] { return p.cp_dp_world_size; })
                               .all();
                       }};
    for (const auto* axis : {"tp", "cp", "pp", "dp"})
        words.kinds.push_back(kind_along(std::string(axis) + "_group", mesh, mesh.axes(axis)));
    words.kinds.push_back(kind_along("cp_dp_group", mesh, mesh.axes("cp", "dp")));
    words.kinds.push_back(kind_along("pp_dp_group", mesh, mesh.axes("pp", "dp")));
    return words;
}

}  // namespace rankmesh::cli
