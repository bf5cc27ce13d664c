// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/layout.hpp>

#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "plan/bounds.hpp"
#include "support/fewer.hpp"
#include "support/text_of.hpp"

namespace rankmesh::plan {
namespace {

const Model model = {.name = "m",
                     .hidden = 64,
                     .vocabulary = 100,
                     .kinds = {{.heads = 8, .kv_heads = 2, .head_dim = 8, .value_dim = 8, .ffn = 128}},
                     .runs = {{0, 12}}};

TEST(Layouts, GiveEveryLayerToOneStage) {
    for (int layers = 1; layers <= 13; ++layers)
        for (int pp = 1; pp <= layers; ++pp)
            for (int first = 0; first <= (pp > 1 ? layers : 0); ++first)
                for (int last = 0; last <= (pp > 1 ? layers : 0); ++last) {
                    const auto layout = Layout{.pp = pp, .first_layers = first, .last_layers = last};
                    auto legal = true;
                    auto of = model;
                    of.runs[0].count = layers;
                    try {
                        check(layout, of, 1, 8);
                    } catch (const UsageError&) {
                        legal = false;
                    }
                    auto sum = 0;
                    auto least = layers;
                    for (int stage = 0; stage < pp; ++stage) {
                        sum += stage_layers(layout, layers, stage);
                        least = std::min(least, stage_layers(layout, layers, stage));
                        if (legal && stage > 1 && stage < pp - 1) {
                            EXPECT_LE(stage_layers(layout, layers, stage),
                                      stage_layers(layout, layers, stage - 1));
                        }
                    }
                    EXPECT_EQ(legal, sum == layers && least >= 1)
                        << layers << " " << pp << " " << first << " " << last;
                }
}

TEST(Layouts, MayShortenTheFirstAndTheLastChunkOnly) {
    for (int layers = 2; layers <= 14; layers += support::one_in)
        for (int pp = 2; pp <= layers; ++pp)
            for (int vpp = 2; vpp <= layers; ++vpp) {
                auto of = model;
                of.runs[0].count = layers;
                // All chunks have as many layers, but the first and the last may have fewer.
                auto expected = std::set<std::pair<int, int>>{};
                for (int chunk = 1; chunk <= layers; ++chunk)
                    for (int first = 0; first <= chunk; ++first) {
                        const auto last = pp * vpp * chunk - first - layers;
                        if (last >= 0 && last <= chunk)
                            expected.insert({chunk * vpp - first, chunk * vpp - last});
                    }
                auto legal = std::set<std::pair<int, int>>{};
                for (int first = 0; first <= layers; ++first)
                    for (int last = 0; last <= layers; ++last) {
                        const auto layout =
                            Layout{.pp = pp, .vpp = vpp, .first_layers = first, .last_layers = last};
                        if (text_of([&] { check(layout, of, pp, 8); }).empty())
                            legal.insert(
                                {stage_layers(layout, layers, 0), stage_layers(layout, layers, pp - 1)});
                    }
                EXPECT_EQ(legal, expected) << layers << " layers, pp=" << pp << " vpp=" << vpp;
                auto found = std::set<std::pair<int, int>>{};
                if (legal_vpp(of, pp, vpp, pp)) found.insert({layers / pp, layers / pp});
                for (const auto& ends : interleaved_ends(layers, pp, vpp)) {
                    const auto layout =
                        Layout{.pp = pp, .vpp = vpp, .first_layers = ends.first, .last_layers = ends.last};
                    found.insert({stage_layers(layout, layers, 0), stage_layers(layout, layers, pp - 1)});
                }
                EXPECT_EQ(found, expected) << layers << " layers, pp=" << pp << " vpp=" << vpp;
            }
}

TEST(Layouts, AreMeshes) {
    EXPECT_EQ(to_string(mesh({.tp = 8, .cp = 2, .pp = 4, .dp = 16})), "pp=4 dp=16 cp=2 tp=8");
    EXPECT_EQ(to_string(mesh({.tp = 8})), "tp=8");
    EXPECT_EQ(mesh(Layout{}).size(), 1);
}

TEST(Layouts, SayWhyTheyCannotBe) {
    const auto text = [](const Layout& layout, std::int64_t batch = 16) {
        return text_of([&] { check(layout, model, batch, 64); });
    };
    EXPECT_EQ(text({}), "");
    EXPECT_EQ(text({.tp = 0}), "the layout has tp=0; it takes 1 or more");
    EXPECT_EQ(text({.dp = -2}), "the layout has dp=-2; it takes 1 or more");
    EXPECT_EQ(text({.cp = 1000000, .dp = 1000000}), "the layout takes more than 2147483647 devices");
    EXPECT_EQ(text({.tp = 3}), "the layout has tp=3, which does not divide the 8 heads of the model");
    EXPECT_EQ(text({.cp = 5}),
              "the layout has cp=5 and tp=1, which cuts a sequence into 10 parts; 64 tokens are not a "
              "multiple of it");
    EXPECT_EQ(text({.ep = 2}), "the layout has ep=2, but the model has no experts");
    EXPECT_EQ(text({.dp = 3}),
              "the layout takes 3 sequences at a time (dp=3 times a micro-batch of 1), which do not divide a "
              "batch of 16");
    EXPECT_EQ(text({}, -1),
              "the layout takes 1 sequences at a time (dp=1 times a micro-batch of 1), which do not divide a "
              "batch of -1");
    EXPECT_EQ(text({.zero = 4}), "the layout has zero=4; it takes 0 to 3");
    EXPECT_EQ(text({.dp = 4, .zero = 1, .zero_group = 3}),
              "the layout shards inside 3 ranks, which do not divide its dp*cp=4");
    EXPECT_EQ(text({.pp = 13}), "the layout has pp=13 stages for 12 layers");
    EXPECT_EQ(text({.vpp = 2}), "the layout has vpp=2 on one stage; it takes pp=2 or more");
    EXPECT_EQ(text({.pp = 4, .vpp = 2}),
              "the layout has pp*vpp=8 chunks for 12 layers; only the first chunk of the first stage and the "
              "last chunk of the last stage may have fewer layers than the others; first=2 last=2 is legal");
    EXPECT_EQ(
        text({.pp = 4, .vpp = 4}),
        "the layout has pp*vpp=16 chunks for 12 layers; only the first chunk of the first stage and the "
        "last chunk of the last stage may have fewer layers than the others");
    EXPECT_EQ(text({.pp = 2, .vpp = 2, .first_layers = 2}),
              "the layout has pp*vpp=4 chunks for 12 layers; only the first chunk of the first stage and the "
              "last chunk of the last stage may have fewer layers than the others; even stages are legal");
    EXPECT_EQ(text({.pp = 2, .vpp = 4, .first_layers = 6, .last_layers = 6}), "");
    EXPECT_EQ(text({.pp = 3, .vpp = 2}),
              "the layout has vpp=2, which takes a multiple of pp=3 micro-batches; there are 16");
    EXPECT_EQ(text({.pp = 2, .last_layers = 12}),
              "the layout has 12 layers on its first and last stages, which leaves 0 for the other 1");
    EXPECT_EQ(text({.last_layers = 12}),
              "the layout has layers of a first or last stage, but only one stage");
    EXPECT_EQ(text({.recompute = Recompute::none, .recompute_layers = 1}),
              "the layout computes 1 layers again, but only recompute=full:N does that");
}

}  // namespace
}  // namespace rankmesh::plan
