// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/memory.hpp>

#include <gtest/gtest.h>

#include "plan/jobs.hpp"

namespace rankmesh::plan {
namespace {

TEST(Memory, IsTheSumOfItsParts) {
    for (const auto& job : some_jobs())
        for (const auto& layout : some_layouts(job)) {
            const auto memory = plan::memory(job, layout);
            EXPECT_EQ(memory.lower,
                      memory.parameters + memory.gradients + memory.optimizer + memory.activations);
            EXPECT_EQ(memory.allocated, memory.lower + memory.buffers);
            EXPECT_EQ(memory.estimate, memory.allocated + memory.overhead);
            for (const auto part : {memory.parameters, memory.gradients, memory.optimizer, memory.activations,
                                    memory.buffers, memory.overhead})
                EXPECT_GE(part, 0);
            EXPECT_GT(memory.activations, 0);
            EXPECT_GE(memory.stage, 0);
            EXPECT_LT(memory.stage, layout.pp);
        }
}

TEST(Memory, OfTheOptimizerIsDividedAmongTheRanksThatShardIt) {
    const auto job = job_of("llama3.1-8B", "H100", "Megatron-Core", 64, 128);
    const auto total = parameters(job.model).total - job.model.hidden;  // but the last norm
    auto layout = Layout{.dp = 64};
    const auto all = memory(job, layout);
    EXPECT_EQ(all.parameters, 2 * total);
    EXPECT_EQ(all.gradients, 4 * total);
    EXPECT_EQ(all.optimizer, 12 * total);
    layout.zero = 1;
    EXPECT_EQ(memory(job, layout).optimizer, 12 * total / 64);
    EXPECT_EQ(memory(job, layout).parameters, 2 * total);
    layout.zero_group = 8;
    EXPECT_EQ(memory(job, layout).optimizer, 12 * total / 8);
    layout.zero = 2;
    EXPECT_EQ(memory(job, layout).parameters, 2 * total + 4 * total / 8);
    EXPECT_EQ(memory(job, layout).gradients, 4 * total / 8);
    EXPECT_EQ(memory(job, layout).optimizer, 8 * total / 8);
    layout.zero = 3;
    EXPECT_EQ(memory(job, layout).parameters, 4 * total / 8);
    EXPECT_EQ(memory(job, layout).gradients, 4 * total / 8);
    EXPECT_EQ(memory(job, layout).optimizer, 8 * total / 8);
}

TEST(Memory, GrowsNeitherWithMoreReplicasNorWithMoreSharding) {
    for (const auto& job : some_jobs())
        for (auto layout : some_layouts(job)) {
            if (layout.zero == 0 || layout.pp > 1) continue;  // fewer micro-batches fill a pipeline less
            const auto before = memory(job, layout);
            layout.dp *= 2;
            const auto after = memory(job, layout);
            EXPECT_LE(after.parameters + after.gradients + after.optimizer,
                      before.parameters + before.gradients + before.optimizer);
            EXPECT_LE(after.estimate, before.estimate);
        }
}

TEST(Memory, OfActivationsShrinksWithRecomputation) {
    for (const auto& job : some_jobs())
        for (auto layout : some_layouts(job)) {
            layout.recompute = Recompute::none;
            layout.zero = 1;
            const auto none = memory(job, layout).activations;
            for (const auto recompute :
                 {Recompute::selective, Recompute::elementwise, Recompute::operations}) {
                layout.recompute = recompute;
                EXPECT_LE(memory(job, layout).activations, none);
            }
            layout.recompute = Recompute::full;
            auto last = none * 2;
            for (const auto layers : {1, 4, job.model.layers()}) {
                layout.recompute_layers = layers;
                EXPECT_LE(memory(job, layout).activations, last);
                last = memory(job, layout).activations;
            }
            layout.recompute_layers = 0;
            EXPECT_EQ(memory(job, layout).activations, last);
        }
}

TEST(Memory, OfTheOptimizerOfExpertsIsDividedAmongTheCopiesOfEachExpert) {
    const auto job = job_of("qwen3-235B-a22B", "H100", "Megatron-Core MoE", 64, 256);
    const auto& model = job.model;
    const auto counts = parameters(model);
    const auto experts = static_cast<double>(model.layers() * counts.kinds[0].expert * model.experts());
    const auto others = static_cast<double>(counts.total - model.hidden) - experts;  // but the last norm
    for (const int tp : {1, 2, 4})
        for (const int cp : {1, 2})
            for (const int ep : {1, 2, 8}) {
                const auto dp = 64 / tp / cp;
                const auto found =
                    memory(job, {.tp = tp, .cp = cp, .ep = ep, .dp = dp, .zero = 1, .micro_batch = 1});
                const auto held = others / tp / (dp * cp) + experts / ep / (64 / ep);
                EXPECT_NEAR(static_cast<double>(found.optimizer), 12 * held, 16)
                    << "tp=" << tp << " cp=" << cp << " ep=" << ep;
            }
}

TEST(Memory, OfExpertsGrowsByTheTokensThatEachFurtherOneIsGiven) {
    auto job = job_of("qwen3-235B-a22B", "H100", "Megatron-Core MoE", 64, 256);
    const auto& model = job.model;
    ASSERT_TRUE(layer_of(model).gated && model.kinds.size() == 1);
    for (const int tp : {1, 2})
        for (const int micro_batch : {1, 2}) {
            const auto layout = Layout{.tp = tp, .dp = 64 / tp, .zero = 1, .micro_batch = micro_batch};
            const auto tokens = job.sequence * micro_batch / tp;
            // Of each what is sent and received, and the three matrices' inputs and outputs, in two bytes.
            const auto each =
                tokens * (4 * std::int64_t{model.hidden} + 2 * 3 * std::int64_t{layer_of(model).expert_ffn});
            layer_of(job.model).top_k = 1;
            auto before = memory(job, layout).activations;
            while (++layer_of(job.model).top_k <= 8) {
                const auto after = memory(job, layout).activations;
                EXPECT_EQ(after - before, model.layers() * each)
                    << layer_of(model).top_k << " experts a token, tp=" << tp;
                before = after;
            }
        }
}

TEST(Memory, OfAPipelineIsThatOfTheMicroBatchesInFlight) {
    const auto job = job_of("gpt3-175B", "A100-SXM-80GB", "Megatron-Core", 64, 64);
    const auto one = memory(job, {.tp = 8, .sequence_parallel = true}).activations;
    // The first stage of four holds four micro-batches of a quarter of the layers, and interleaved more of
    // them.
    const auto four = memory(job, {.tp = 8, .pp = 4, .sequence_parallel = true});
    EXPECT_EQ(four.stage, 0);
    EXPECT_EQ(four.activations, one);
    EXPECT_GT(memory(job, {.tp = 8, .pp = 4, .vpp = 2, .sequence_parallel = true}).activations, one);
}

}  // namespace
}  // namespace rankmesh::plan
