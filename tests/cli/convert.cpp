// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "rankmesh.hpp"

namespace rankmesh::tests {
namespace {

TEST(Convert, NamesWhatIsLostAndAnswersNo) {
    const auto flags =
        "-- --pipeline-model-parallel-size 2 --expert-model-parallel-size 2 "
        "--num-virtual-stages-per-pipeline-rank 3";
    const auto outcome = rankmesh(std::string("convert --from megatron --to picotron --world 8 ") + flags);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_TRUE(outcome.output.ends_with(
        "# lost: edp=2, ep=2: picotron has no expert parallelism\n"
        "# lost: virtual pipeline stages 3: picotron's pipeline has one stage a rank\n"))
        << outcome.output;
    const auto none = rankmesh("convert --from rankmesh --to tensorrt-llm 'dp=2 tp=2'");
    EXPECT_EQ(none.exit_code, 1);
    EXPECT_EQ(none.output,
              "# dp=2 tp=2 has no equivalent in tensorrt-llm\n"
              "# lost: dp=2: TensorRT-LLM's Mapping has no data parallelism; each replica is a server of "
              "its own\n");
    EXPECT_EQ(rankmesh("convert --from rankmesh --to picotron 'dp=2 tpp=2'").output,
              "# dp=2 tpp=2 has no equivalent in picotron\n"
              "# lost: tpp=2: picotron has no such axis; it has dp, pp, cp, tp; did you mean 'tp'?\n");
    EXPECT_EQ(rankmesh("convert --from picotron --to olmo tp_size=2").exit_code, 0);
}

TEST(Convert, NamesACallOnlyWhereFewerMoveWithIt) {
    const auto notes = [](const std::string& mesh) {
        return rankmesh("convert --from rankmesh --to megatron '" + mesh + "' 2>&1 >/dev/null").output;
    };
    // Replicas stand outside of shards whatever the order.
    EXPECT_EQ(notes("dp_shard=2 dp_replicate=2").find(" would move "), std::string::npos);
    EXPECT_EQ(notes("pp=2 dp=2").find(" would move "), std::string::npos);
    EXPECT_TRUE(
        notes("cp=2 dp=2 tp=2")
            .ends_with("# no rank would move with initialize_model_parallel(order=\"tp-ep-dp-cp-pp\")\n"))
        << notes("cp=2 dp=2 tp=2");
    EXPECT_EQ(notes("tp=2 dp_shard=2 dp_replicate=2 cp=2").find("no rank would"), std::string::npos);
    EXPECT_NE(notes("tp=2 dp_shard=2 dp_replicate=2 cp=2").find(" would move with initialize_"),
              std::string::npos)
        << notes("tp=2 dp_shard=2 dp_replicate=2 cp=2");
}

TEST(Convert, RefusesWhatTheFrameworkRefuses) {
    const auto dense =
        std::string("tensor_parallel_degree=2 context_parallel_degree=2 data_parallel_shard_degree=4 ");
    EXPECT_EQ(rankmesh("convert --from picotron --to olmo pp_engine=zb tp_size=2").output,
              "rankmesh: pp_engine is 'zb'; it must be 1f1b or afab\n");
    EXPECT_EQ(rankmesh("convert --from torchtitan --to torch data_parallel_shard_degree=1 "
                       "tensor_parallel_degree=2147483647 context_parallel_degree=2147483647 --world 8")
                  .exit_code,
              2);
    for (const auto* wrong :
         {"expert_parallel_degree=3", "expert_parallel_degree=2 expert_tensor_parallel_degree=4"})
        EXPECT_EQ(rankmesh("convert --from torchtitan --to torch " + dense + wrong).exit_code, 2) << wrong;
    EXPECT_EQ(rankmesh("convert --from torchtitan --to torch " + dense + "expert_parallel_degree=3").output,
              "rankmesh: expert_parallel_degree is 3 and expert_tensor_parallel_degree 1; the second is 1 or "
              "the tensor "
              "parallel degree 2, and their product divides dp_shard * cp * tp, which is 16\n");
}

TEST(Convert, IsShortForAMillionRanks) {
    const auto outcome =
        rankmesh("convert --from picotron --to torchtitan tp_size=8 pp_size=16 dp_size=8192");
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_LT(outcome.output.size(), 600U) << outcome.output;
    EXPECT_NE(outcome.output.find("of 1048576 ranks move: 8 → 65536, "), std::string::npos) << outcome.output;
}

}  // namespace
}  // namespace rankmesh::tests
