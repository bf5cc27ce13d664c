// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/llamafactory/interface.hpp>

#include "check.hpp"

namespace golden {
namespace {

using namespace rankmesh::llamafactory;

Config config_of(const Json& given) {
    auto config = Config{};
    if (!given.is_object()) return config;
    const auto optional = [&](const char* name) {
        return given.contains(name) && !given[name].is_null() ? std::optional<int>(given[name])
                                                              : std::nullopt;
    };
    config.mp_replicate_size = optional("mp_replicate_size").value_or(config.mp_replicate_size);
    config.mp_shard_size = optional("mp_shard_size");
    config.dp_size = optional("dp_size");
    config.cp_size = optional("cp_size").value_or(config.cp_size);
    if (const auto timeout = optional("timeout")) config.timeout = std::chrono::seconds(*timeout);
    return config;
}

RankInfo info_of(const Case& test, int rank) {
    return {config_of(test.config["config"]), {.rank = rank, .world_size = test.config["world_size"]}};
}

Json strategy_of(const RankInfo& info) {
    const auto& s = info.strategy();
    return {{"mp_replicate_size", s.mp_replicate_size},
            {"mp_shard_size", s.mp_shard_size},
            {"dp_size", s.dp_size},
            {"cp_size", s.cp_size}};
}

Json row_of(const RankInfo& info) {
    auto row = Json{{"rank", info.get_rank()},
                    {"get_rank_none", info.get_rank()},
                    {"get_world_size_none", info.get_world_size()}};
    for (auto dim : {Dim::mp_replicate, Dim::mp_shard, Dim::dp, Dim::cp})
        row[std::string(to_string(dim))] = {{"group", ranks(*info.get_group(dim))},
                                            {"rank", info.get_rank(dim)},
                                            {"size", info.get_world_size(dim)}};
    return row;
}

/// Both versions of the original answer; the later one differs only where it refuses.
Json both(const Case& test, const Json& answer) {
    const auto same = test.expect["head"] == "same_as_seed";
    return {{"seed", answer}, {"head", same ? Json("same_as_seed") : answer}};
}

Json interface(const Case& test) {
    const auto first = info_of(test, 0);
    const auto& strategy = first.strategy();
    auto answer =
        Json{{"strategy", strategy_of(first)},
             {"model_mesh", {DistributedStrategy::model_mesh_dim_names(), strategy.model_mesh_shape()}},
             {"data_mesh", {DistributedStrategy::data_mesh_dim_names(), strategy.data_mesh_shape()}},
             {"timeout_s", static_cast<double>(first.timeout().count())},
             {"per_rank", Json::array()}};
    for (const auto& row : test.expect["seed"]["per_rank"])
        answer["per_rank"].push_back(row_of(info_of(test, row["rank"])));
    return both(test, answer);
}

Json invalid_or_uneven(const Case& test) {
    return both(test, attempt_or_refuse([&] {
                    const auto info = info_of(test, 0);
                    return Json{{"strategy", strategy_of(info)}, {"row0", row_of(info)}};
                }));
}

Json uncovered_rank(const Case& test) { return row_of(info_of(test, test.config["rank"])); }

Json or_null(const auto& value) { return value ? Json("something") : Json(nullptr); }

Json not_distributed(const Case& test) {
    const auto alone = DistributedInterface(config_of(test.config["config"]));
    const auto& s = alone.strategy();
    const auto list = alone.all_gather(std::vector<double>{1, 2});
    return {{"strategy", {s.mp_replicate_size, s.mp_shard_size, s.dp_size, s.cp_size}},
            {"model_mesh_shape", s.model_mesh_shape()},
            {"data_mesh_shape", s.data_mesh_shape()},
            {"get_rank", alone.get_rank()},
            {"get_rank_dp", alone.get_rank(Dim::dp)},
            {"get_world_size", alone.get_world_size()},
            {"get_world_size_cp", alone.get_world_size(Dim::cp)},
            {"get_group_dp", or_null(alone.get_group(Dim::dp))},
            {"get_device_mesh_dp", or_null(alone.get_device_mesh(Dim::dp))},
            {"get_device_mesh_none", attempt([&] { return or_null(alone.get_device_mesh({})); })},
            {"all_gather_passthrough", std::vector<int>(list.begin(), list.end())},
            {"all_reduce_passthrough", static_cast<int>(alone.all_reduce(3))},
            {"broadcast_passthrough", alone.broadcast(std::string("x"))},
            {"local_rank", alone.get_local_rank()},
            {"local_world_size", alone.get_local_world_size()}};
}

template <class T>
concept NamesADim = requires(const RankInfo& info, T given) {
    info.get_rank(given);
};

Json env(const Case& test) {
    const auto& given = test.config;
    auto config = Config{};
    config.cp_size = given["cp_size"];
    const auto info = RankInfo(config, {.rank = given["RANK"],
                                        .world_size = given["WORLD_SIZE"],
                                        .local_rank = given["LOCAL_RANK"],
                                        .local_world_size = given["LOCAL_WORLD_SIZE"]});
    auto instance = Instance{};
    const auto make = [](int cp) { return [cp] { return DistributedInterface({.cp_size = cp}); }; };
    auto& first = instance(make(given["cp_size"]));
    auto& second = instance(make(1));
    return {{"local_rank", info.get_local_rank()},
            {"local_world_size", info.get_local_world_size()},
            {"rank", info.get_rank()},
            {"get_device_mesh_none", attempt([&] { return or_null(info.get_device_mesh({})); })},
            {"get_group_none", or_null(info.get_group())},
            {"raw_string_dim", attempt([&]() -> Json {
                 static_assert(!NamesADim<const char*>);
                 throw rankmesh::dialect::Error(Fault::argument, "text is no Dim: it does not compile");
             })},
            {"singleton", &first == &second},
            {"singleton_keeps_cp", second.strategy().cp_size},
            {"str", info.str()}};
}

}  // namespace

System llamafactory() {
    return {.name = "llamafactory",
            .kinds = {{"interface", interface},
                      {"invalid_or_uneven", invalid_or_uneven},
                      {"uncovered_rank_seed", uncovered_rank},
                      {"not_distributed", not_distributed},
                      {"env", env}},
            .faults = [](const Case&, std::string_view type, std::string_view message) {
                if (message == "dim must be specified.") return std::vector{Fault::missing};
                if (type == "AttributeError") return std::vector{Fault::argument};
                return std::vector{Fault::sizes};
            }};
}

}  // namespace golden
