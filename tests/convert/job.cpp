// SPDX-License-Identifier: Apache-2.0
#include "convert/job.hpp"

#include <gtest/gtest.h>

#include <map>

#include <rankmesh/convert/convert.hpp>

#include "support/jobs.hpp"

namespace rankmesh::tests {
namespace {

using conversion::parse_job;

std::string refusal_of(const std::string& text, std::optional<int> world = {}) {
    try {
        return to_string(parse_job(text, world));
    } catch (const UsageError& error) {
        return error.what();
    }
}

TEST(JobText, ParsesBackAndKnowsThePartOfEachRank) {
    auto random = std::mt19937(58);
    for (int i = 0; i < 300; ++i) {
        const auto given = random_job(random);
        const auto job = parse_job(given.text(), {});
        auto parts = std::map<int, std::size_t>{};
        ASSERT_EQ(job.parts.size(), given.parts.size()) << given.text();
        for (std::size_t p = 0; p < job.parts.size(); ++p) {
            ASSERT_EQ(job.parts[p].meshes.size(), given.parts[p].size()) << given.text();
            for (std::size_t m = 0; m < given.parts[p].size(); ++m)
                EXPECT_EQ(job.parts[p].meshes[m], Placement(given.parts[p][m])) << given.text();
            for (const auto rank : given.parts[p][0].ranks()) parts[rank] = p;
        }
        EXPECT_EQ(job.size(), static_cast<int>(parts.size()));
        EXPECT_EQ(job.extent(), parts.rbegin()->first + 1);
        for (int rank = 0; rank < job.extent() + 2; ++rank)
            if (parts.contains(rank))
                EXPECT_EQ(job.part_of(rank), parts[rank]) << given.text();
            else
                EXPECT_THROW(job.part_of(rank), UsageError) << given.text();
        EXPECT_EQ(to_string(parse_job(to_string(job), {})), to_string(job));
    }
}

TEST(JobText, ARestIsWhatTheOtherPartsLeave) {
    auto random = std::mt19937(7);
    for (int i = 0; i < 300; ++i) {
        const auto given = random_job(random, false);
        for (std::size_t p = 0; p < given.parts.size(); ++p)
            EXPECT_EQ(to_string(parse_job(given.text(static_cast<int>(p)), given.extent())),
                      to_string(parse_job(given.text(), {})))
                << given.text(static_cast<int>(p));
    }
    EXPECT_EQ(refusal_of("dp=8 tp=2; edp=* ep=4"), "dp=8 tp=2; edp=4 ep=4");
    EXPECT_EQ(refusal_of("dp=* tp=2; edp=4 ep=4 + tp=2"), "dp=8 tp=2; edp=4 ep=4 + tp=2 @16");
}

TEST(JobText, WhatIsNoJobIsRefusedInASentence) {
    EXPECT_EQ(refusal_of("dp=4; tp=2"),
              "the meshes dp=4 and tp=2 are over different ranks; write '+' between such meshes");
    EXPECT_EQ(refusal_of("dp=4 + tp=2 @2"),
              "the parts dp=4 and tp=2 @2 share ranks; write ';' between meshes over the same ranks");
    EXPECT_EQ(refusal_of("dp=4:2 + tp=4:2 @1"), "dp=4:2 + tp=4:2 @1") << "between one another's ranks";
    EXPECT_EQ(refusal_of("dp=4:2 + tp=2:2 @4"),
              "the parts dp=4:2 and tp=2:2 @4 share ranks; write ';' between meshes over the same ranks");
    EXPECT_EQ(refusal_of("dp=2 @[3,1] + tp=2 + ep=1 @0; tp=1 @[0]"),
              "dp=2 @[3,1] + tp=2 @4 + ep=1 @0; tp=1 @[0]");
    EXPECT_EQ(refusal_of("dp=* + tp=*", 8),
              "the meshes dp=* and tp=* both have a size '*'; give all sizes of one of them");
    EXPECT_EQ(refusal_of("dp=* tp=3 + tp=2", 9),
              "mesh dp=* tp=3 does not fit a world of 7: the known sizes make 3, which does not divide 7");
    for (const auto* text : {"", "dp=4;", "+", "dp=4 +", "; dp=4"})
        EXPECT_EQ(refusal_of(text), "a mesh without axes; name at least one, as in 'dp=8'") << text;
    EXPECT_EQ(to_string(parse_job("dp=65536 tp=16; edp=1024 ep=1024 + servers=4096 tp=8", {})),
              "dp=65536 tp=16; edp=1024 ep=1024 + servers=4096 tp=8 @1048576");
}

TEST(JobText, ConvertsOntoItself) {
    auto random = std::mt19937(3);
    for (int i = 0; i < 100; ++i) {
        const auto text = to_string(parse_job(random_job(random).text(), {}));
        const auto same = convert_text("rankmesh", "rankmesh", text);
        EXPECT_EQ(same.text, text);
        EXPECT_EQ(same.mesh_to, text);
        EXPECT_EQ(same.moved, 0);
        EXPECT_TRUE(same.lost.empty());
    }
}

TEST(JobText, GivesEachFrameworkItsOwnLayout) {
    const auto text = std::string("dp=8 tp=2; edp=4 ep=4 + servers=3 tp=2");
    const auto served = convert_text("rankmesh", "vllm", text);
    EXPECT_EQ(served.text,
              "--tensor-parallel-size 2  # server 0 of 3\n"
              "--tensor-parallel-size 2  # server 1 of 3\n"
              "--tensor-parallel-size 2  # server 2 of 3");
    EXPECT_EQ(served.mesh_from, "servers=3 tp=2");
    EXPECT_EQ(served.notes.back(), "this is the layout of the rollouts; training has dp=8 tp=2; edp=4 ep=4");
    EXPECT_EQ(convert_text("vllm", "rankmesh", *served.text).text, "dp=1 pp=1 tp=2") << "each is one server";
    for (const auto* to : {"torch", "megatron", "torchtitan", "deepspeed"}) {
        const auto trained = convert_text("rankmesh", to, text);
        EXPECT_EQ(trained.mesh_from, "dp=8 tp=2; edp=4 ep=4") << to;
        EXPECT_EQ(trained.lost.back().what, "servers=3 tp=2") << to;
    }
    // The order of the parts and the ranks they begin at change nothing.
    EXPECT_EQ(convert_text("rankmesh", "megatron", "servers=3 tp=2 + dp=8 tp=2; edp=4 ep=4").text,
              convert_text("rankmesh", "megatron", "dp=8 tp=2; edp=4 ep=4").text);
    const auto many = convert_text("rankmesh", "sglang", "servers=100000 tp=8").text.value();
    EXPECT_LT(many.size(), 1000U);
    EXPECT_TRUE(many.ends_with("\n# ... the same for 99984 more")) << many;
    EXPECT_EQ(convert_text("rankmesh", "sglang", "servers=1 tp=8").text, "--tensor-parallel-size 8");
    try {
        convert_text("rankmesh", "megatron", "dp=2 + dp=4 tp=2 + servers=2 tp=2");
        ADD_FAILURE();
    } catch (const UsageError& error) {
        EXPECT_STREQ(error.what(),
                     "the job dp=2 + dp=4 tp=2 @2 + servers=2 tp=2 @10 has 2 layouts for megatron: 'dp=2', "
                     "'dp=4 tp=2'; give one of them alone");
    }
}

TEST(JobText, SaysTheRolloutsOfVerl) {
    const auto both = convert_text("verl", "rankmesh",
                                   "fsdp_size=8 rollout_tensor_model_parallel_size=4 "
                                   "rollout_data_parallel_size=2 world_size=16");
    EXPECT_EQ(both.text, "dp_replicate=2 dp_shard=8; servers=2 dp=2 pp=1 tp=4");
    EXPECT_TRUE(both.lost.empty()) << both.lost.front().what;
    const auto served = convert_text("rankmesh", "vllm", *both.text);
    EXPECT_TRUE(served.text->ends_with("# server 1 of 2")) << *served.text;
    EXPECT_EQ(convert_text("rankmesh", "verl", *both.text).lost.back().what, "servers=2 dp=2 pp=1 tp=4");
}

TEST(JobText, ASecondLayoutOfTheSameAxesIsNamed) {
    const auto found = convert_text("rankmesh", "torchtitan", "dp=4 tp=2; dp=2 tp=4");
    ASSERT_EQ(found.lost.size(), 2U);
    EXPECT_EQ(found.lost[0].what, "dp=2");
    EXPECT_EQ(found.lost[1].what, "tp=4");
}

}  // namespace
}  // namespace rankmesh::tests
