// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/picotron/process_group_manager.hpp>

#include "frameworks.hpp"

namespace rankmesh::cli {

namespace {

Arrangement read(Settings& settings, std::optional<int> world) {
    const auto known = world_of(settings, world);
    settings.enter("distributed");
    for (const auto* other : {"master_addr", "master_port", "backend", "pp_engine"}) settings.has(other);
    static_cast<void>(settings.flag("use_cpu"));
    static_cast<void>(settings.number("world_size"));
    const auto sizes = picotron::Sizes{.tp = settings.size("tp_size"),
                                       .cp = settings.size("cp_size"),
                                       .pp = settings.size("pp_size"),
                                       .dp = settings.size("dp_size")};
    const auto all = plain_mesh({{"dp", sizes.dp}, {"pp", sizes.pp}, {"cp", sizes.cp}, {"tp", sizes.tp}});
    return {{picotron::mesh(sizes, known.value_or(all.size()))}};
}

Document write(const Arrangement& arrangement) {
    const auto& mesh = arrangement.dense();
    const auto values = Json{{"distributed",
                              {{"tp_size", size_of(mesh, "tp")},
                               {"cp_size", size_of(mesh, "cp")},
                               {"pp_size", size_of(mesh, "pp")},
                               {"dp_size", data_size(mesh)}}}};
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
                    {virtual_stages, "picotron's pipeline has one stage a rank"}}};
}

}  // namespace rankmesh::cli
