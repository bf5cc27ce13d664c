// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <rankmesh/frameworks/picotron.hpp>

#include "check.hpp"

namespace golden {
namespace {

using namespace rankmesh::picotron;

Settings settings_of(const Json& config) {
    return {
        .tp_size = config["tp"], .cp_size = config["cp"], .pp_size = config["pp"], .dp_size = config["dp"]};
}

Json manager(const Case& test) {
    const auto settings = settings_of(test.config);
    const int world = test.config["world_size"];
    const auto all = rankmesh::picotron::groups(settings, world);
    auto answer = Json{{"per_rank", Json::array()}, {"groups", Json::object()}, {"n_new_group_calls", 0}};
    for (const auto& row : test.expect["per_rank"]) {
        const auto state = State(settings, row["rank"], world);
        const auto asked = [&](const char* names) {
            auto answers = Json::array();
            for (const auto& name : test.meta[names])
                answers.push_back(json_of(state.ask(name.get<std::string>())));
            return answers;
        };
        answer["per_rank"].push_back({{"rank", state.global_rank()},
                                      {"attrs", asked("attrs")},
                                      {"group_ranks", asked("group_attrs")},
                                      {"str", state.str()}});
    }
    auto made = 0;
    for (const auto& kind : all.kinds()) {
        answer["groups"][kind.substr(0, kind.find("_group"))] = golden::groups(all, kind);
        made += all.count(kind);
    }
    answer["n_new_group_calls"] = made;
    return answer;
}

Json setup_global(const Case& test) {
    return State(settings_of(test.config), test.config["rank"], test.config["world_size"]).str();
}

Json local_rank(const Case& test) {
    const int world = test.config["world_size"];
    const auto state = State({.dp_size = world}, test.config["rank"], world);
    auto answer = Json::object();
    for (const auto& [name, value] : test.expect.items()) {
        unsetenv("LOCAL_RANK");
        // `env_3`: what LOCAL_RANK says; `unset`: nothing.
        if (name.starts_with("env_")) setenv("LOCAL_RANK", name.substr(4).c_str(), 1);
        answer[name] = state.local_rank();
    }
    unsetenv("LOCAL_RANK");
    return answer;
}

}  // namespace

System picotron() {
    return {
        .name = "picotron",
        .kinds = {{"manager", manager},
                  {"error", manager},
                  {"setup_global", setup_global},
                  {"local_rank", local_rank}},
        .faults = [](const Case&, std::string_view, std::string_view) { return std::vector{Fault::sizes}; }};
}

}  // namespace golden
