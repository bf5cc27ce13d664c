// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <rankmesh/dialect/picotron/process_group_manager.hpp>

#include "frameworks.hpp"

namespace rankmesh::cli {

using detail::cat;

namespace {

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

}  // namespace

Framework picotron() {
    constexpr auto experts = "picotron has no expert parallelism";
    constexpr auto replicas = "picotron has one data-parallel axis, dp, and does not shard within replicas";
    return {.name = "picotron",
            .of = "`distributed` of its configuration: tp_size, cp_size, pp_size, dp_size",
            .example = "tp_size=2 pp_size=2 dp_size=2",
            .read = read,
            .write = write,
            .roles = {"dp", "pp", "cp", "tp"},
            .why = {{"ep", experts},
                    {"edp", experts},
                    {"etp", experts},
                    {"dp_replicate", replicas},
                    {"dp_shard", replicas},
                    {virtual_stages, "picotron's pipeline has one stage a rank"},
                    {pipeline_schedule, "picotron's pp_engine is 1f1b or afab, which is 1F1B or GPipe"}}};
}

}  // namespace rankmesh::cli
