// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/megatron/hyper_comm_grid.hpp>
#include <rankmesh/dialect/megatron/rank_generator.hpp>

#include "check.hpp"

namespace golden {
namespace {

using namespace rankmesh::megatron;
using Names = std::vector<std::string>;

/// `cp,tp` as the list of its names.
Names split(const std::string& joined) {
    auto names = Names{};
    if (joined.empty()) return names;
    names.emplace_back();
    for (auto c : joined) {
        if (c == ',')
            names.emplace_back();
        else
            names.back() += c;
    }
    return names;
}

std::optional<int> world_of(const Json& config) {
    return config.contains("world_size") ? std::optional(config["world_size"].get<int>()) : std::nullopt;
}

Json constructed(const Case& test) {
    const auto& config = test.config;
    return {{"size", Grid(config.value("shape", std::vector<int>{}), config.value("dims", Names{}),
                          world_of(config), config.value("rank_offset", 0))
                         .size()}};
}

Json grid(const Case& test) {
    const auto made =
        Grid(test.config["shape"], test.config["dims"], world_of(test.config), test.config["rank_offset"]);
    auto answer = Json{{"size", made.size()}, {"enum", Json::object()}};
    for (const auto& [dims, expected] : test.expect["enum"].items())
        answer["enum"][dims] = attempt([&] { return groups(made.get_rank_enum(split(dims))); });
    if (!test.expect.contains("keys")) return answer;
    answer["keys"] = Json::object();
    for (const auto& [dims, expected] : test.expect["keys"].items())
        answer["keys"][dims] = attempt([&] { return to_string(made.key(split(dims))); });
    return answer;
}

Json unordered(const Case& test) {
    const std::vector<int> shape = test.config["shape"];
    auto world = 1;
    for (auto size : shape) world *= size;
    const auto made = Grid(shape, test.config["dims"], world);
    auto answer = Json::object();
    for (const auto& [dims, expected] : test.expect.items())
        answer[dims] = attempt([&] { return groups(made.gen_rank_enum(split(dims))); });
    return answer;
}

Json view(const Case& test) {
    const auto& config = test.config;
    auto made =
        Grid(config["base_shape"], config["base_dims"], world_of(config), config.value("rank_offset", 0));
    const auto shared = config["shared"].is_null() ? Names{} : config["shared"].get<Names>();
    made.register_view("expert", config["view_shape"], config["view_dims"], shared);
    auto answer = Json{{"enum", Json::object()}};
    for (const auto& [dims, expected] : test.expect["enum"].items())
        answer["enum"][dims] = attempt([&] { return groups(made.get_rank_enum(split(dims), "expert")); });
    return answer;
}

/// The calls that were recorded, in their order.
Json sequence(const Case& test) {
    const auto& config = test.config;
    const std::vector<int> shape = config["shape"];
    const int rank = config["rank"];
    auto made = Grid(shape, config["dims"], world_of(config));
    const auto own = [rank](const rankmesh::Partition& partition) {
        for (const auto& group : partition)
            if (group.contains(rank)) return ranks(group);
        return Json();
    };
    const auto same = [&](const rankmesh::Partition& a, const rankmesh::Partition& b) {
        return groups(a) == groups(b);
    };
    const auto keys = [&] {
        auto names = Names{};
        for (const auto& key : made.keys()) names.push_back(to_string(key));
        return names;
    };
    auto answer = Json::object();
    answer["get_before_create"] = attempt([&] { return own(made.get_pg("tp")); });
    answer["tp"] = attempt([&] { return own(made.create_pg("tp")); });
    answer["dup"] = attempt([&] { return own(made.create_pg("tp")); });
    answer["dp_cp"] = attempt([&] { return own(made.create_pg({"dp", "cp"})); });
    answer["get_other_order"] = attempt([&] {
        return same(made.get_pg({"cp", "dp"}), made.get_pg({"dp", "cp"}));
    });
    answer["keys"] = keys();
    answer["unknown_dim"] = attempt([&] { return own(made.create_pg("zz")); });
    answer["unknown_view"] = attempt([&] { return own(made.create_pg("tp", "zz")); });
    answer["in_grid"] = made.is_rank_in_grid(rank);
    const auto again = [&] {
        made.register_view("base", shape, made.dim_names());
        return true;
    };
    answer["dup_view_name"] = attempt(again);
    made.register_view("expert", {shape[0] * shape[1], shape[2]}, {"ep", "dp"}, {"dp"});
    answer["shared_reuse"] = attempt([&] {
        const auto shared = made.create_pg("dp", "expert");
        return Json{own(shared), same(shared, made.get_pg("dp"))};
    });
    answer["view_private"] = attempt([&] { return own(made.create_pg("ep", "expert")); });
    answer["view_key"] = keys();
    answer["view_dup"] = attempt([&] { return own(made.create_pg("ep", "expert")); });
    answer["view_get_missing"] = attempt([&] { return own(made.get_pg({"ep", "dp"}, "expert")); });
    return answer;
}

}  // namespace

System megatron_hyper_comm_grid() {
    return {.name = "megatron_hyper_comm_grid",
            .kinds = {{"grid", grid},
                      {"gen_rank_enum_unordered", unordered},
                      {"ctor", constructed},
                      {"ctor_no_world", constructed},
                      {"view", view},
                      {"create_pg_sequence", sequence}},
            .faults = [](const Case&, std::string_view type, std::string_view message) -> std::vector<Fault> {
                const auto says = [message](std::string_view words) {
                    return message.find(words) != std::string_view::npos;
                };
                if (says("already")) return {Fault::exists};
                if (says("hasn't been created")) return {Fault::not_initialised};
                if (says("Cannot determine world size")) return {Fault::missing};
                if (says("non-negative")) return {Fault::out_of_range};
                if (says("over sized") || says("has size") || says("positive ints") || says("membership"))
                    return {Fault::sizes};
                if (says("is not")) return {Fault::unknown};
                if (says("len(shape)") || says("duplicate") || says("repeated")) return {Fault::argument};
                return type == "KeyError" ? std::vector{Fault::unknown} : std::vector<Fault>{};
            }};
}

}  // namespace golden
