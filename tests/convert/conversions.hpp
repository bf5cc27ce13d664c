// SPDX-License-Identifier: Apache-2.0
// Conversions as JSON, and random settings of every framework.
#pragma once

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <rankmesh/convert/convert.hpp>
#include <rankmesh/core/mesh.hpp>

namespace rankmesh::tests {

using Json = nlohmann::ordered_json;

/// What a framework reads, and how many ranks there are.
struct Sample {
    std::string settings;
    int world = 1;
};

/// Every framework that has settings of its own.
inline const std::vector<std::string> all_frameworks = {
    "torch", "megatron",     "megatron2022", "deepspeed",    "areal",           "picotron",
    "olmo",  "llamafactory", "torchtitan",   "tensorrt-llm", "tensorrt-llm-old"};

/// Random settings that the framework accepts.
Sample random_sample(const std::string& framework, std::mt19937& random);

/// What `convert --json` prints of it.
Json json_of(const Conversion& conversion);
/// The conversion of settings that are one word.
Json convert(const std::string& from, const std::string& to, const std::string& settings, int world);

/// The groups along every axis of more than one rank, of meshes with `;` between; by its name, or what other
/// frameworks call an axis of that name.
using Groups = std::map<std::string, std::set<std::set<int>>>;
inline Groups groups_of(const std::string& meshes) {
    const auto common =
        std::map<std::string, std::string>{{"pipe", "pp"}, {"data", "dp"}, {"model", "tp"}, {"tensor", "tp"}};
    auto groups = Groups{};
    for (std::size_t begin = 0; begin != std::string::npos;) {
        const auto end = meshes.find(';', begin);
        const auto mesh = Mesh::parse(std::string_view(meshes).substr(begin, end - begin));
        begin = end == std::string::npos ? end : end + 1;
        for (int a = 0; a < mesh.axis_count(); ++a)
            if (mesh.size(AxisId{a}) > 1)
                for (const auto& group : mesh.partition(AxisId{a})) {
                    const auto name = std::string(mesh.name(AxisId{a}));
                    groups[common.contains(name) ? common.at(name) : name].emplace(group.begin(),
                                                                                   group.end());
                }
    }
    return groups;
}

}  // namespace rankmesh::tests
