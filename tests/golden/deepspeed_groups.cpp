// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/deepspeed/groups.hpp>

#include "check.hpp"

namespace golden {
namespace {

using namespace rankmesh::deepspeed;
using rankmesh::Mesh;
using rankmesh::Partition;
using rankmesh::dialect::GroupList;
using rankmesh::dialect::GroupPart;

std::optional<int> or_none(const Json& config, const char* key) {
    return config.contains(key) && !config[key].is_null() ? std::optional<int>(config[key]) : std::nullopt;
}

/// The original was asked by the last rank where the case names none.
int rank_of(const Json& config) { return config.value("rank", config["world_size"].get<int>() - 1); }

Json all_groups(const std::initializer_list<Partition>& partitions) {
    auto list = Json::array();
    for (const auto& partition : partitions)
        for (const auto& group : groups(partition)) list.push_back(group);
    return list;
}

Json members(const GroupPart& part) { return std::vector<int>(part.begin(), part.end()); }

Json all_groups(const std::vector<GroupList>& lists) {
    auto all = Json::array();
    for (const auto& list : lists)
        for (const auto& group : list) all.push_back(members(group));
    return all;
}

Json expert_parallel_ranks(const Case& test) {
    const auto& c = test.config;
    const auto made = _get_expert_parallel_ranks(c["world_size"], c["tp"], c["ep"], c["pp"],
                                                 c.value("data_before_expert", false));
    return {{"expert_parallel", all_groups(std::vector{made.expert_parallel()})},
            {"expert_data_parallel", all_groups(std::vector{made.expert_data_parallel()})}};
}

Json expert_and_data_parallel(const Case& test) {
    const auto& c = test.config;
    const int world = c["world_size"];
    const auto made = _create_expert_and_data_parallel(world, c["ep"], or_none(c, "mp"), or_none(c, "pp"),
                                                       c.value("mode", std::string("tp")),
                                                       c.value("data_before_expert", false));
    const auto info = GroupsRankInfo({.world_size = world, .expert = {made}}, rank_of(c));
    const auto name = info._get_max_expert_size_name();
    return {{"calls", all_groups(made.new_groups())},
            {"ep_ranks", members(info._get_expert_parallel_group_ranks(name))},
            {"edp_ranks", members(info._get_expert_data_parallel_group_ranks(name))},
            {"max_ep", *info._get_max_expert_size()},
            {"ep_rank", info._get_expert_parallel_rank(name)},
            {"ep_src_rank", info._get_expert_parallel_src_rank(name)}};
}

Json zero_hpz(const Case& test) {
    const int world = test.config["world_size"];
    const auto mesh = _create_zero_param_parallel_group(world, test.config["group_size"]);
    const auto info =
        GroupsRankInfo({.world_size = world, .zero_hpz_partition_size = mesh.size("zero_param_intra")},
                       rank_of(test.config));
    return {{"calls", groups(mesh.partition("zero_param_intra"))},
            {"mine", ranks(info._get_zero_param_intra_parallel_group_ranks())}};
}

Json all_to_all(const Case& test) {
    const auto mesh = _get_local_all_to_all_group(test.config["world_size"], test.config["devices_per_node"]);
    const auto local = mesh.partition("local");
    const auto names = all_to_all_names(mesh);
    return {{"keys", names},
            {"calls", static_cast<int>(names.size()) == local.size()
                          ? all_groups({local})
                          : all_groups({local, mesh.partition("global")})}};
}

Json init_tp_groups(const Case& test) {
    const int world = test.config["world_size"];
    const int tp = test.config["tp"];
    const auto mesh = _init_tp_mesh_device(world, tp, or_none(test.config, "dp"));
    const auto rank = rank_of(test.config);
    const auto info = GroupsRankInfo({.world_size = world, .tensor_parallel_size = tp}, rank);
    return {{"calls", all_groups({mesh.partition("data_parallel"), mesh.partition("tensor_parallel")})},
            {"dp", ranks(mesh.group(rank, "data_parallel"))},
            {"tp", ranks(mesh.group(rank, "tensor_parallel"))},
            {"src", info.get_tensor_model_parallel_src_rank()}};
}

}  // namespace

System deepspeed_groups() {
    return {.name = "deepspeed_groups",
            .kinds = {{"get_expert_parallel_ranks", expert_parallel_ranks},
                      {"get_expert_parallel_ranks_error", expert_parallel_ranks},
                      {"create_expert_and_data_parallel", expert_and_data_parallel},
                      {"zero_hpz", zero_hpz},
                      {"all_to_all", all_to_all},
                      {"init_tp_groups", init_tp_groups}},
            .faults = [](const Case&, std::string_view type, std::string_view message) {
                const auto says = [&](std::string_view words) { return message.find(words) != message.npos; };
                if (type == "AssertionError" &&
                    (says("is not divisible by") || says("cannot initialize All-To-All")))
                    return std::vector{Fault::sizes};
                if (type == "ZeroDivisionError" || (type == "ValueError" && says("must not be zero")))
                    return std::vector{Fault::sizes};
                if (type == "NotImplementedError") return std::vector{Fault::exclusive};
                return std::vector<Fault>{};
            }};
}

}  // namespace golden
