// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/model.hpp>

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "plan/csv.hpp"
#include "support/text_of.hpp"

namespace rankmesh::plan {
namespace {

Model small() {
    return {.name = "small",
            .hidden = 8,
            .vocabulary = 32,
            .kinds = {{.heads = 4, .kv_heads = 2, .head_dim = 2, .value_dim = 2, .ffn = 16}},
            .runs = {{0, 2}}};
}

TEST(Models, HaveAsManyParametersAsTheirSourcesSay) {
    auto in = std::ifstream(RANKMESH_SOURCE "/bench/plan/models.csv");
    const auto measured = std::string(std::istreambuf_iterator<char>(in), {});
    auto compared = 0;
    for (const auto text : {models_csv, std::string_view(measured)}) {
        const auto csv = Csv(text, "models.csv");
        const auto all = read_models(text, "models.csv");
        ASSERT_EQ(csv.size(), all.size());
        for (std::size_t row = 0; row < csv.size(); ++row) {
            const auto published = csv.number(row, "params_b");
            if (!published) continue;
            ++compared;
            // Sources round, and some count neither embeddings nor norms.
            const auto tolerance = all[row].name == "opt-350m" ? 0.08 : 0.032;
            EXPECT_NEAR(static_cast<double>(parameters(all[row]).total) / 1e9 / *published, 1, tolerance)
                << all[row].name;
        }
    }
    EXPECT_GT(compared, 80);
}

TEST(Models, AreCountedByHand) {
    auto model = small();
    // Queries and output 8x8, keys and values 8x4, two matrices 8x16, two norms.
    EXPECT_EQ(parameters(model).kinds[0].all, 2 * 64 + 2 * 32 + 2 * 128 + 16);
    EXPECT_EQ(parameters(model).total, 2 * parameters(model).kinds[0].all + 2 * 32 * 8 + 8);
    EXPECT_EQ(parameters(model).active, parameters(model).total);
    const auto before = parameters(model).total;
    model.tied = true;
    EXPECT_EQ(parameters(model).total, before - 32 * 8);
    auto& layer = model.kinds[0];
    layer.gated = true;
    EXPECT_EQ(parameters(model).total, before - 32 * 8 + 2 * 128);
    layer.ffn = 0;
    layer.experts = 4;
    layer.top_k = 1;
    layer.expert_ffn = 16;
    EXPECT_EQ(parameters(model).total - parameters(model).active, 2 * 3 * parameters(model).kinds[0].expert);
}

TEST(Models, OfTheTableAreAllPossibleAndHaveDifferentNames) {
    for (const auto& model : models()) {
        EXPECT_NO_THROW(check(model)) << model.name;
        for (const auto& other : models())
            EXPECT_TRUE(&model == &other || model.name != other.name) << model.name;
    }
}

TEST(Models, OfATableAreRefusedWithTheLineAndTheFault) {
    const auto text = [](const std::string& table) {
        return text_of([&] { static_cast<void>(read_models(table, "t.csv")); });
    };
    EXPECT_EQ(
        read_models("model,sizes\nsmall,layers=2 hidden=8 heads=4 kv=2 ffn=16 vocab=32\n", "t.csv").front(),
        small());
    EXPECT_EQ(text("model\nsmall\n"), "t.csv:1: has no column 'sizes'");
    EXPECT_EQ(text("model,sizes\nsmall,layers=2 hidden=8 heads=4 ffn=16\n"),
              "t.csv:2: has no vocab; add vocab=N");
    EXPECT_EQ(text("model,sizes\nsmall,layers=2 hidden=8 heads=4 kv=3 ffn=16 vocab=32\n"),
              "t.csv:2: the model 'small' has 4 heads and 3 kv heads; heads must be a multiple of kv heads");
}

TEST(Models, RefuseSizesThatNoModelHas) {
    const auto text = [](auto change) {
        auto model = small();
        change(model);
        return text_of([&] { check(model); });
    };
    EXPECT_EQ(text([](Model&) {}), "");
    EXPECT_EQ(text([](Model& m) { m.runs.clear(); }), "the model 'small' has layers=0; it takes 1 to 100000");
    EXPECT_EQ(text([](Model& m) { m.hidden = -1; }),
              "the model 'small' has hidden=-1; it takes 1 to 16777216");
    EXPECT_EQ(text([](Model& m) { m.kinds[0].ffn = -1; }),
              "the model 'small' has ffn=-1; it takes 0 to 16777216");
    EXPECT_EQ(text([](Model& m) { m.kinds[0] = {}; }),
              "the model 'small' has a layer without heads, ffn and experts; it takes one of them");
    EXPECT_EQ(text([](Model& m) { m.kinds[0].kv_heads = 3; }),
              "the model 'small' has 4 heads and 3 kv heads; heads must be a multiple of kv heads");
    EXPECT_EQ(text([](Model& m) { m.kinds[0].top_k = 2; }),
              "the model 'small' has no experts, but sizes of them; it takes experts=1 or more");
    EXPECT_EQ(text([](Model& m) {
                  m.kinds[0].experts = 2;
                  m.kinds[0].top_k = 3;
                  m.kinds[0].expert_ffn = 4;
              }),
              "the model 'small' has top_k=3; with 2 experts it takes 1 to 2");
    EXPECT_EQ(text([](Model& m) {
                  m.kinds[0].experts = 2;
                  m.kinds[0].top_k = 2;
              }),
              "the model 'small' has experts, but expert_ffn=0; it takes 1 or more");
    EXPECT_EQ(text([](Model& m) { m.kinds[0].q_rank = 4; }),
              "the model 'small' has sizes of latent attention, but kv_rank=0; it takes 1 or more");
    EXPECT_EQ(text([](Model& m) { m.sequence = -1; }),
              "the model 'small' has a sequence of -1 tokens; it takes 0 or more");
    EXPECT_EQ(text([](Model& m) {
                  m.runs[0].count = 100000;
                  m.hidden = m.kinds[0].ffn = 1 << 24;
              }),
              "the model 'small' has 4503599627370496 parameters; it takes at most 2^50");
    EXPECT_EQ(text([](Model& m) {
                  m.kinds[0].experts = 1 << 16;
                  m.kinds[0].top_k = 1;
                  m.hidden = m.kinds[0].expert_ffn = 1 << 24;
              }),
              "the model 'small' has 4503599627370496 parameters; it takes at most 2^50");
}

}  // namespace
}  // namespace rankmesh::plan
