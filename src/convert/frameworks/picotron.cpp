// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <rankmesh/dialect/picotron/process_group_manager.hpp>

#include "convert/words.hpp"

namespace rankmesh::conversion {

using detail::cat;

namespace of_picotron {

/// All forward then all backward is what torch calls GPipe.
struct Engine {
    std::string_view name;
    std::string_view schedule;
};
constexpr auto engines = std::array<Engine, 2>{{{"1f1b", "1F1B"}, {"afab", "GPipe"}}};

Arrangement read(Settings& settings, std::optional<int> world) {
    const auto known = world_of(settings, world);
    settings.enter("distributed");
    settings.let_be({"master_addr", "master_port", "backend", "use_cpu", "world_size"});
    const auto sizes = picotron::Sizes{.tp = settings.size("tp_size"),
                                       .cp = settings.size("cp_size"),
                                       .pp = settings.size("pp_size"),
                                       .dp = settings.size("dp_size")};
    const auto all = plain_mesh({{"dp", sizes.dp}, {"pp", sizes.pp}, {"cp", sizes.cp}, {"tp", sizes.tp}});
    const auto engine = settings.word("pp_engine");
    auto arrangement = Arrangement{{picotron::mesh(sizes, known.value_or(all.size()))}};
    if (engine) {
        const auto found = std::ranges::find(engines, *engine, &Engine::name);
        if (found == engines.end())
            throw UsageError(cat("pp_engine is ", detail::in_quotes(*engine), "; it is 1f1b or afab"));
        arrangement.extras.push_back({std::string(pipeline_schedule), std::string(found->schedule)});
    }
    return arrangement;
}

Document write(const Arrangement& arrangement) {
    const auto& mesh = arrangement.dense();
    auto values = Json{{"distributed",
                        {{"tp_size", size_of(mesh, "tp")},
                         {"cp_size", size_of(mesh, "cp")},
                         {"pp_size", size_of(mesh, "pp")},
                         {"dp_size", data_size(mesh)}}}};
    if (const auto schedule = extra_of(arrangement, pipeline_schedule))
        if (const auto found = std::ranges::find(engines, *schedule, &Engine::schedule);
            found != engines.end())
            values["distributed"]["pp_engine"] = found->name;
    return {values, values.dump(2)};
}

Words words(const Arrangement& roles, const Document&) {
    const auto& dense = roles.dense();
    const auto sizes = picotron::Sizes{.tp = size_of(dense, "tp"),
                                       .cp = size_of(dense, "cp"),
                                       .pp = size_of(dense, "pp"),
                                       .dp = data_size(dense)};
    const auto world = dense.size();
    const auto mesh = picotron::mesh(sizes, world);
    auto in_words = Words{.dialect = {}, .mesh = mesh, .kinds = {}, .answers = [=](int rank) {
                              const auto p = picotron::RankInfo(sizes, rank, world);
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
        in_words.kinds.push_back(kind_along(std::string(axis) + "_group", mesh, mesh.axes(axis)));
    in_words.kinds.push_back(kind_along("cp_dp_group", mesh, mesh.axes("cp", "dp")));
    in_words.kinds.push_back(kind_along("pp_dp_group", mesh, mesh.axes("pp", "dp")));
    return in_words;
}

}  // namespace of_picotron

Framework picotron() {
    constexpr auto experts = "picotron has no expert parallelism";
    constexpr auto replicas = "picotron has one data-parallel axis, dp, and does not shard within replicas";
    return {.name = "picotron",
            .of = "`distributed` of its configuration: tp_size, cp_size, pp_size, dp_size",
            .example = "tp_size=2 pp_size=2 dp_size=2",
            .read = of_picotron::read,
            .write = of_picotron::write,
            .words = of_picotron::words,
            .roles = {"dp", "pp", "cp", "tp"},
            .why = {{"ep", experts},
                    {"edp", experts},
                    {"etp", experts},
                    {"dp_replicate", replicas},
                    {"dp_shard", replicas},
                    {virtual_stages, "picotron's pipeline has one stage a rank"},
                    {pipeline_schedule, "picotron's pp_engine is 1f1b or afab, which is 1F1B or GPipe"}}};
}

}  // namespace rankmesh::conversion
