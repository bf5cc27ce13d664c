// SPDX-License-Identifier: Apache-2.0
// LlamaFactory's DistributedInterface: the data mesh dp x cp, and over the same ranks the model mesh
// mp_replicate x mp_shard.
#include <algorithm>
#include <cctype>

#include <rankmesh/dialect/llamafactory/strategy.hpp>

#include "frameworks/rows.hpp"

namespace rankmesh::frameworks {

namespace of_llamafactory {

using detail::cat;

/// `get_rank(Dim.DP)`.
std::string call_of(std::string_view accessor, std::string dim) {
    std::ranges::transform(dim, dim.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return cat(accessor, "(Dim.", dim, ")");
}

KindRow along(const char* dim, const char* groups) {
    return {.name = dim, .groups = groups, .shown = call_of("get_group", dim)};
}

void check_first(Given& given) {
    const auto size = [&](const char* name) {
        return given.is_none(name) ? std::nullopt : std::optional(given.number(name));
    };
    const auto strategy =
        llamafactory::DistributedStrategy({.mp_replicate_size = given.number("mp_replicate_size"),
                                           .mp_shard_size = size("mp_shard_size"),
                                           .dp_size = size("dp_size"),
                                           .cp_size = given.number("cp_size")},
                                          given.world_size(), true);
    given.derive("mp_replicate", strategy.mp_replicate_size);
    given.derive("mp_shard", strategy.mp_shard_size);
    given.derive("dp", strategy.dp_size);
    given.derive("cp", strategy.cp_size);
}

/// dp times cp, or replicas times shards, where the settings say both; else nothing.
std::optional<std::int64_t> ranks(const Given& given) {
    const auto product = [&](const char* maybe, const char* other) -> std::optional<std::int64_t> {
        const auto ranks = std::int64_t{given.number(maybe)} * given.number(other);
        return ranks >= 1 && ranks <= Mesh::max_size ? std::optional(ranks) : std::nullopt;
    };
    const auto by_data = product("dp_size", "cp_size");
    return by_data ? by_data : product("mp_shard_size", "mp_replicate_size");
}

std::vector<Mesh> read(const Given& given, const Mesh& data) {
    const auto replicas = given.number("mp_replicate");
    if (replicas == 1) return {data};
    // Where a replica is a run of whole dp ranks, its shards are dp's and cp's, as others shard.
    if (data.size("dp") % replicas == 0)
        return {data.split("dp", {{"dp_replicate", replicas}, {"dp_shard", rest}})};
    return {data, Mesh{{"mp_replicate", replicas}, {"mp_shard", given.number("mp_shard")}}};
}

Values write(const std::vector<Mesh>& meshes) {
    const auto& data = meshes.front();
    auto replicas = size_of(data, "dp_replicate");
    for (const auto& mesh : meshes)
        if (mesh.find("mp_replicate")) replicas = mesh.size("mp_replicate");
    const auto cp = size_of(data, "cp");
    return {{"mp_replicate_size", replicas},
            {"mp_shard_size", data.size() / replicas},
            {"dp_size", data.size() / cp},
            {"cp_size", cp}};
}

/// The kind of the groups along a dimension.
std::string kind_of(const Given&, const Given& options) {
    return options.is_none("dim") ? "*" : options.word("dim");
}

std::vector<Call> calls(const Given&) {
    auto all = std::vector<Call>{};
    for (const auto* dim : {"mp_replicate", "mp_shard", "dp", "cp"})
        for (const auto* accessor : {"get_rank", "get_world_size"})
            all.push_back({call_of(accessor, dim), accessor, {{"dim", dim}}});
    return all;
}

}  // namespace of_llamafactory

Framework llamafactory() {
    using namespace of_llamafactory;
    constexpr auto model = "LlamaFactory shards and replicates a model; it does not split it over ranks";
    constexpr auto experts = "LlamaFactory's strategy has no expert parallelism here";
    const auto dim = Setting{.name = "dim", .otherwise = {}, .type = Type::maybe_word};
    return {.name = "llamafactory",
            .version = "August 2026",
            .original = "llamafactory.v1.accelerator.interface",
            .title = "LlamaFactory's model mesh and data mesh over the same ranks.",
            .settings_of =
                "mp_replicate_size, mp_shard_size, dp_size, cp_size of LlamaFactory v1; needs the world's "
                "size",
            .example = "mp_replicate_size=2 cp_size=2 world_size=16",
            .settings = {{.name = "mp_replicate_size"},
                         {.name = "mp_shard_size", .otherwise = {}, .type = Type::maybe_number},
                         {.name = "dp_size", .otherwise = {}, .type = Type::maybe_number},
                         {.name = "cp_size", .axis = "cp"}},
            .meshes = {{"data", "dp cp"}, {"model", "mp_replicate mp_shard"}},
            .kinds = {along("mp_replicate", "model: mp_shard | mp_replicate"),
                      along("mp_shard", "model: mp_replicate | mp_shard"), along("dp", "data: cp | dp"),
                      along("cp", "data: dp | cp")},
            .accessors = {{.name = "get_rank",
                           .quantity = Quantity::rank,
                           .doc = "This rank's place in its group along a dimension, or in the world.",
                           .options = {dim},
                           .choose = kind_of,
                           .called = true},
                          {.name = "get_world_size",
                           .quantity = Quantity::size,
                           .doc = "The number of ranks along a dimension, or in the world.",
                           .options = {dim},
                           .choose = kind_of,
                           .called = true}},
            .check_first = check_first,
            .why = {{"pp, tp", model}, {"ep, edp, etp", experts}},
            .read = read,
            .write = write,
            .ranks = ranks,
            .calls = calls,
            .base = "Answers",
            .table = "dist_config",
            .ignore = "world_size name timeout dist_timeout cp_mode",
            .written = Written::json_without_table,
            .leaves = "LlamaFactory's mp_shard_size"};
}

}  // namespace rankmesh::frameworks
