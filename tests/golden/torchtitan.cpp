// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/frameworks/torchtitan.hpp>

#include "check.hpp"

namespace golden {
namespace {

using namespace rankmesh::torchtitan;

Settings settings_of(const Json& config) {
    return {.dp_replicate = config["dp_replicate"],
            .dp_shard = config["dp_shard"],
            .cp = config["cp"],
            .tp = config["tp"],
            .pp = config["pp"],
            .ep = config["ep"],
            .spmd_backend = config["spmd_backend"]};
}

Json described(const std::optional<DeviceMesh>& mesh) {
    if (!mesh) return nullptr;
    return {{"names", *mesh->mesh_dim_names()},
            {"shape", mesh->shape()},
            {"ranks", ranks(mesh->mesh())},
            {"coord", *mesh->get_coordinate()}};
}

Json row_of(const State& info, const Json& expected) {
    auto active = Json::array();
    for (const auto& name : info.groups().kinds())
        if (info.get_group(name).size() > 1) active.push_back(name);
    auto optional = Json::object(), with_singletons = Json::object();
    for (const auto& name : info.mesh_dim_names()) {
        optional[name] = described(info.get_optional_mesh(name));
        with_singletons[name] = described(info.get_optional_mesh(name, true));
    }
    auto lists = Json::array();
    for (const auto& asked : expected["lists"]) {
        const auto names = asked[0].get<std::vector<std::string>>();
        lists.push_back({names, attempt([&] { return described(info.get_mesh(names)); })});
    }
    return {{"rank", expected["rank"]},
            {"one_dimensional", active},
            {"optional", optional},
            {"with_singletons", with_singletons},
            {"lists", lists},
            {"unknown", attempt([&] { return described(info.get_mesh("nothing")); })},
            {"spmd_dense_mesh", attempt([&] { return described(info.spmd_dense_mesh()); })},
            {"spmd_sparse_mesh", described(info.spmd_sparse_mesh())},
            {"get_dense_tp_mesh", attempt([&] { return described(info.get_dense_tp_mesh()); })},
            {"resolve_mesh", described(info.resolve_mesh({"dp", "cp", "tp"}))},
            {"get_activated_mesh",
             described(info.get_activated_mesh({"dp_replicate", "efsdp", "ep", "nothing"}))}};
}

Json build(const Case& test) {
    const auto settings = settings_of(test.config);
    const int world = test.config["world_size"];
    const auto dims = State(settings, 0, world);
    auto rows = Json::array();
    for (const auto& row : test.expect.value("per_rank", Json::array()))
        rows.push_back(row_of(State(settings, row["rank"], world), row));
    return {{"dp_shard", dims.groups().mesh().size("dp_shard")},
            {"dp_enabled", dims.dp_enabled()},
            {"dp_replicate_enabled", dims.dp_replicate_enabled()},
            {"dp_shard_enabled", dims.dp_shard_enabled()},
            {"cp_enabled", dims.cp_enabled()},
            {"dp_cp_enabled", dims.dp_cp_enabled()},
            {"fsdp_enabled", dims.fsdp_enabled()},
            {"tp_enabled", dims.tp_enabled()},
            {"pp_enabled", dims.pp_enabled()},
            {"ep_enabled", dims.ep_enabled()},
            {"non_data_parallel_size", dims.non_data_parallel_size()},
            {"seq_len_divisor", dims.seq_len_divisor()},
            {"per_rank", rows}};
}

std::vector<Fault> faults(const Case&, std::string_view type, std::string_view message) {
    const auto says = [&](std::string_view part) { return message.find(part) != std::string_view::npos; };
    if (type == "AssertionError") return {Fault::sizes};
    if (says("is not available")) return {Fault::missing};
    if (says("must divide") || says("Invalid mesh name combinations")) return {Fault::exclusive};
    if (says("spmd_dense_for_fwdbwd")) return {Fault::not_initialised};
    if (says("ascending order")) return {Fault::argument};
    return {Fault::unknown};
}

}  // namespace

System torchtitan() { return {.name = "torchtitan", .kinds = {{"build", build}}, .faults = faults}; }

}  // namespace golden
