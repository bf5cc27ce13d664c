// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/llamafactory/interface.hpp>
#include <rankmesh/dialect/llamafactory/strategy.hpp>

#include "convert/words.hpp"

namespace rankmesh::conversion {

namespace of_llamafactory {

/// dp times cp, or replicas times shards, where the settings say both; else nothing.
std::optional<int> own_world(Settings& settings) {
    const auto product = [&](const char* given, const char* other) -> std::optional<int> {
        const auto size = settings.number(given);
        const auto ranks = std::int64_t{size.value_or(0)} * settings.size(other);
        return ranks >= 1 && ranks <= Mesh::max_size ? std::optional(static_cast<int>(ranks)) : std::nullopt;
    };
    const auto by_data = product("dp_size", "cp_size");
    return by_data ? by_data : product("mp_shard_size", "mp_replicate_size");
}

Arrangement read(Settings& settings, std::optional<int> world) {
    auto outer = settings;
    auto known = world_of(settings, world);
    settings.enter("dist_config");
    settings.let_be({"world_size", "name", "timeout", "dist_timeout", "cp_mode"});
    if (!known) known = own_world(settings);
    const auto ranks = known ? *known : needed_world(outer, world, "LlamaFactory's mp_shard_size");
    const auto strategy =
        llamafactory::DistributedStrategy({.mp_replicate_size = settings.size("mp_replicate_size"),
                                           .mp_shard_size = settings.number("mp_shard_size"),
                                           .dp_size = settings.number("dp_size"),
                                           .cp_size = settings.size("cp_size")},
                                          ranks, true);
    const auto replicas = strategy.mp_replicate_size;
    // Where a replica is a run of whole dp ranks, its shards are dp's and cp's, as others shard.
    if (replicas > 1 && strategy.dp_size % replicas == 0)
        return {{strategy.data_mesh().split("dp", {{"dp_replicate", replicas}, {"dp_shard", rest}})}};
    if (replicas > 1) return {{strategy.data_mesh(), strategy.model_mesh()}};
    return {{strategy.data_mesh()}};
}

/// The configuration of DistributedInterface for an arrangement in roles.
llamafactory::Config llamafactory_config(const Arrangement& arrangement) {
    const auto& mesh = arrangement.dense();
    auto replicas = size_of(mesh, "dp_replicate");
    for (const auto& other : arrangement.meshes)
        if (other.find("mp_replicate")) replicas = size_of(other, "mp_replicate");
    return {.mp_replicate_size = replicas,
            .mp_shard_size = mesh.size() / replicas,
            .dp_size = data_size(mesh),
            .cp_size = size_of(mesh, "cp")};
}

Document write(const Arrangement& arrangement) {
    const auto config = llamafactory_config(arrangement);
    const auto values = Json{{"mp_replicate_size", config.mp_replicate_size},
                             {"mp_shard_size", *config.mp_shard_size},
                             {"dp_size", *config.dp_size},
                             {"cp_size", config.cp_size}};
    return {values, values.dump(2)};
}

using llamafactory::Dim;
constexpr std::pair<const char*, Dim> dims[] = {{"Dim.MP_REPLICATE", Dim::mp_replicate},
                                                {"Dim.MP_SHARD", Dim::mp_shard},
                                                {"Dim.DP", Dim::dp},
                                                {"Dim.CP", Dim::cp}};

Words words(const Arrangement& roles, const Document&) {
    const auto config = llamafactory_config(roles);
    const auto world = roles.dense().size();
    const auto strategy = llamafactory::DistributedStrategy(config, world, true);
    auto kinds = std::vector<GroupKind>{};
    for (const auto& [name, dim] : dims) {
        const auto mesh = dim == Dim::dp || dim == Dim::cp ? strategy.data_mesh() : strategy.model_mesh();
        kinds.push_back(kind_along(detail::cat("get_group(", name, ")"), mesh, mesh.axes(to_string(dim))));
    }
    return {.dialect = {},
            .mesh = strategy.data_mesh(),
            .kinds = std::move(kinds),
            .answers = [config, world](int rank) {
                const auto info = llamafactory::RankInfo(config, {.rank = rank, .world_size = world});
                auto answers = Answers{};
                answers.add("get_rank()", [&] { return info.get_rank(); });
                answers.add("get_world_size()", [&] { return info.get_world_size(); });
                for (const auto& [name, dim] : dims) {
                    answers.add(detail::cat("get_rank(", name, ")"),
                                [&, d = dim] { return info.get_rank(d); });
                    answers.add(detail::cat("get_world_size(", name, ")"),
                                [&, d = dim] { return info.get_world_size(d); });
                }
                return answers.all();
            }};
}

}  // namespace of_llamafactory

Framework llamafactory() {
    constexpr auto model = "LlamaFactory shards and replicates a model; it does not split it over ranks";
    constexpr auto experts = "LlamaFactory's strategy has no expert parallelism here";
    return {
        .name = "llamafactory",
        .of = "mp_replicate_size, mp_shard_size, dp_size, cp_size of LlamaFactory v1; needs the world's size",
        .example = "mp_replicate_size=2 cp_size=2 world_size=16",
        .read = of_llamafactory::read,
        .write = of_llamafactory::write,
        .words = of_llamafactory::words,
        .roles = {"dp", "cp"},
        .why = {{"pp", model}, {"tp", model}, {"ep", experts}, {"edp", experts}, {"etp", experts}},
        .version = "August 2026"};
}

}  // namespace rankmesh::conversion
