// SPDX-License-Identifier: Apache-2.0
// What both systems with a grid over a ProcessTopology are asked of it.
#pragma once

#include <rankmesh/frameworks/groups.hpp>

#include "topology.hpp"

namespace golden {

/// The attributes and getters of one rank that a case asks for.
inline Json asked(const rankmesh::frameworks::State& state, const Json& meta) {
    const auto answer_of = [&](const std::string& name) {
        return name == "mp_group" ? Json::array() : attempt([&] { return json_of(state.ask(name)); });
    };
    auto answer = Json::object();
    for (const auto* columns : {"attrs", "group_attrs"})
        for (const auto& name : meta[columns]) answer[name.get<std::string>()] = answer_of(name);
    if (answer["ds_model_world_size"].is_object()) answer["ds_model_world_size"] = "<unset>";
    answer["get"] = Json::array();
    for (const auto& name : meta["get_order"]) answer["get"].push_back(answer_of(name));
    return answer;
}

}  // namespace golden
