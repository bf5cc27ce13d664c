// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include <rankmesh/frameworks/areal.hpp>
#include <rankmesh/frameworks/groups.hpp>
#include <rankmesh/frameworks/llamafactory.hpp>
#include <rankmesh/frameworks/megatron.hpp>
#include <rankmesh/frameworks/megatron2022.hpp>
#include <rankmesh/frameworks/picotron.hpp>
#include <rankmesh/frameworks/torchtitan.hpp>

#include "rankmesh.hpp"

namespace rankmesh::tests {
namespace {

using Json = nlohmann::json;

/// A mesh that the framework can say without moving a rank.
const auto meshes_as =
    std::vector<std::pair<std::string, std::string>>{{"megatron", "pp=2 dp=3 cp=2 tp=2"},
                                                     {"megatron", "dp=2 pp=2 tp=2"},
                                                     {"megatron", "cp=2 dp=2 tp=2"},
                                                     {"megatron", "pp=2 dp=4 tp=2; pp=2 edp=2 ep=4 etp=1"},
                                                     {"megatron", "pp=2 dp_replicate=2 dp_shard=2 tp=2"},
                                                     {"megatron2022", "pp=3 dp=2 tp=2"},
                                                     {"deepspeed", "dp=2 tp=3 pp=2"},
                                                     {"deepspeed", "data=4"},
                                                     {"areal", "dp=2 pp=3 tp=2"},
                                                     {"areal", "pp=3 dp=2 tp=2"},
                                                     {"picotron", "dp=2 pp=3 cp=2 tp=2"},
                                                     {"olmo", "pp=2 dp_replicate=2 dp_shard=3 tp=2"},
                                                     {"olmo", "pp=2 dp=2 ep=2"},
                                                     {"olmo", "dp=2 cp=3"},
                                                     {"llamafactory", "dp_replicate=2 dp_shard=2 cp=2"},
                                                     {"torchtitan", "pp=2 dp_replicate=2 dp_shard=3 tp=2"},
                                                     {"torchtitan", "dp=2 cp=3"},
                                                     {"torchtitan", "pp=2 dp=4 tp=2; pp=2 edp=2 ep=4 etp=1"}};

TEST(As, ARankStandsInTheGroupsThatAreListed) {
    for (const auto& [framework, mesh] : support::fewer_if_sanitized(meshes_as)) {
        const auto end = "'" + mesh + "' --json --as " + framework;
        const auto all = json_of("groups " + end);
        EXPECT_EQ(all["as"], framework);
        const auto size = Mesh::parse(mesh.substr(0, mesh.find(';'))).size();
        for (int rank = 0; rank < size; rank += 3) {
            const auto info =
                json_of("rank '" + mesh + "' " + std::to_string(rank) + " --json --as " + framework);
            ASSERT_EQ(info["groups"].size(), all["kinds"].size()) << end;
            for (const auto& kind : all["kinds"]) {
                auto own = Json();
                for (const auto& group : kind["groups"])
                    if (std::find(group.begin(), group.end(), rank) != group.end()) {
                        own = group;
                        std::sort(own.begin(), own.end());  // as torch does
                    }
                EXPECT_EQ(info["groups"][kind["name"].get<std::string>()], own)
                    << end << " rank " << rank << kind;
            }
        }
    }
}

TEST(As, GroupsAreThoseOfTheFrameworkItself) {
    const auto sizes = megatron::Settings{.tensor_model_parallel_size = 2,
                                          .pipeline_model_parallel_size = 2,
                                          .expert_model_parallel_size = 4,
                                          .expert_tensor_parallel_size = 1,
                                          .create_gloo_process_groups = false};
    const auto made = megatron::groups(sizes, 16);
    const auto json = json_of("groups 'pp=2 dp=4 tp=2; pp=2 edp=2 ep=4 etp=1' --json --as megatron");
    ASSERT_EQ(json["kinds"].size(), made.kinds().size());
    for (std::size_t i = 0; i < json["kinds"].size(); ++i) {
        const auto desc = made.kinds()[i];
        auto expected = Json::array();
        for (int n = 0; n < made.count(desc); ++n) {
            const auto group = made.group(desc, n);
            expected.push_back(std::vector<int>(group.begin(), group.end()));
        }
        EXPECT_EQ(json["kinds"][i]["name"], desc);
        EXPECT_EQ(json["kinds"][i]["groups"], expected) << desc;
    }
}

TEST(As, EachRanksGroupsAreThoseOfItsInfo) {
    const auto list = [](const auto& group) { return Json(std::vector<int>(group.begin(), group.end())); };
    const auto groups_as = [](const std::string& framework, const std::string& mesh, int rank) {
        return json_of("rank '" + mesh + "' " + std::to_string(rank) + " --json --as " + framework)["groups"];
    };
    for (int rank = 0; rank < 12; ++rank) {
        const auto p = picotron::State({.tp_size = 2, .pp_size = 3, .dp_size = 2}, rank, 12);
        auto groups = groups_as("picotron", "dp=2 pp=3 tp=2", rank);
        EXPECT_EQ(groups["tp_group"], list(p.tp_group_ids()));
        EXPECT_EQ(groups["cp_group"], list(p.cp_group_ids()));
        EXPECT_EQ(groups["pp_group"], list(p.pp_group_ids()));
        EXPECT_EQ(groups["dp_group"], list(p.dp_group_ids()));
        EXPECT_EQ(groups["cp_dp_group"], list(p.cp_dp_group_ids()));
        EXPECT_EQ(groups["pp_dp_group"], list(p.pp_dp_group()));

        const auto s = megatron2022::State({2, 3}, rank, 12);
        groups = groups_as("megatron2022", "pp=3 dp=2 tp=2", rank);
        EXPECT_EQ(groups["_DATA_PARALLEL_GROUP"], list(s.get_data_parallel_group()));
        EXPECT_EQ(groups["_MODEL_PARALLEL_GROUP"], list(s.get_model_parallel_group()));
        EXPECT_EQ(groups["_TENSOR_MODEL_PARALLEL_GROUP"], list(s.get_tensor_model_parallel_group()));
        EXPECT_EQ(groups["_PIPELINE_MODEL_PARALLEL_GROUP"], list(s.get_pipeline_model_parallel_group()));
        EXPECT_EQ(groups["_EMBEDDING_GROUP"],
                  s.is_rank_in_embedding_group() ? list(s.get_embedding_group()) : Json());
        EXPECT_EQ(groups["_POSITION_EMBEDDING_GROUP"],
                  s.is_rank_in_position_embedding_group() ? list(s.get_position_embedding_group()) : Json());

        const auto a = areal::State({.dims = std::vector{3, 2, 2}}, rank, 12);
        groups = groups_as("areal", "pp=3 dp=2 tp=2", rank);
        EXPECT_EQ(groups["ds_model_proc_group"], list(*a.ds_model_proc_group()));
        EXPECT_EQ(groups["dp_proc_group"], list(*a.dp_proc_group()));
        EXPECT_EQ(groups["pp_proc_group"], list(*a.pp_proc_group()));
        EXPECT_EQ(groups["slice_proc_group"], list(*a.slice_proc_group()));
        EXPECT_EQ(groups["tp_dp_proc_group"], list(*a.tp_dp_proc_group()));
        const auto embedding = a.embedding_proc_group(), position = a.position_embedding_proc_group();
        EXPECT_EQ(groups["embedding_proc_group"], embedding ? list(*embedding) : Json());
        EXPECT_EQ(groups["position_embedding_proc_group"], position ? list(*position) : Json());

        const auto l = llamafactory::State({.mp_replicate_size = 2, .cp_size = 3}, rank, 12);
        groups = groups_as("llamafactory", "dp_replicate=2 dp_shard=2 cp=3", rank);
        EXPECT_EQ(groups["get_group(Dim.MP_SHARD)"], list(l.get_group("mp_shard")));
        EXPECT_EQ(groups["get_group(Dim.MP_REPLICATE)"], list(l.get_group("mp_replicate")));
        EXPECT_EQ(groups["get_group(Dim.DP)"], list(l.get_group("dp")));
        EXPECT_EQ(groups["get_group(Dim.CP)"], list(l.get_group("cp")));

        const auto t = torchtitan::State({.tp = 2, .pp = 2, .ep = 3}, rank, 12);
        groups = groups_as("torchtitan", "pp=2 dp=3 tp=2; pp=2 edp=2 ep=3 etp=1", rank);
        for (const auto* name : {"pp", "batch", "loss", "tp", "ep", "efsdp", "dp", "dp_shard"})
            EXPECT_EQ(groups[name], list(t.get_mesh(name).mesh())) << name;
        EXPECT_EQ(groups.size(), 8U);
    }
}

TEST(As, AnswersWhatTheAccessorsSay) {
    const auto picotron = picotron::State({.tp_size = 2, .cp_size = 2, .pp_size = 2, .dp_size = 2}, 11, 16);
    const auto said = json_of("rank 'dp=2 pp=2 cp=2 tp=2' 11 --json --as picotron")["answers"];
    EXPECT_EQ(said["str(process_group_manager)"], picotron.str());
    EXPECT_EQ(said["cp_send_rank"], picotron.cp_send_rank());
    EXPECT_EQ(said["pp_next_rank"], *picotron.pp_next_rank());
    EXPECT_EQ(said["pp_prev_rank"], Json());
    // The pipeline of Megatron wraps, and an accessor that fails there says how.
    const auto megatron = json_of("rank 'pp=4 dp=2 tp=2' 2 --json --as megatron");
    EXPECT_EQ(megatron["answers"]["get_pipeline_model_parallel_prev_rank"], 14);
    EXPECT_EQ(json_of("rank 'pp=4 dp=2 tp=2' 6 --json --as megatron")["groups"]["EMBEDDING_GROUP"], Json());
    const auto torchtitan = json_of("rank 'pp=2 dp=4 tp=2' 13 --json --as torchtitan")["answers"];
    EXPECT_EQ(torchtitan["seq_len_divisor"], 4);
    EXPECT_EQ(torchtitan["get_mesh(\"batch\")"], "batch=4 {9, 11, 13, 15}");
    EXPECT_EQ(torchtitan["spmd_dense_mesh()"], "dp=4 cp=1 tp=2 {8..15}");
    EXPECT_EQ(torchtitan["spmd_sparse_mesh()"], Json());
    EXPECT_TRUE(torchtitan["get_mesh(\"cp\")"].contains("error"));
    EXPECT_TRUE(json_of("rank 'dp=2 tp=2' 1 --json --as olmo")["answers"]["get_pp_mesh"].contains("error"));
    EXPECT_EQ(
        json_of("rank 'pp=2 dp=2 tp=2' pp=1,dp=0,tp=1 --json --as megatron2022 --on 'node:2 gpu:4'")["host"],
        Json::parse(R"({"node": 1, "gpu": 1})"));
}

TEST(As, ARankIsNamedInTheWordsOfTheUsersMesh) {
    const auto rank = [](const std::string& mesh, const std::string& at, const std::string& framework) {
        return json_of("rank '" + mesh + "' " + at + " --json --as " + framework)["rank"];
    };
    // cp, which picotron and megatron have too, was never written.
    EXPECT_EQ(rank("dp=2 pp=3 tp=2", "pp=1,dp=0,tp=1", "picotron"), 3);
    EXPECT_EQ(rank("pp=2 dp=2 tp=2", "pp=1,dp=0,tp=1", "megatron"), 5);
    EXPECT_EQ(rank("pp=2 dp=2 tp=2", "pp=1,dp=0,tp=1", "deepspeed"), 5);
    EXPECT_EQ(rank("stage=2 dp=2 model=2", "stage=1,dp=0,model=1", "areal"), 5);
    EXPECT_EQ(rank("pp=2 dp=2 tp=2", "pipe=1,data=0,model=1", "deepspeed"), 5);
    EXPECT_EQ(rank("pp=2 dp=4 tp=2; pp=2 edp=2 ep=4 etp=1", "pp=1,dp=1,tp=1", "megatron"), 11);
    EXPECT_EQ(rankmesh("rank 'pp=2 dp=2' pp=1,dq=0 --as deepspeed").output,
              "rankmesh: mesh pp=2 dp=2 has no axis 'dq'; did you mean 'dp'?\n");
}

TEST(As, CallsAnAccessorAsTheOriginalsDefaultsDo) {
    const auto deepspeed = json_of("rank 'pp=2 dp=2 tp=2' 5 --json --as deepspeed")["answers"];
    EXPECT_EQ(deepspeed["topology().get_rank_repr"], "model_01");
    EXPECT_EQ(deepspeed["get_slice_parallel_rank()"], 1);
    EXPECT_EQ(deepspeed["get_slice_parallel_world_size()"], 2);
    EXPECT_EQ(json_of("rank 'pp=2 dp=2 tp=2' 5 --json --as areal")["answers"]["topology().get_rank_repr"],
              "tensor_1");
}

TEST(As, PrintsATableOfKindsBelowThePicture) {
    const auto text = rankmesh("show 'dp=2 pp=2 tp=2' --as picotron").output;
    EXPECT_NE(text.find("dp=2 pp=2 cp=1 tp=2 · 8 ranks\n"), std::string::npos) << text;
    EXPECT_TRUE(
        text.ends_with("\n"
                       " picotron     groups  ranks  group of rank 0\n"
                       " tp_group          4      2  {0, 1}\n"
                       " cp_group          8      1  {0}\n"
                       " pp_group          4      2  {0, 2}\n"
                       " dp_group          4      2  {0, 4}\n"
                       " cp_dp_group       4      2  {0, 4}\n"
                       " pp_dp_group       2      4  {0, 2, 4, 6}\n"))
        << text;
    EXPECT_EQ(rankmesh("groups 'dp=2 pp=2 tp=2' cp_dp_group --as picotron").output,
              "# cp_dp_group: 4 groups of 2 ranks\n{0, 4}\n{1, 5}\n{2, 6}\n{3, 7}\n");
    const auto million = rankmesh("show 'pp=16 dp=8192 tp=8' --as megatron");
    EXPECT_EQ(million.exit_code, 0);
    EXPECT_LT(million.output.size(), 10000U);
}

TEST(As, SaysNoWithTheReason) {
    const auto expect_no = [](const std::string& words, int code, const std::string& text) {
        const auto outcome = rankmesh(words + " 2>&1 >/dev/null");
        EXPECT_EQ(outcome.exit_code, code) << words;
        EXPECT_EQ(outcome.output, "rankmesh: " + text + "\n") << words;
    };
    expect_no("rank 'pp=2 dp=2 tp=2' 5 --as picotron", 1,
              "picotron lays the same axes out as dp=2 pp=2 cp=1 tp=2, where 4 of the 8 ranks of pp=2 dp=2 "
              "tp=2 stand "
              "elsewhere; give the mesh in that order, or see rankmesh convert");
    expect_no(
        "show 'dp=2 tp=2' --as llamafactory", 1,
        "dp=2 tp=2 has no equivalent in llamafactory: tp=2: LlamaFactory shards and replicates a model; "
        "it does not "
        "split it over ranks");
    auto every = std::string("megatron, deepspeed, areal");
    for (const auto& name : frameworks::names())
        if (name != "areal" && name != "deepspeed" && name != "megatron") every += ", " + name;
    expect_no("show 'dp=2 tp=2' --as megtron", 2,
              "unknown framework 'megtron' for --as; one of: " + every + "; did you mean 'megatron'?");
    expect_no(
        "show 'dp=2 tp=2' --as tensorrt-llm", 2,
        "--as has no group names of 'tensorrt-llm', which is for rankmesh convert only; one of: " + every);
    expect_no(
        "show 'dp=4 tp=2; edp=2 ep=2 etp=2' --as torchtitan", 1,
        "dp=4 tp=2; edp=2 ep=2 etp=2 has no equivalent in torchtitan: etp=2: torchtitan 0.3.0 has no tensor "
        "parallelism of experts; give etp=1");
    expect_no("groups 'dp=2 tp=2' cp_dp_grup --as picotron", 2,
              "picotron has no groups 'cp_dp_grup' here; there are tp_group, cp_group, pp_group, dp_group, "
              "cp_dp_group, pp_dp_group; did you mean 'cp_dp_group'?");
    expect_no("groups 'dp=2 tp=2'", 2,
              "missing argument AXES: axes such as dp,tp, in any order; see rankmesh groups --help");
    expect_no(
        "rank 'a=2 b=2 @[3,1,2,0]' 1 --as megatron", 2,
        "'a=2 b=2 @[3,1,2,0]' is a placement that no strides give, and frameworks lay their ranks out by "
        "strides; give a mesh, or start its ranks elsewhere with rankmesh place --as rankfile");
    EXPECT_EQ(rankmesh("show 'tp=2 dp=2 @[0,1,2,3]' --as torch").output,
              rankmesh("show 'tp=2:2 dp=2:1' --as torch").output);
}

}  // namespace
}  // namespace rankmesh::tests
