// SPDX-License-Identifier: Apache-2.0
// Every flag and setting of the originals' newest versions, as scripts/original_flags.py has recorded them.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include <rankmesh/convert/convert.hpp>
#include <rankmesh/core/error.hpp>

#include "formats/json.hpp"
#include "frameworks/rows.hpp"

namespace rankmesh::tests {
namespace {

using formats::Json;

/// The flags of a framework by class, empty where none are recorded.
std::map<std::string, std::vector<std::string>> flags_of(const std::string& framework) {
    auto file = std::ifstream(std::string(RANKMESH_FRAMEWORKS) + "/" + framework + "/flags.csv");
    auto all = std::map<std::string, std::vector<std::string>>{};
    auto line = std::string{};
    for (std::getline(file, line); std::getline(file, line);) {
        const auto comma = line.find(',');
        auto words = std::istringstream(line.substr(comma + 1));
        auto& list = all[line.substr(0, comma)];
        for (auto word = std::string{}; words >> word;) list.push_back(word);
    }
    return all;
}

/// Settings of each framework that 16 ranks can have; flags, where its command line is recorded.
const auto bases = std::map<std::string, std::string>{
    {"accelerate", "--parallelism_config_tp_size 2 --parallelism_config_dp_shard_size 8"},
    {"archon", R"({"dp_shard": 8, "tp": 2})"},
    {"areal", R"({"actor": {"backend": "fsdp:d16"}})"},
    {"deepspeed", R"({"tensor_parallel": {"autotp_size": 2}, "expert_parallel": {"enabled": true}})"},
    {"megatron", "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 2 --num-layers 8"},
    {"llamafactory", R"({"mp_replicate_size": 1})"},
    {"nanotron", R"({"parallelism": {"dp": 8, "tp": 2, "pp": 1}})"},
    {"olmo", R"({"train_module": {"dp_config": {"name": "fsdp"}, "pp_config": {"degree": 2},
                "cp_config": {"degree": 1}, "tp_config": {"degree": 1}}})"},
    {"picotron",
     R"({"distributed": {"tp_size": 2, "cp_size": 1, "pp_size": 1, "dp_size": 8}, "model": {"name": "m"}})"},
    {"sglang", "--tp-size 16"},
    {"torchtitan", R"({"parallelism": {"pipeline_parallel_degree": 2}})"},
    {"transformers", R"({"fsdp_size": 16})"},
    {"veomni", R"({"train": {"accelerator": {"tp_size": 1}}})"},
    {"verl", R"({"actor_rollout_ref": {"actor": {"fsdp_config": {"fsdp_size": 8}}}})"},
    {"vllm", "--tensor-parallel-size 1 --data-parallel-size 16"}};

/// The same with one more; in a configuration it is in the table that the base has.
std::string with(const std::string& framework, const std::string& name, const Json& value) {
    const auto& base = bases.at(framework);
    if (base[0] == '-') {
        auto flag = (name.size() > 3 ? " --" : " -") + name;
        std::ranges::replace(flag, '_', '-');
        return base + flag + (value == true ? "" : " " + (value.is_string() ? value.text() : value.dump()));
    }
    auto all = Json::parse(base);
    auto* table = &all;
    for (const auto* const outer : {"parallelism", "train", "accelerator", "train_module"})
        if (table->contains(outer)) table = &(*table)[outer];
    auto rest = name;
    for (auto dot = rest.find('.'); dot != std::string::npos; dot = rest.find('.')) {
        table = &(*table)[rest.substr(0, dot)];
        rest.erase(0, dot + 1);
    }
    (*table)[rest] = value;
    return all.dump();
}

/// What a conversion onto the framework itself says, or the error.
std::string said(const std::string& framework, const std::string& settings, bool to_itself = true) {
    try {
        const auto found = convert_text(framework, to_itself ? framework : "rankmesh", settings, 16);
        auto text = found.mesh_from + "\n" + found.text.value_or("") + "\n";
        for (const auto& note : found.notes) text += "note: " + note + "\n";
        for (const auto& loss : found.lost) text += "lost: " + loss.what + "\n";
        return text;
    } catch (const UsageError& error) {
        return std::string("error: ") + error.what();
    }
}

/// The name as convert shows it.
std::string shown(const std::string& framework, std::string name) {
    if (bases.at(framework)[0] == '-') std::ranges::replace(name, '_', '-');
    return name;
}

class Flags : public testing::TestWithParam<std::string> {};

TEST_P(Flags, AreOfTheVersionOfTheRows) {
    const auto& rows = frameworks::framework_named(GetParam());
    auto version = std::string{};
    const auto flags = flags_of(GetParam());
    for (const auto& word : flags.at("version")) version += (version.empty() ? "" : " ") + word;
    EXPECT_EQ(version, rows.version.empty() ? version : rows.version) << "run scripts/original_flags.py";
    EXPECT_FALSE(flags.contains("new")) << "give the new flags a class";
}

