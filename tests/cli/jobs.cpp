// SPDX-License-Identifier: Apache-2.0
// Texts of several meshes, through every subcommand that looks at meshes.
#include <gtest/gtest.h>

#include <map>

#include "rankmesh.hpp"
#include "support/jobs.hpp"

namespace rankmesh::tests {
namespace {

std::string in_shell(const std::string& text) { return "'" + text + "'"; }

/// What arithmetic says of a rank in a plain mesh: its index on each axis, and its group along it.
void expect_answers(const nlohmann::json& json, const Mesh& mesh, int rank) {
    EXPECT_EQ(json["mesh"], to_string(mesh));
    EXPECT_EQ(json["rank"], rank);
    auto stride = mesh.size();
    for (int a = 0; a < mesh.axis_count(); ++a) {
        const auto name = std::string(mesh.name(AxisId{a}));
        const auto size = mesh.size(AxisId{a});
        stride /= size;
        const auto index = (rank - mesh.offset()) / stride % size;
        auto group = std::vector<int>{};
        for (int i = 0; i < size; ++i) group.push_back(rank + (i - index) * stride);
        EXPECT_EQ(json["coord"][name], index) << mesh;
        EXPECT_EQ(json["groups"][name], group) << mesh;
    }
}

TEST(Jobs, RankKnowsItsPartAndItsPlaceInEachMesh) {
    auto random = std::mt19937(58);
    for (int i = 0; i < support::fewer_if_sanitized(12); ++i) {
        const auto job = random_job(random);
        for (std::size_t p = 0; p < job.parts.size(); ++p)
            for (const auto rank : job.parts[p][0].ranks()) {
                const auto json =
                    json_of("rank " + in_shell(job.text()) + " " + std::to_string(rank) + " --json");
                if (job.parts.size() == 1 && job.parts[0].size() == 1) {
                    expect_answers(json, job.parts[0][0], rank);
                    continue;
                }
                EXPECT_EQ(json["part"], p + 1) << job.text();
                ASSERT_EQ(json["meshes"].size(), job.parts[p].size()) << job.text();
                for (std::size_t m = 0; m < job.parts[p].size(); ++m)
                    expect_answers(json["meshes"][m], job.parts[p][m], rank);
            }
    }
}

TEST(Jobs, ACoordinateNamesARankIfOneMeshHasItsAxes) {
    const auto job = in_shell("dp=8 tp=2; edp=4 ep=4 + servers=4 tp=2");
    EXPECT_EQ(json_of("rank " + job + " ep=2,edp=1 --json"), json_of("rank " + job + " 6 --json"));
    EXPECT_EQ(json_of("rank " + job + " servers=1,tp=0 --json"), json_of("rank " + job + " 18 --json"));
    EXPECT_EQ(json_of("rank " + job + " dp=1,tp=0 --json")["rank"], 2);
    EXPECT_EQ(rankmesh("rank " + job + " tp=0 2>&1").output,
              "rankmesh: the meshes dp=8 tp=2 and servers=4 tp=2 @16 both have the axes tp; give one of them "
              "alone\n");
    EXPECT_EQ(rankmesh("rank " + job + " 24 2>&1").output,
              "rankmesh: rank 24 is in no mesh of dp=8 tp=2; edp=4 ep=4 + servers=4 tp=2 @16\n");
    EXPECT_EQ(rankmesh("rank " + job + " 17").output,
              "rank 17 is in part 2 of dp=8 tp=2; edp=4 ep=4 + servers=4 tp=2 @16\n"
              "\n"
              "rank 17 of servers=4 tp=2 @16\n"
              "\n"
              "  at    servers=0 tp=1\n"
              "\n"
              "  axis      index  prev  next  group\n"
              "  servers  0 of 4     -    19  {17, 19, 21, 23}  first\n"
              "  tp       1 of 2    16     -  {16, 17}          last\n");
}

/// The meshes of a job, as texts that name the same ranks alone.
std::vector<std::string> meshes_of(const RandomJob& job) {
    auto all = std::vector<std::string>{};
    for (const auto& part : job.parts)
        for (const auto& mesh : part) all.push_back(to_string(mesh));
    return all;
}

TEST(Jobs, WhatIsSaidOfEachMeshIsWhatIsSaidOfItAlone) {
    auto random = std::mt19937(5);
    for (int i = 0; i < support::fewer_if_sanitized(10); ++i) {
        const auto job = random_job(random);
        const auto other = random_job(random);
        const auto text = in_shell(job.text());
        const auto alone = meshes_of(job);
        const auto on = std::string(" --on 'node:12(50GB/s) gpu:8(400GB/s)'");
        const auto shown = json_of("show --width 80 " + text + " --json");
        const auto same = json_of("diff " + text + " " + text + " --json");
        EXPECT_EQ(same["same"], true) << text;
        auto checked = json_of("check " + text + " --json" + on);
        auto reports = std::map<std::string, nlohmann::json>{};
        if (!checked.contains("programs")) checked = {{"programs", nlohmann::json::array({checked})}};
        for (const auto& program : checked["programs"]) {
            auto clusters = program.contains("cluster") ? nlohmann::json::array({program["cluster"]})
                                                        : program["clusters"];
            auto meshes = program["mesh"].get<std::string>();
            for (const auto& cluster : clusters) {
                const auto end = meshes.find("; ");
                reports[meshes.substr(0, end)] = cluster;
                meshes.erase(0, end == std::string::npos ? end : end + 2);
            }
        }
        EXPECT_EQ(reports.size(), alone.size()) << text;
        for (std::size_t m = 0; m < alone.size(); ++m) {
            const auto mesh = in_shell(alone[m]);
            EXPECT_EQ(alone.size() == 1 ? shown : shown["meshes"][m],
                      json_of("show --width 80 " + mesh + " --json"));
            EXPECT_EQ(alone.size() == 1 ? same : same["meshes"][m],
                      json_of("diff " + mesh + " " + mesh + " --json"));
            EXPECT_EQ(reports[alone[m]], json_of("check " + mesh + " --json" + on)["cluster"]) << text;
        }
        // Of the same shape, the meshes are compared one by one; of another, refused.
        const auto outcome = rankmesh("diff " + text + " " + in_shell(other.text()) + " --json 2>/dev/null");
        auto shape = [](const RandomJob& one) {
            auto sizes = std::vector<std::size_t>{};
            for (const auto& part : one.parts) sizes.push_back(part.size());
            return sizes;
        };
        EXPECT_EQ(outcome.exit_code == 2, shape(job) != shape(other)) << text << other.text();
        if (outcome.exit_code == 2 || alone.size() == 1) continue;
        for (std::size_t m = 0; m < alone.size(); ++m)
            EXPECT_EQ(
                nlohmann::json::parse(outcome.output)["meshes"][m],
                json_of("diff " + in_shell(alone[m]) + " " + in_shell(meshes_of(other)[m]) + " --json"));
    }
}

TEST(Jobs, EverySubcommandTakesEveryTextOrSaysWhyNot) {
    auto random = std::mt19937(11);
    for (int i = 0; i < support::fewer_if_sanitized(6); ++i) {
        const auto job = random_job(random);
        const auto text = in_shell(job.text());
        const auto is_single = meshes_of(job).size() == 1;
        for (const auto* words :
             {"show", "draw --format txt", "draw --format svg", "draw --format html", "check", "groups AXES",
              "place --on 'node:12(5GB/s) gpu:8(9GB/s)'", "env --rank 0", "convert --from rankmesh --to vllm",
              "convert --from rankmesh --to megatron", "show --as vllm"}) {
            auto command = std::string(words);
            if (const auto at = command.find("AXES"); at != std::string::npos)
                command.replace(at, 4, job.parts[0][0].name(AxisId{0}));
            const auto end = command.find(' ');
            command =
                command.substr(0, end) + " " + text + (end == std::string::npos ? "" : command.substr(end));
            const auto outcome = rankmesh(command + " 2>&1 >/dev/null");
            if (is_single && !std::string(words).starts_with("env")) {
                EXPECT_LT(outcome.exit_code, 2) << command;
            }
            if (outcome.exit_code == 2) {
                EXPECT_TRUE(outcome.output.starts_with("rankmesh: ")) << outcome.output;
                EXPECT_EQ(lines_of(outcome.output).size(), 1U) << outcome.output;
            }
        }
    }
}

TEST(Jobs, DrawShowsEachMesh) {
    auto random = std::mt19937(2);
    for (int i = 0; i < 4; ++i) {
        const auto job = random_job(random);
        const auto meshes = meshes_of(job);
        auto ranks = 0;
        for (const auto& part : job.parts) ranks += part[0].size() * static_cast<int>(part.size());
        const auto count = [](const std::string& text, const std::string& word) {
            auto found = 0;
            for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
            return found;
        };
        EXPECT_EQ(count(rankmesh("draw " + in_shell(job.text()) + " --format svg").output, "class=\"rank"),
                  ranks);
        const auto page = rankmesh("draw " + in_shell(job.text()) + " --format html").output;
        EXPECT_EQ(count(page, "<iframe "), meshes.size() == 1 ? 0 : static_cast<int>(meshes.size()));
        for (const auto& mesh : meshes)
            EXPECT_GT(count(page, "<title>" + mesh) + count(page, "&lt;title>" + mesh), 0);
    }
}

TEST(Jobs, CheckCountsTheJoinOfAllMeshesOfAProgram) {
    const auto experts = json_of("check 'pp=2 dp=4 tp=2; pp=2 edp=2 ep=4' --engine nccl --json");
    // pp has the same groups in both, so a rank has five communicators, not six.
    EXPECT_EQ(experts["communicators"]["most"], 5);
    EXPECT_EQ(experts["sets"].size(), 6U);
    const auto servers = json_of("check 'dp=4 tp=2 + servers=4 tp=2' --engine nccl --json")["programs"][1];
    EXPECT_EQ(servers["mesh"], "servers=4 tp=2 @8");
    EXPECT_EQ(servers["world"], 2) << "a server is a job of its own";
    EXPECT_EQ(servers["sets"].size(), 1U);
    // A rule is of the meshes that have its axes; a set of axes, too.
    const auto on = std::string(" --on 'node:2 gpu:8' --keep ep:node --over dp,tp --json");
    const auto ruled = json_of("check 'dp=4 tp=2; edp=2 ep=4 + servers=4 tp=2'" + on)["programs"];
    EXPECT_TRUE(ruled[0]["clusters"][0]["rules"].empty());
    EXPECT_EQ(ruled[0]["clusters"][1]["rules"][0]["axes"], std::vector<std::string>{"ep"});
    EXPECT_TRUE(ruled[1]["cluster"]["rules"].empty());
    EXPECT_EQ(ruled[0]["sets"].size(), 5U);
    EXPECT_EQ(rankmesh("check 'dp=4; ep=4' --over dp,ep 2>&1").output,
              "rankmesh: no mesh of dp=4; ep=4 has the axes dp,ep\n");
    // The exit status is that of the worst mesh.
    EXPECT_EQ(rankmesh("check 'dp=4 tp=2 + servers=4 tp=2' --on 'node:2 gpu:8'").exit_code, 0);
    EXPECT_EQ(rankmesh("check 'dp=4 tp=2 + servers=4 tp=2' --on 'node:1 gpu:8'").exit_code, 1);
    EXPECT_EQ(rankmesh("check 'dp=4 tp=2 + tp=4 servers=2' --on 'node:4 gpu:4'").exit_code, 1);
}

TEST(Jobs, OneMeshIsAskedForWhereSeveralMakeNoSense) {
    const auto both = std::string("'dp=4; ep=4'");
    EXPECT_EQ(
        rankmesh("place " + both + " --on 'node:1 gpu:8' 2>&1").output,
        "rankmesh: place orders the ranks of one mesh, but dp=4; ep=4 has several, which share ranks or "
        "machines; place one alone, and give rankmesh check all of them with its order\n");
    EXPECT_EQ(
        rankmesh("env " + both + " 2>&1").output,
        "rankmesh: 'dp=4; ep=4' has several meshes, but this subcommand takes one; give one of them alone, "
        "such as 'dp=4' (show, draw, diff, rank, groups and check take several)\n");
    EXPECT_EQ(
        rankmesh("diff " + both + " dp=4 2>&1").output,
        "rankmesh: dp=4; ep=4 and dp=4 have other numbers of parts or meshes, and diff compares them one by "
        "one; leave out what only one has\n");
    EXPECT_EQ(
        rankmesh("show 'dp=4 + servers=2' --as megatron 2>&1").output,
        "rankmesh: dp=4 + servers=2 @4 has several layouts, but --as takes one; give one of them alone\n");
}

TEST(Jobs, AMillionRanksCostNoMore) {
    const auto job = std::string("'dp=65536 tp=16; edp=1024 ep=1024 + servers=65536 tp=8'");
    EXPECT_LT(rankmesh("show " + job).output.size(), 10000U);
    EXPECT_LT(rankmesh("check " + job + " --on 'node:200000(50GB/s) gpu:8(400GB/s)'").output.size(), 20000U);
    EXPECT_LT(rankmesh("rank " + job + " 1048577").output.size(), 1000U);
}

}  // namespace
}  // namespace rankmesh::tests
