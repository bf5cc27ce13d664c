// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <tuple>

#include <rankmesh/plan/read.hpp>
#include <rankmesh/plan/serve.hpp>

#include "plan/csv.hpp"
#include "plan/jobs.hpp"

namespace rankmesh::plan {
namespace {

Job serving(std::string_view model, int devices, std::int64_t requests, std::int64_t tokens) {
    auto job = job_of(model, "H200-SXM-141GB", "*", devices, requests);
    job.sequence = tokens;
    return job;
}

/// Every legal layout over a few sizes.
std::vector<ServeLayout> legal_layouts(const Model& model, int devices) {
    auto found = std::vector<ServeLayout>{};
    for (int tp = 1; tp <= devices; ++tp)
        for (int pp = 1; pp <= devices; ++pp)
            for (int dp = 1; dp <= devices; ++dp)
                for (int ep = 1; ep <= devices; ++ep)
                    for (int dcp = 1; dcp <= devices; ++dcp) {
                        const auto layout = ServeLayout{tp, pp, dp, ep, dcp};
                        if (layout.devices() != devices) continue;
                        try {
                            check(layout, model);
                        } catch (const UsageError&) {
                            continue;
                        }
                        found.push_back(layout);
                    }
    return found;
}

constexpr auto some_models = {"llama3.1-8B", "llama2-7B", "palm-540B", "qwen3-235B-a22B", "deepseek-v3"};

std::string refusal(const ServeLayout& layout, const Model& model) {
    try {
        check(layout, model);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

TEST(Serve, Cache_HoldsEveryKeyAsOftenAsItsRanksSay) {
    for (const auto* name : some_models) {
        auto model = known(name);
        set_layers(model, 2);
        const auto& kind = layer_of(model);
        for (const auto& layout : legal_layouts(model, 8)) {
            constexpr auto requests = 8, tokens = 8;
            // How many ranks hold a piece: request, layer, token, kv head (or the latent state).
            auto holders = std::map<std::tuple<int, int, int, int>, int>{};
            for (int dp = 0; dp < layout.dp; ++dp)
                for (int tp = 0; tp < layout.tp; ++tp) {
                    auto bytes = 0;
                    for (int request = dp; request < requests; request += layout.dp)
                        for (int layer = 0; layer < model.layers(); ++layer)
                            for (int token = tp % layout.dcp; token < tokens; token += layout.dcp) {
                                const auto latent = kind.kv_rank > 0;
                                for (int head = 0; head < (latent ? 1 : kind.kv_heads); ++head) {
                                    const auto mine =
                                        latent ||
                                        (kind.kv_heads >= layout.tp ? head * layout.tp / kind.kv_heads == tp
                                                                    : tp * kind.kv_heads / layout.tp == head);
                                    if (!mine) continue;
                                    ++holders[{request, layer, token, head}];
                                    bytes += 2 * (latent ? kind.kv_rank + kind.rope_dim : 2 * kind.head_dim);
                                }
                            }
                    EXPECT_EQ(bytes, cache_bytes(kind, layout) * model.layers() * requests / layout.dp *
                                         tokens / layout.dcp)
                        << name << " " << to_string(layout);
                }
            const auto copies =
                (kind.kv_rank > 0 ? layout.tp : std::max(1, layout.tp / kind.kv_heads)) / layout.dcp;
            EXPECT_EQ(holders.size(), static_cast<std::size_t>(requests * model.layers() * tokens *
                                                               (kind.kv_rank > 0 ? 1 : kind.kv_heads)));
            for (const auto& [piece, count] : holders) EXPECT_EQ(count, copies) << name << to_string(layout);
        }
    }
}

TEST(Serve, Published_WeightsAndCachesAreMet) {
    const auto path = std::string(RANKMESH_SOURCE) + "/bench/plan/serving.csv";
    auto text = std::stringstream();
    text << std::ifstream(path).rdbuf();
    const auto csv = Csv(text.str(), path);
    constexpr auto gib = 1024.0 * 1024 * 1024;
    for (std::size_t row = 0; row < csv.size(); ++row) {
        const auto size = [&](const char* name) { return static_cast<int>(*csv.count(row, name)); };
        const auto layout = ServeLayout{size("tp"), size("pp"), size("dp"), size("ep"), size("dcp")};
        auto job = serving("deepseek-v3", layout.devices(), layout.dp, 1024);
        job.model = read_model(std::string(csv.text(row, "model")));
        if (csv.text(row, "precision") == "fp8") job.precision = Precision::fp8;
        const auto served = serve(job, layout);
        if (const auto weights = csv.number(row, "weights_gib")) {
            EXPECT_NEAR(static_cast<double>(served.memory.weights) / gib / *weights, 1, 0.015)
                << csv.place(row);
        }
        if (const auto tokens = csv.number(row, "tokens")) {
            EXPECT_NEAR(static_cast<double>(cache_bytes(layer_of(job.model), layout)) * job.model.layers() *
                            *tokens / gib,
                        *csv.number(row, "cache_gib"), 0.01)
                << csv.place(row);
        }
    }
    EXPECT_EQ(csv.size(), 6U);
    // Reports of throughput are in the roofline; docs/plan-serving.md names them. Tokens a second of all
    // devices.
    const auto holds = [](std::string_view device, int devices, std::int64_t requests, std::int64_t tokens) {
        auto job = job_of("deepseek-v3", device, "*", devices, requests);
        job.precision = Precision::fp8;
        job.sequence = tokens;
        return serve(job, {.dp = devices, .ep = devices});
    };
    const auto within = [](double rate, double tokens, const Pass& pass) {
        EXPECT_GE(rate, tokens / pass.high);
        EXPECT_LE(rate, tokens / pass.low);
    };
    within(4 * 50302, 32 * 4096, holds("H100", 32, 32, 4096).prefill);
    within(8 * 22300, 16384, holds("H100", 64, 16384, 2000).decode);
}

TEST(Serve, Weights_AddUpToTheModel) {
    for (const auto* name : {"llama3.1-8B", "llama2-70B", "qwen3-235B-a22B", "deepseek-v3", "gpt3-175B"}) {
        const auto& model = known(name);
        const auto norms = std::int64_t{2} * model.hidden * model.layers() + model.hidden;
        for (const auto precision : {Precision::bf16, Precision::fp8}) {
            auto job = serving(name, 1, 8, 1024);
            job.precision = precision;
            const auto one = serve(job, {}).memory.weights;
            const auto counts = parameters(model);
            auto expected = 2 * (counts.total - norms);
            if (precision == Precision::fp8) {
                const auto& kind = layer_of(model);
                const auto routers = std::int64_t{model.hidden} * kind.experts * model.counts().back();
                const auto up = std::int64_t{2} * kind.heads * kind.head_dim * kind.kv_rank * model.layers();
                expected = counts.total - norms + (model.tied ? 1 : 2) * counts.embedding + routers + 2 * up;
            }
            EXPECT_EQ(one, expected) << name;
        }
        if (model.experts() > 0 || model.vocabulary % 8 != 0) continue;
        auto job = serving(name, 8, 8, 1024);
        EXPECT_EQ(8 * serve(job, {.tp = 8}).memory.weights, 2 * (parameters(model).total - norms)) << name;
    }
}

TEST(Serve, Memory_AddsUpAndFitsExactlyWhatItHasRoomFor) {
    auto random = std::mt19937(39);
    for (const auto* name : some_models)
        for (const auto& layout : legal_layouts(known(name), 8))
            for (int i = 0; i < 6; ++i) {
                const auto tokens = std::int64_t{1} << std::uniform_int_distribution(4, 20)(random);
                const auto requests = std::uniform_int_distribution<std::int64_t>(1, 500)(random);
                auto job = serving(name, 8, requests, tokens);
                job.precision = i % 2 == 0 ? Precision::fp8 : Precision::bf16;
                const auto memory = serve(job, layout).memory;
                EXPECT_EQ(memory.estimate, memory.weights + memory.cache + memory.state + memory.activations +
                                               memory.overhead);
                // Blocks of 16 tokens on each dcp rank, the busiest dp rank.
                const auto block = std::int64_t{16} * layout.dcp;
                const auto held = (requests + layout.dp - 1) / layout.dp * layout.dp *
                                  ((tokens + block - 1) / block * block);
                EXPECT_EQ(memory.estimate <= serve_capacity(job.machine.device), held <= memory.tokens)
                    << name << " " << to_string(layout) << " " << requests << " x " << tokens;
                // More tokens never fit where fewer do not.
                job.sequence += 1 + static_cast<std::int64_t>(random() % 100);
                EXPECT_GE(serve(job, layout).memory.estimate, memory.estimate);
                ++job.batch;
                EXPECT_GE(serve(job, layout).memory.estimate, memory.estimate);
            }
}

TEST(Serve, Room_GrowsWithDcpAndSmallerCache) {
    for (const auto* name : some_models)
        for (auto layout : legal_layouts(known(name), 8)) {
            if (layout.dcp == 1) continue;
            const auto job = serving(name, 8, 16, 4096);
            const auto divided = serve(job, layout).memory;
            layout.dcp = 1;
            const auto whole = serve(job, layout).memory;
            EXPECT_EQ(divided.weights, whole.weights);
            EXPECT_GE(divided.tokens, whole.tokens) << name << to_string(layout);
            layout.fp8_cache = true;
            EXPECT_GE(serve(job, layout).memory.tokens, 2 * whole.tokens);
        }
    const auto job = serving("deepseek-v3", 8, 16, 4096);
    auto fp8 = job;
    fp8.precision = Precision::fp8;
    const auto whole = serve(fp8, {.tp = 8}).memory.tokens;
    EXPECT_GT(whole, 0);
    for (const int dcp : {2, 4, 8}) EXPECT_EQ(serve(fp8, {.tp = 8, .dcp = dcp}).memory.tokens, dcp * whole);
}

double amount(const Pass& pass, std::string_view name) {
    const auto part = std::ranges::find(pass.parts, name, &ServePart::name);
    return part == pass.parts.end() ? 0 : part->amount;
}

TEST(Serve, Pass_CountsOperationsAndBytes) {
    const auto& model = known("llama3.1-8B");
    constexpr auto requests = 32.0, tokens = 4096.0;
    const auto used = static_cast<double>(parameters(model).total - parameters(model).embedding -
                                          (2 * model.layers() + 1) * std::int64_t{model.hidden});
    const auto one = serve(serving("llama3.1-8B", 1, 32, 4096), {});
    const auto& kind = layer_of(model);
    const auto scores = 4.0 * kind.heads * kind.head_dim * model.layers();
    EXPECT_NEAR(amount(one.decode, "compute") / (requests * (2 * used + scores * tokens)), 1, 1e-12);
    const auto cache = static_cast<double>(cache_bytes(kind, {})) * model.layers() * tokens;
    EXPECT_NEAR(amount(one.decode, "memory") / (2 * used + requests * cache), 1, 1e-12);
    const auto head = 2.0 * model.hidden * model.vocabulary;
    EXPECT_NEAR(amount(one.prefill, "compute") /
                    (2 * used * tokens - head * (tokens - 1) + scores * tokens * tokens / 2),
                1, 1e-12);
    EXPECT_EQ(one.decode.parts.size(), 2U);  // nothing to send
    const auto eight = serve(serving("llama3.1-8B", 8, 32, 4096), {.tp = 8});
    for (const auto* name : {"compute", "memory"})
        EXPECT_NEAR(8 * amount(eight.decode, name) / amount(one.decode, name), 1, 1e-12) << name;
    const auto state = 2 * requests * model.hidden;
    const auto reduced = 4 * state * 7 / 8 * model.layers() + 2 * requests * model.vocabulary * 7 / 8;
    EXPECT_NEAR(amount(eight.decode, "tp") / reduced, 1, 1e-12);
    // Experts: each token uses top_k of them, wherever they are.
    for (const auto& layout : {ServeLayout{.dp = 8}, {.dp = 8, .ep = 8}, {.tp = 8}, {.tp = 8, .ep = 8}}) {
        const auto& experts = known("qwen3-30B-a3B");
        const auto served = serve(serving("qwen3-30B-a3B", 8, 4096, 16), layout).decode;
        const auto active = static_cast<double>(parameters(experts).active - parameters(experts).embedding);
        const auto least = 2 * 4096 * active / 8;
        EXPECT_GT(amount(served, "compute"), 0.99 * least) << to_string(layout);
        EXPECT_LT(amount(served, "compute"), 1.25 * least) << to_string(layout);
    }
}

TEST(Serve, Stages_TakeTheLayersThatVllmGivesThem) {
    for (int layers = 1; layers <= 16; ++layers)
        for (int pp = 1; pp <= layers; ++pp) {
            auto parts = std::vector<int>(static_cast<std::size_t>(pp), layers / pp);
            for (int i = 2; i < layers % pp + 2; ++i) ++parts[static_cast<std::size_t>(pp - i)];
            auto job = serving("llama2-7B", pp, 1024, 65536);  // the cache decides which stage needs most
            set_layers(job.model, layers);
            const auto memory = serve(job, {.pp = pp}).memory;
            EXPECT_EQ(memory.cache,
                      cache_bytes(layer_of(job.model), {}) * std::ranges::max(parts) * 1024 * 65536);
            EXPECT_EQ(parts[static_cast<std::size_t>(memory.stage)], std::ranges::max(parts));
        }
}

TEST(Serve, Windows_KeepTheirTokensInEveryOtherLayer) {
    const auto& model = known("gpt-oss-120B");
    const auto served = serve(serving("gpt-oss-120B", 1, 8, 4096), {});
    EXPECT_EQ(served.memory.cache, 8 * cache_bytes(layer_of(model), {}) * model.layers() / 2 * (4096 + 128));
    const auto shorter = serve(serving("gpt-oss-120B", 1, 8, 64), {});
    EXPECT_EQ(shorter.memory.cache, 8 * cache_bytes(layer_of(model), {}) * model.layers() * 64);
    EXPECT_NEAR(amount(serve(serving("gpt-oss-120B", 1, 16, 4096), {}).decode, "compute") /
                    amount(served.decode, "compute"),
                2, 1e-9);
    // Scores of a prompt: half of all pairs in one half of the layers, the window in the other.
    auto whole = serving("gpt-oss-120B", 1, 8, 4096);
    for (auto& kind : whole.model.kinds) kind.window = 0;
    const auto pair = 4.0 * layer_of(model).heads * layer_of(model).head_dim * model.layers() / 2;
    EXPECT_NEAR(amount(serve(whole, {}).prefill, "compute") - amount(served.prefill, "compute"),
                pair * (4096.0 * 4096 / 2 - (4096.0 - 64) * 128), 1e9);
}

TEST(Serve, Experts_AreReadAsOftenAsTokensReachThem) {
    auto random = std::mt19937(6);
    const auto& model = known("qwen3-30B-a3B");
    const auto all =
        2.0 * static_cast<double>(parameters(model).kinds[0].expert) * model.experts() * model.layers() / 8;
    for (const int requests : {8, 64, 512}) {
        constexpr auto trials = 200;
        auto reached = 0.0;
        for (int trial = 0; trial < trials; ++trial) {
            auto seen = std::set<int>{};
            for (int token = 0; token < requests; ++token)
                for (auto own = std::set<int>{}; std::ssize(own) < layer_of(model).top_k;) {
                    own.insert(std::uniform_int_distribution(0, model.experts() - 1)(random));
                    seen.insert(own.begin(), own.end());
                }
            reached += static_cast<double>(seen.size()) / model.experts() / trials;
        }
        for (const auto& layout : {ServeLayout{.dp = 8}, {.dp = 8, .ep = 8}}) {
            const auto served = serve(serving("qwen3-30B-a3B", 8, requests, 1024), layout);
            const auto beside = static_cast<double>(served.memory.weights) - all -
                                2.0 * static_cast<double>(parameters(model).embedding);
            const auto read =
                amount(served.decode, "memory") - static_cast<double>(served.memory.cache) - beside;
            EXPECT_NEAR(read / all, reached, 0.01) << requests << " " << to_string(layout);
        }
    }
}

TEST(Serve, Bytes_InsideANodeTakeTheBandwidth) {
    for (const auto* name : some_models)
        for (const auto& layout : legal_layouts(known(name), 16)) {
            auto job = serving(name, 16, 64, 2048);
            job.machine.node = 32;
            const auto served = serve(job, layout);
            for (const auto* pass : {&served.decode, &served.prefill})
                for (const auto& part : pass->parts)
                    if (part.name != "compute") {
                        const auto bandwidth = part.name == "memory" ? job.machine.device.memory_bandwidth
                                                                     : job.machine.scale_up;
                        EXPECT_NEAR(part.low, part.amount / bandwidth, 1e-9 * part.low)
                            << name << " " << to_string(layout) << " " << part.name;
                    }
        }
    const auto latent = serve(serving("deepseek-v3", 8, 64, 2048), {.tp = 8, .dcp = 8});
    EXPECT_NEAR(amount(latent.decode, "dcp"), 61 * 7 * 2.0 * 64 * 16 * (576 + 512), 1);
    EXPECT_EQ(amount(latent.prefill, "dcp"), 0);
    const auto gathered = serve(serving("qwen3-30B-a3B", 8, 64, 2048), {.tp = 2, .dp = 4}).decode;
    EXPECT_NEAR(amount(gathered, "ep"), 48 * 2.0 * 2 * 16 * 2048 * 3, 1);  // 16 tokens, to and from 3 others
    const auto sent = serve(serving("qwen3-30B-a3B", 8, 64, 2048), {.dp = 8, .ep = 8}).decode;
    EXPECT_NEAR(amount(sent, "ep"), 48 * 4.0 * 8 * 8 * 2048 * 7 / 8,
                1);  // 8 tokens, 8 experts, 2 bytes each way
    const auto piped = serve(serving("llama3.1-8B", 4, 64, 2048), {.pp = 4}).decode;
    EXPECT_NEAR(amount(piped, "pp"), 3 * 4.0 * 16 * 4096,
                1);  // a quarter of the requests, state and residual
}

TEST(Serve, Roofline_IsTheLongestToTheSumOfParts) {
    for (const auto* name : some_models)
        for (const auto& layout : legal_layouts(known(name), 16)) {
            auto job = serving(name, 16, 64, 2048);
            const auto served = serve(job, layout);
            for (const auto* pass : {&served.decode, &served.prefill}) {
                auto longest = 0.0, sum = 0.0;
                for (const auto& part : pass->parts) {
                    EXPECT_LE(part.low, part.high) << name << to_string(layout) << part.name;
                    longest = std::max(longest, part.low);
                    sum += part.high;
                }
                EXPECT_EQ(pass->low, longest);
                EXPECT_NEAR(pass->high, sum, 1e-12 * sum);
            }
            job.batch *= 2;
            EXPECT_GT(serve(job, layout).decode.high, served.decode.high);
            EXPECT_EQ(serve(job, layout).prefill.high, served.prefill.high);
            job.batch /= 2, job.sequence *= 2;
            EXPECT_GT(serve(job, layout).decode.high, served.decode.high);
            EXPECT_GT(serve(job, layout).prefill.low, served.prefill.low);
        }
}

TEST(Serve, Search_FindsWhatBruteForceFinds) {
    for (const auto* name : some_models)
        for (const auto tokens : {256, 65536, 1 << 21}) {
            auto job = serving(name, 8, 16, tokens);
            job.precision = Precision::fp8;
            auto fast = std::vector<double>{};
            auto roomiest = std::int64_t{-1};
            const auto layouts = legal_layouts(job.model, 8);
            for (const auto& layout : layouts) {
                const auto served = serve(job, layout);
                roomiest = std::max(roomiest, served.memory.tokens);
                if (served.memory.estimate <= serve_capacity(job.machine.device))
                    fast.push_back(served.decode.high);
            }
            std::ranges::sort(fast);
            const auto found = serve_search(job);
            EXPECT_EQ(found.layouts, static_cast<std::int64_t>(layouts.size())) << name;
            EXPECT_EQ(found.roomiest.memory.tokens, roomiest);
            ASSERT_EQ(found.best.size(), fast.size());
            for (std::size_t i = 0; i < fast.size(); ++i) EXPECT_EQ(found.best[i].decode.high, fast[i]);
        }
    const auto job = serving("deepseek-v3", 8, 16, 1024);
    for (const auto& one : serve_search(job, {"tp=4", "cache=fp8"}, {"dcp=2"}).best) {
        EXPECT_EQ(one.layout.tp, 4);
        EXPECT_LE(one.layout.dcp, 2);
        EXPECT_TRUE(one.layout.fp8_cache);
    }
}

TEST(Serve, Layout_IsReadFromItsText) {
    for (auto layout : legal_layouts(known("deepseek-v3"), 16)) {
        EXPECT_EQ(read_serve_layout(to_string(layout)), layout);
        layout.fp8_cache = true;
        EXPECT_EQ(read_serve_layout(to_string(layout)), layout) << to_string(layout);
    }
    EXPECT_EQ(read_serve_layout("tp=2", 16).dp, 8);
    const auto error = [](std::string_view text, int devices = 0) -> std::string {
        try {
            read_serve_layout(text, devices);
        } catch (const UsageError& error) {
            return error.what();
        }
        return "";
    };
    EXPECT_EQ(error("tp=0"), "the layout's tp is '0'; it must be a whole number of 1 or more");
    EXPECT_EQ(error("cache=int4"), "the layout's cache is 'int4'; it must be one of bf16 and fp8");
    EXPECT_EQ(error("tp=2 tp=4"), "the layout gives tp twice; give it once");
    EXPECT_EQ(error(" "), "the layout is empty; write one such as 'dp=8 tp=2 ep=16 cache=fp8'");
    EXPECT_EQ(error("tp=3", 8), "pp * tp of the layout is 3, which does not divide 8 devices");
    EXPECT_EQ(error("tp=2147483647 pp=2147483647 dp=2147483647"),
              "the layout 'tp=2147483647 pp=2147483647 dp=2147483647' has more than 16777216 ranks");
    EXPECT_EQ(error("zero=1"),
              "'zero=1' is not part of a serving layout such as 'dp=8 tp=2 ep=16 cache=fp8'; parts are pp, "
              "dp, tp, ep, dcp and cache");
}

TEST(Serve, Check_SaysWhatVllmRefuses) {
    const auto& dense = known("llama3.1-8B");
    const auto& latent = known("deepseek-v3");
    EXPECT_EQ(refusal({.tp = 3}, dense),
              "the layout has tp=3, which does not divide the 32 heads of the model");
    EXPECT_EQ(refusal({.tp = 16, .dcp = 4}, dense),
              "the layout has dcp=4, but tp=16 holds 2 copies of each of the 8 kv heads; dcp divides copies "
              "only");
    EXPECT_EQ(refusal({.tp = 4, .dcp = 2}, dense),
              "the layout has dcp=2, but tp=4 holds one copy of each of the 8 kv heads; dcp divides copies "
              "only");
    EXPECT_EQ(refusal({.tp = 16, .dcp = 2}, dense), "");
    EXPECT_EQ(refusal({.tp = 8, .dcp = 8}, latent), "");
    EXPECT_EQ(refusal({.tp = 8, .dcp = 3}, latent), "the layout has dcp=3, which does not divide its tp=8");
    EXPECT_EQ(refusal({.tp = 2, .dp = 4, .ep = 4}, latent),
              "the layout has ep=4; it takes 1, or tp*dp=8 for whole experts");
    EXPECT_EQ(refusal({.dp = 8, .ep = 8}, dense), "the layout has ep=8, but the model has no experts");
    EXPECT_EQ(refusal({.pp = 62}, latent), "the layout has pp=62 stages for 61 layers");
    EXPECT_EQ(refusal({.tp = 1 << 30, .pp = 1 << 30, .dp = 1 << 30}, dense),
              "the layout takes more than 16777216 devices");
    EXPECT_EQ(refusal({.tp = 16, .dcp = 2}, known("gpt-oss-120B")),
              "the layout has dcp=2, but vLLM does not divide the cache of layers with a window");
}

}  // namespace
}  // namespace rankmesh::plan
