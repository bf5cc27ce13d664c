// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/step.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "plan/constants.hpp"
#include "plan/jobs.hpp"
#include "support/text_of.hpp"

namespace rankmesh::plan {
namespace {

double sum(const Step& step) {
    return step.compute + step.attention + step.tp + step.cp + step.ep + step.dp + step.pp + step.bubble +
           step.head + step.optimizer;
}

TEST(Steps, AreTheSumOfTheirPartsAndLieInTheirIntervals) {
    for (const auto& job : some_jobs()) {
        const auto steps = Steps(job);
        const auto layouts = some_layouts(job);
        ASSERT_GT(layouts.size(), 50U) << job.model.name;
        for (const auto& layout : layouts) {
            const auto step = steps.step(layout);
            EXPECT_NEAR(sum(step), step.seconds, 1e-9 * step.seconds);
            EXPECT_TRUE(std::isfinite(step.seconds));
            EXPECT_GT(step.seconds, 0);
            EXPECT_LE(step.low, step.seconds);
            EXPECT_GE(step.high, step.seconds);
            for (const auto part : {step.compute, step.attention, step.tp, step.cp, step.ep, step.dp, step.pp,
                                    step.bubble, step.head, step.optimizer})
                EXPECT_GE(part, 0);
            EXPECT_EQ(step.tp > 0, layout.tp > 1);
            EXPECT_EQ(step.cp > 0, layout.cp > 1);
            EXPECT_EQ(step.ep > 0, layout.ep > 1);
            EXPECT_EQ(step.pp > 0, layout.pp > 1);
            EXPECT_EQ(step.bubble > 0, layout.pp > 1);
            EXPECT_EQ(step.dp > 0, layout.dp * layout.cp > 1);
        }
    }
}

TEST(Steps, AreThoseOfTheSlowestStageForEachMicroBatchAndTheBubble) {
    // m * slowest + (sum - slowest) / vpp, worked out from the pieces.
    auto job = job_of("gpt3-175B", "A100-SXM-80GB", "Megatron-LM", 64, 64);
    const auto constants = Constants{.stragglers = 0};
    const auto steps = Steps(job, constants);
    for (const auto& layout : {Layout{.tp = 8, .pp = 8}, Layout{.tp = 8, .pp = 8, .vpp = 3},
                               Layout{.tp = 8, .pp = 8, .first_layers = 5, .last_layers = 1}}) {
        const auto pieces = steps.pieces(layout);
        const auto step = steps.step(pieces, layout);
        auto slowest = 0.0, all = 0.0;
        const auto send = step.pp / 64 / job.stack.scale;
        for (int stage = 0; stage < 8; ++stage) {
            const auto time = stage_layers(layout, 96, stage) * pieces.kinds[0].sum() +
                              (stage == 0 ? pieces.embedding : 0) + (stage == 7 ? pieces.head : 0) + send;
            slowest = std::max(slowest, time);
            all += time;
        }
        const auto expected = 64 * slowest + (all - slowest) / layout.vpp;
        EXPECT_NEAR((step.seconds - step.optimizer - step.dp) / job.stack.scale, expected, 1e-9 * expected);
    }
}

TEST(Steps, TakeTwiceTheTimeForTwiceTheBatchButForWhatComesOnce) {
    for (auto job : some_jobs())
        for (const auto& layout : some_layouts(job)) {
            if (layout.zero >= 2) continue;  // their gathering hides behind compute
            const auto once = step(job, layout);
            auto twice_job = job;
            twice_job.batch *= 2;
            const auto twice = step(twice_job, layout);
            for (const auto part :
                 {&Step::compute, &Step::attention, &Step::tp, &Step::cp, &Step::ep, &Step::pp, &Step::head})
                EXPECT_NEAR(twice.*part, 2 * (once.*part), 1e-9 * once.seconds);
            EXPECT_NEAR(twice.bubble, once.bubble, 1e-9 * once.seconds);
            EXPECT_NEAR(twice.optimizer, once.optimizer, 1e-9 * once.seconds);
        }
}

TEST(Steps, ComputeAgainOnlyWhatIsAskedFor) {
    for (const auto& job : some_jobs()) {
        auto layout = Layout{.pp = 2, .dp = 32};
        const auto seconds = [&](Recompute recompute, int layers = 0) {
            layout.recompute = recompute;
            layout.recompute_layers = layers;
            return step(job, layout).seconds;
        };
        const auto none = seconds(Recompute::none), full = seconds(Recompute::full);
        for (const auto some : {seconds(Recompute::selective), seconds(Recompute::elementwise),
                                seconds(Recompute::operations)}) {
            EXPECT_GT(some, none);
            EXPECT_LT(some, full);
        }
        auto last = none;
        for (const auto layers : {1, 2, 8}) {
            EXPECT_GT(seconds(Recompute::full, layers), last);
            last = seconds(Recompute::full, layers);
        }
        EXPECT_LT(last, full);
        EXPECT_NEAR(seconds(Recompute::full, job.model.layers()), full, 1e-9 * full);
    }
}

TEST(Steps, AreNoSlowerOnFasterMachines) {
    for (const auto& job : some_jobs())
        for (const auto& layout : some_layouts(job)) {
            const auto before = step(job, layout).seconds;
            for (const auto faster : {&Machine::scale_up, &Machine::scale_out}) {
                auto other = job;
                other.machine.*faster *= 2;
                EXPECT_LE(step(other, layout).seconds, before * (1 + 1e-12));
            }
            for (const auto faster : {&Device::gemm_rate, &Device::memory_bandwidth}) {
                auto other = job;
                other.machine.device.*faster *= 2;
                EXPECT_LT(step(other, layout).seconds, before);
            }
        }
}

TEST(Steps, OverEqualLinksSendTokensAsFastBetweenNodesAsInside) {
    auto compared = 0;
    for (auto job : some_jobs()) {
        job.stack.tokens_once = false;
        job.machine.scale_out = job.machine.scale_up;
        for (const auto& layout : some_layouts(job)) {
            if (layout.ep == 1) continue;
            const auto seconds = [&](int node) {
                job.machine.node = node;
                return Steps(job).pieces(layout).kinds.back().ep;
            };
            const auto inside = seconds(job.devices);
            EXPECT_GT(inside, 0);
            for (const auto node : {1, 2, 4}) EXPECT_NEAR(seconds(node), inside, inside * 1e-9) << node;
            ++compared;
        }
    }
    EXPECT_GT(compared, 100);
}

TEST(Steps, Dispatch_WhenOnce_SendsEachRankOneCopy) {
    auto random = std::mt19937(5);
    for (const auto node : {64, 8}) {
        auto job = job_of("qwen3-235B-a22B", "H100", "torchtitan", 64, 4096);
        job.machine.node = node;
        job.machine.scale_up = node == 8 ? 1e15 : 450e9;  // the slower links bind
        for (const int ep : {2, 8, 32, 64}) {
            const auto places = node == 8 ? ep / node : ep;  // nodes, or ranks
            if (places < 2) continue;
            auto experts = std::vector<int>(static_cast<std::size_t>(job.model.experts()));
            std::iota(experts.begin(), experts.end(), 0);
            constexpr auto tokens = 20000;
            auto copies = 0.0;
            for (int token = 0; token < tokens; ++token) {
                auto seen = std::set<int>{};
                for (int i = 0; i < layer_of(job.model).top_k; ++i) {
                    const auto at = std::uniform_int_distribution(i, job.model.experts() - 1)(random);
                    std::swap(experts[static_cast<std::size_t>(i)], experts[static_cast<std::size_t>(at)]);
                    seen.insert(experts[static_cast<std::size_t>(i)] * places / job.model.experts());
                }
                copies += static_cast<double>(seen.size()) / tokens;
            }
            const auto sent = [&](bool once) {
                const auto layout = Layout{.ep = ep, .dp = 64, .micro_batch = 8, .dispatch_once = once};
                return Steps(job).pieces(layout).kinds.back().ep - 4 * Constants{}.all_to_all;
            };
            EXPECT_NEAR(sent(true) / sent(false), copies / layer_of(job.model).top_k, 0.03)
                << node << " " << ep;
        }
    }
}

TEST(Steps, Overlap_OverFewerNetworkCards_HoldsFewerChannels) {
    struct Case {
        const char* device;
        int tp;
        double share;  // of 16 channels; a card for each device of a node that is in the ring
    };
    for (const auto& [device, tp, share] : {Case{"H100-SXM-80GB", 8, 0.25},
                                            {"H100-SXM-80GB", 4, 0.5},
                                            {"H100-SXM-80GB", 2, 1},
                                            {"A100-SXM-80GB", 8, 0.125},
                                            {"A100-SXM-80GB", 1, 1}}) {
        const auto job = job_of("llama3.1-8B", device, "Megatron-Core", 64, 512);
        auto all = Constants{};
        all.channels = 0;
        const auto layout = Layout{.tp = tp, .dp = 64 / tp, .zero = 1};
        EXPECT_NEAR(Steps(job).step(layout).dp, share * Steps(job, all).step(layout).dp, 1e-9)
            << device << " " << tp;
    }
}

TEST(Steps, Overlap_WhenTheHostIsSlow_GainsNothing) {
    auto job = job_of("qwen3-235B-a22B", "H100-SXM-80GB", "Megatron-Core MoE", 256, 512);
    job.stack.expert_launch = 1;
    auto layout = Layout{.ep = 32, .pp = 2, .dp = 128};
    const auto shown = Steps(job).step(layout).seconds;
    layout.overlap_experts = true;
    EXPECT_NEAR(Steps(job).step(layout).seconds, shown, 1e-9 * shown);
}

TEST(Steps, RefuseJobsThatCannotBe) {
    const auto text = [](auto change) {
        auto job = some_jobs()[0];
        change(job);
        return text_of([&] { Steps{job}; });
    };
    EXPECT_EQ(text([](Job&) {}), "");
    EXPECT_EQ(text([](Job& job) { job.batch = -1; }),
              "the job has a batch of sequences: -1; it takes 1 to 2^40");
    EXPECT_EQ(text([](Job& job) { job.sequence = 0; }),
              "the job has a sequence of tokens: 0; it takes 1 to 2^30");
    EXPECT_EQ(text([](Job& job) { job.machine.node = 0; }),
              "the job has devices of a node: 0; it takes 1 or more");
    EXPECT_EQ(text([](Job& job) { job.machine.scale_out = std::nan(""); }),
              "the job has a scale-out bandwidth of nan; it takes bytes a second above 0, at most 1e21");
    EXPECT_EQ(text([](Job& job) { job.machine.device.memory = 0; }),
              "the device 'H100-SXM-80GB' has a memory of 0.000000; it takes more than 0 and at most 1e21");
    EXPECT_EQ(text([](Job& job) { job.stack.scale = 0; }),
              "the job has a scale of 0.000000; it takes more than 0 and at most 1e6");
    EXPECT_EQ(text([](Job& job) { job.model.runs.clear(); }),
              "the model 'llama3.1-8B' has layers=0; it takes 1 to 100000");
}

}  // namespace
}  // namespace rankmesh::plan