TEST_P(Flags, ThatPlaceRanksAreReadOrRefused) {
    const auto plain = said(GetParam(), bases.at(GetParam()));
    ASSERT_FALSE(plain.starts_with("error")) << plain;
    auto flags = flags_of(GetParam());
    for (const auto& flag : flags["places"]) {
        auto differs = false;
        for (const auto& value : {Json(2), Json(4), Json(true), Json("deepep"), Json("2")})
            differs = differs || said(GetParam(), with(GetParam(), flag, value)) != plain;
        EXPECT_TRUE(differs) << with(GetParam(), flag, 2);
    }
}

TEST_P(Flags, ThatAreLostComeBackAndAreNamed) {
    auto flags = flags_of(GetParam());
    for (const auto& flag : flags["lost"]) {
        const auto settings = with(GetParam(), flag, 2);
        EXPECT_NE(said(GetParam(), settings, false).find("lost: " + GetParam() + "'s " + flag),
                  std::string::npos)
            << said(GetParam(), settings, false);
        const auto itself = said(GetParam(), settings);
        EXPECT_EQ(itself.find("lost: "), std::string::npos) << itself;
        EXPECT_NE(itself.find(shown(GetParam(), flag)), std::string::npos) << itself;
    }
}

TEST_P(Flags, ThatChangeNoGroupAreNotedOrLeftOut) {
    const auto plain = said(GetParam(), bases.at(GetParam()));
    auto all = flags_of(GetParam());
    for (const auto& flag : all["note"]) {
        const auto noted = said(GetParam(), with(GetParam(), flag, 2));
        EXPECT_NE(noted.find("not converted: "), std::string::npos) << flag << ": " << noted;
        EXPECT_NE(noted.find(shown(GetParam(), flag)), std::string::npos) << noted;
        EXPECT_TRUE(noted.starts_with(plain)) << noted;
    }
    for (const auto& flag : all["none"]) {
        const auto is_inside = [&](const auto& each) {
            return std::ranges::any_of(each.second,
                                       [&](const auto& one) { return one.starts_with(flag + "."); });
        };
        const auto& rows = frameworks::framework_named(GetParam()).settings;
        const auto has_row = std::ranges::find(rows, flag, &frameworks::Setting::name) != rows.end();
        if (has_row || std::ranges::any_of(all, is_inside)) continue;  // a type of its own, or a table
        EXPECT_EQ(said(GetParam(), with(GetParam(), flag, 2)), plain) << flag;
    }
}

INSTANTIATE_TEST_SUITE_P(Of, Flags, testing::ValuesIn([] {
                             auto names = std::vector<std::string>{};
                             for (const auto& [name, base] : bases) names.push_back(name);
                             return names;
                         }()),
                         [](const auto& info) { return info.param; });

TEST(Suggestions, NeverOfferAnotherAxis) {
    auto offered = 0;
    for (const auto& rows : frameworks::all()) {
        if (rows.settings.empty() || !bases.contains(rows.name)) continue;
        for (const auto& others : frameworks::all())
            for (const auto& other : others.settings) {
                if (other.axis.empty() || other.axis.find(' ') != std::string::npos) continue;
                const auto roles_in = [](const auto& framework, const std::string& axes) {
                    auto roles = std::vector<std::string>{};
                    for (const auto axis : frameworks::words_of(axes)) {
                        const auto found = framework.roles.find(std::string(axis));
                        roles.emplace_back(found == framework.roles.end() ? axis : found->second);
                    }
                    return roles;
                };
                const auto text = said(rows.name, with(rows.name, other.name + "s", 2));
                const auto at = text.find("did you mean '");
                if (at == std::string::npos) continue;
                ++offered;
                auto name = text.substr(at + 14, text.rfind('\'') - at - 14);
                name.erase(0, name.find_first_not_of('-'));
                std::ranges::replace(name, '-', '_');
                const auto role = roles_in(others, other.axis).front();
                for (const auto& row : rows.settings) {
                    const auto names = frameworks::words_of(row.flag);
                    const auto is_it = row.name == name || std::ranges::find(names, name) != names.end();
                    if (row.axis.empty() || !is_it) continue;
                    const auto roles = roles_in(rows, row.axis);
                    const auto is_same = [&](const auto& each) {  // replicas and shards are parts of dp
                        return each == role || (role == "dp" && each.starts_with("dp_"));
                    };
                    EXPECT_TRUE(std::ranges::any_of(roles, is_same))
                        << rows.name << " offers " << name << " for " << other.name << " of " << others.name;
                }
            }
    }
    EXPECT_GT(offered, 5);
}

}  // namespace
}  // namespace rankmesh::tests
