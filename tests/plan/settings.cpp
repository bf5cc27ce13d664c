// SPDX-License-Identifier: Apache-2.0
// Settings beside the sizes: schedules, precision of what is kept, offloading, experts.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include <rankmesh/plan/advice.hpp>
#include <rankmesh/plan/memory.hpp>
#include <rankmesh/plan/step.hpp>

#include "plan/constants.hpp"
#include "plan/jobs.hpp"
#include "support/text_of.hpp"

namespace rankmesh::plan {
namespace {

TEST(Settings, SaveMemoryAndNoneMakesAStepFasterByItself) {
    for (auto job : some_jobs()) {
        job.precision = job.machine.device.fp8_rate > 0 ? Precision::fp8 : Precision::bf16;
        for (const auto& layout : some_layouts(job)) {
            if (layout.ep > 1) continue;  // dispatch in FP8 sends less
            const auto before = memory(job, layout).estimate;
            const auto seconds = step(job, layout).seconds;
            const auto expect = [&](bool smaller, auto change) {
                auto other = layout;
                change(other);
                const auto after = memory(job, other).estimate;
                EXPECT_LE(after, before) << to_string(other);
                EXPECT_EQ(after < before, smaller) << to_string(other);
                EXPECT_GE(step(job, other).seconds, seconds * (1 - 1e-12)) << to_string(other);
            };
            expect(true, [](Layout& l) { l.bf16_moments = true; });
            expect(true, [](Layout& l) { l.offload = 50; });
            if (layout.recompute != Recompute::operations && layout.recompute != Recompute::full)
                expect(true, [](Layout& l) { l.fp8_activations = true; });
            auto half = layout;
            half.gradient_bytes = 2;
            EXPECT_LE(memory(job, half).estimate, before);
            EXPECT_LE(step(job, half).seconds, seconds * (1 + 1e-12));
        }
    }
}

TEST(Settings, OfSchedulesShortenTheBubbleOnly) {
    auto job = job_of("deepseek-v3", "H800-SXM-80GB", "", 256, 2048);
    const auto steps = Steps(job);
    for (const auto pp : {2, 4, 8, 16}) {
        auto layout = Layout{.ep = 8, .pp = pp, .dp = 256 / pp, .zero = 1};
        const auto plain = steps.step(layout);
        layout.schedule = Schedule::zero_bubble;
        const auto zero = steps.step(layout);
        layout.schedule = Schedule::dual_pipe;
        const auto dual = steps.step(layout);
        EXPECT_LT(zero.bubble, plain.bubble) << pp;
        EXPECT_LE(dual.bubble, plain.bubble) << pp;
        EXPECT_DOUBLE_EQ(zero.compute, plain.compute);
        EXPECT_EQ(plain.beyond, "");
        EXPECT_EQ(zero.beyond, "no measured step of this schedule");
        EXPECT_GT(zero.high / zero.seconds, plain.high / plain.seconds);
        // In DualPipe each device runs two stages, number i from either end. So the busiest device has no
        // more to do.
        const auto busy = [](const Step& step) {
            return step.compute + step.attention + step.ep + step.head;
        };
        EXPECT_LE(busy(dual), busy(plain) * (1 + 1e-12)) << pp;
    }
}

TEST(Settings, OfDualPipeHoldEachStageTwice) {
    auto job = job_of("llama3.1-8B", "H100", "", 64, 512);
    job.model.tied = false;
    auto layout = Layout{.pp = 4, .dp = 16, .zero = 1};
    auto dual = layout;
    dual.schedule = Schedule::dual_pipe;
    const auto one = memory(job, layout), two = memory(job, dual);
    // The first stage holds the embedding; with its mirror image, also the head.
    const auto counts = parameters(job.model);
    EXPECT_NEAR(static_cast<double>(two.parameters),
                2.0 * static_cast<double>(16 * counts.kinds[0].all + 2 * counts.embedding), 1e3);
    EXPECT_GT(two.parameters, one.parameters);
    EXPECT_NEAR(static_cast<double>(two.activations), 5.0 / 4 * static_cast<double>(one.activations),
                1e-6 * static_cast<double>(one.activations));
}

TEST(Settings, HideAllToAllBesideCompute) {
    const auto job = job_of("qwen3-235B-a22B", "H100", "Megatron-Core MoE", 64, 256);
    auto layout = Layout{.ep = 16, .dp = 64, .zero = 1};
    const auto shown = step(job, layout).ep;
    layout.overlap_experts = true;
    const auto hidden = step(job, layout).ep;
    EXPECT_LT(hidden, shown);
    EXPECT_GE(hidden, Constants{}.expert_overlap * shown * (1 - 1e-9));
}

TEST(Settings, SendTokensToFewNodesIfTheModelRoutesSo) {
    auto job = job_of("deepseek-v3", "H800-SXM-80GB", "", 128, 512);
    job.stack.tokens_once = true;
    const auto layout = Layout{.ep = 64, .dp = 128, .zero = 1};
    auto last = step(job, layout).ep;
    for (const auto nodes : {3, 2, 1}) {
        job.model.most_nodes = nodes;
        EXPECT_LT(step(job, layout).ep, last) << nodes;
        last = step(job, layout).ep;
    }
}

TEST(Settings, OfShardedGradientsSendThoseOfExpertsToo) {
    const auto job = job_of("qwen3-235B-a22B", "H100", "", 256, 1024);
    auto layout = Layout{.ep = 8, .dp = 256, .zero = 1};
    auto slower = job;
    slower.machine.scale_out /= 4;
    for (const auto zero : {1, 2, 3}) {
        layout.zero = zero;
        EXPECT_GT(step(job, layout).dp, 0.1) << zero;  // 60 GB of experts at 50 GB/s
        EXPECT_GT(step(slower, layout).dp, step(job, layout).dp) << zero;
    }
}

TEST(Settings, ShardExpertsInside) {
    const auto job = job_of("grok1-314B", "H100", "NeMo", 256, 1024);
    auto layout = Layout{.tp = 4, .ep = 8, .pp = 4, .dp = 16, .zero = 1, .sequence_parallel = true};
    const auto whole = memory(job, layout);
    layout.etp = 4;
    EXPECT_LT(memory(job, layout).parameters, whole.parameters);
    const auto text = [&](const Layout& one) {
        return text_of([&] { check(one, job.model, job.batch, job.sequence); });
    };
    EXPECT_EQ(text(layout), "");
    layout.etp = 3;
    EXPECT_EQ(text(layout), "the layout has etp=3, which does not divide the 32768 columns of an expert");
    layout.etp = 32;
    EXPECT_EQ(text(layout), "the layout has ep*etp=256, which does not divide its tp*cp*dp=64");
}

TEST(Settings, SayWhyTheyCannotBe) {
    const auto& dense = known("llama3.1-8B");
    const auto text = [&](Layout layout, auto change) {
        change(layout);
        return text_of([&] { check(layout, dense, 16, 8192); });
    };
    const auto dual = [](Layout& l) { l.schedule = Schedule::dual_pipe; };
    EXPECT_EQ(text({}, dual), "the layout has schedule=dualpipe on one stage; it takes pp=2 or more");
    EXPECT_EQ(text({.pp = 2, .vpp = 2}, dual), "the layout has schedule=dualpipe with vpp=2; it takes vpp=1");
    EXPECT_EQ(text({.pp = 3}, dual), "the layout has schedule=dualpipe with pp=3; it takes an even pp");
    EXPECT_EQ(text({.pp = 16}, dual),
              "the layout has schedule=dualpipe, which takes an even number of micro-batches, at least "
              "2*pp=32; there are 16");
    EXPECT_EQ(text({.pp = 8}, dual), "");
    EXPECT_EQ(text({}, [](Layout& l) { l.schedule = Schedule::zero_bubble; }),
              "the layout has schedule=zb on one stage; it takes pp=2 or more");
    EXPECT_EQ(text({}, [](Layout& l) { l.overlap_experts = true; }),
              "the layout has overlap=ep, but ep=1 sends nothing to hide");
    EXPECT_EQ(text({}, [](Layout& l) { l.dispatch_once = true; }),
              "the layout has dispatch=once, but ep=1 sends nothing");
    EXPECT_EQ(text({}, [](Layout& l) { l.etp = 2; }), "the layout has etp=2, but the model has no experts");
    EXPECT_EQ(text({}, [](Layout& l) { l.offload = 101; }), "the layout has offload=101; it takes 0 to 100");
    EXPECT_EQ(text_of([] { static_cast<void>(read_layout("pp=2 schedule=gpipe")); }),
              "the layout's schedule is 'gpipe'; it must be one of 1f1b, zb and dualpipe");
}

TEST(Settings, AreReadAsTheyArePrinted) {
    auto layout = Layout{.ep = 8, .pp = 8, .dp = 32, .etp = 2};
    layout.schedule = Schedule::dual_pipe;
    layout.dispatch_once = layout.overlap_experts = layout.bf16_moments = layout.fp8_activations = true;
    layout.gradient_bytes = 2;
    layout.offload = 50;
    EXPECT_EQ(to_string(layout),
              "pp=8 dp=32 ep=8 mbs=1 zero=0 recompute=none etp=2 schedule=dualpipe overlap=ep "
              "dispatch=once grads=bf16 moments=bf16 acts=fp8 offload=50");
    EXPECT_EQ(read_layout(to_string(layout)), layout);
    EXPECT_EQ(read_layout("pp=2 schedule=1f1b grads=fp32 moments=fp32 acts=bf16").gradient_bytes, 4);
    auto options = Options{};
    for (const auto* text : {"etp=2", "schedule=dualpipe", "overlap=ep", "dispatch=once", "grads=bf16",
                             "moments=bf16", "acts=fp8", "offload=50"})
        fix(options, text);
    auto base = layout;
    base.ep = base.pp = base.dp = 1;
    EXPECT_EQ(options.base, base);
}

TEST(Settings, ThatNoLayoutMayHave_AreRefusedByASearch) {
    const auto text = [](const char* model, const char* setting) {
        auto options = Options{};
        fix(options, setting);
        return text_of([&] { static_cast<void>(search(job_of(model, "H100", "", 8, 64), options)); });
    };
    EXPECT_EQ(text("llama3.1-8B", "overlap=ep"), "the layout has overlap=ep, but the model has no experts");
    EXPECT_EQ(text("llama3.1-8B", "dispatch=once"),
              "the layout has dispatch=once, but the model has no experts");
    EXPECT_EQ(text("llama3.1-8B", "etp=2"), "the layout has etp=2, but the model has no experts");
    auto options = Options{};
    EXPECT_EQ(text_of([&] { fix(options, "offload=150"); }),
              "the layout's offload is '150'; it must be a whole number of 0 to 100");
    EXPECT_EQ(text("qwen3-235B-a22B", "etp=5"),
              "the layout has etp=5, which does not divide the 1536 columns of an expert");
}

TEST(Settings, ThatAreFixedAreKeptByASearch) {
    const auto job = job_of("qwen3-235B-a22B", "H100", "", 64, 512);
    auto options = Options{.count = 100};
    for (const auto* text : {"schedule=dualpipe", "grads=bf16", "moments=bf16", "overlap=ep", "tp=1"})
        fix(options, text);
    const auto found = search(job, options);
    ASSERT_FALSE(found.best.empty());
    for (const auto& one : found.best) {
        const auto& layout = one.layout;
        EXPECT_EQ(layout.schedule, Schedule::dual_pipe);
        EXPECT_TRUE(layout.bf16_moments && layout.gradient_bytes == 2);
        EXPECT_EQ(layout.overlap_experts, layout.ep > 1);
        EXPECT_EQ(text_of([&] { check(layout, job.model, job.batch, job.sequence); }), "");
    }
}

TEST(Settings, ThatMakeALayoutFitAreNamedBeforeTensorParallelismAcrossNodes) {
    const auto job = job_of("llama3.1-405B", "H100", "Megatron-Core", 16384, 2048);
    const auto explained = explain(job, read_layout("pp=4 tp=8 mbs=1 zero=1 recompute=selective", 16384));
    EXPECT_EQ(explained.fit(), Fit::too_large);
    ASSERT_TRUE(explained.change);
    EXPECT_LE(explained.change->layout.tp, 8) << to_string(explained.change->layout);
    const auto small =
        explain(job, read_layout("pp=16 tp=8 vpp=8 mbs=1 zero=1 recompute=none first=7 last=7", 16384));
    ASSERT_TRUE(small.fit() == Fit::fits || small.change);
}

TEST(Settings, ThatMakeSomethingFitAreAsFewAsPossible) {
    auto job = job_of("llama3.1-8B", "H100", "Megatron-Core", 1, 1);
    auto options = Options{.count = 1};
    const auto smallest = search(job, options);
    ASSERT_TRUE(smallest.best.empty() && smallest.smallest);
    auto with = std::map<std::string, int>{};
    for (options.capacity = smallest.smallest->memory.estimate - 1;;) {
        const auto found = fits_with(job, options);
        if (!found) break;
        EXPECT_LE(found->memory.estimate, options.capacity);
        const auto& layout = found->layout;
        EXPECT_EQ(layout.gradient_bytes, 2);
        auto fewer = options;
        fix(fewer, "grads=bf16");
        EXPECT_EQ(search(job, fewer).best.empty(), layout.bf16_moments) << to_string(layout);
        if (layout.bf16_moments) fix(fewer, "moments=bf16");
        EXPECT_EQ(search(job, fewer).best.empty(), layout.offload > 0) << to_string(layout);
        ++with[layout.offload > 0 ? "offload" : layout.bf16_moments ? "moments" : "grads"];
        options.capacity = found->memory.estimate - 1;
    }
    EXPECT_EQ(with.size(), 3U);
    options.capacity = 1;
    EXPECT_FALSE(fits_with(job, options));
}

}  // namespace
}  // namespace rankmesh::plan
