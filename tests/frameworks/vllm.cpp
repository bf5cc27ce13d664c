// SPDX-License-Identifier: Apache-2.0
// vLLM's own groups, as its source lists them.
#include <gtest/gtest.h>

#include <rankmesh/convert/convert.hpp>
#include <rankmesh/frameworks/groups.hpp>

#include "lists.hpp"

using namespace rankmesh;
using tests::lists;
using tests::Lists;

TEST(Vllm, DecodeContextGoesOverPrefillContextFirst) {
    const auto groups = frameworks::Groups("vllm",
                                           {{"tensor_model_parallel_size", 4},
                                            {"prefill_context_model_parallel_size", 2},
                                            {"decode_context_model_parallel_size", 4}},
                                           8);
    EXPECT_EQ(lists(groups, "dcp"), (Lists{{0, 4, 1, 5}, {2, 6, 3, 7}}));
    EXPECT_EQ(lists(groups, "pcp"), (Lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
    EXPECT_EQ(lists(groups, "ep"), (Lists{{0, 1, 2, 3, 4, 5, 6, 7}}));
}

TEST(Vllm, TensorRanksStandNextToEachOtherAndStagesFurtherApart) {
    const auto groups = frameworks::Groups(
        "vllm", {{"tensor_model_parallel_size", 2}, {"pipeline_model_parallel_size", 2}, {"is_moe", false}},
        8);
    EXPECT_EQ(lists(groups, "tp"), (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
    EXPECT_EQ(lists(groups, "pp"), (Lists{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
    EXPECT_FALSE(groups.has("ep"));
}

TEST(Vllm, ExpertsAreMovedOnAChannelOfTheirOwn) {
    const auto groups =
        frameworks::Groups("vllm", {{"tensor_model_parallel_size", 2}, {"enable_eplb", true}}, 4);
    EXPECT_EQ(lists(groups, "eplb"), lists(groups, "ep"));
    for (const auto& declared : groups.plan()) {
        const auto apart = !declared.over.empty() && declared.over[0].separate_name() == "group";
        EXPECT_EQ(apart, groups.is_apart(declared.name)) << declared.name;
        EXPECT_EQ(apart, declared.name == "eplb") << declared.name;
    }
}

TEST(Vllm, AServerRefusesWhatItsConfigurationRefuses) {
    const auto text = [](const std::string& settings) {
        try {
            return convert_text("vllm", "rankmesh", settings).text.value_or("");
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
    };
    EXPECT_EQ(text("tensor_parallel_size=4 decode_context_parallel_size=3"),
              "decode_context_parallel_size 3 does not divide tensor_parallel_size 4");
    EXPECT_EQ(text("tensor_parallel_size=4 prefill_context_parallel_size=2 decode_context_parallel_size=4"),
              "decode_context_parallel_size is 4; with prefill_context_parallel_size 2 and "
              "tensor_parallel_size 4 it is 1, "
              "2 or 8");
    EXPECT_EQ(text(R"({"tensor_parallel_size": 4, "enable_eplb": true})"),
              "enable_eplb balances whole experts; give enable_expert_parallel as well");
}
