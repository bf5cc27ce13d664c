// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/plan/search.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/core/error.hpp>
#include <rankmesh/plan/advice.hpp>

#include "plan/bounds.hpp"
#include "plan/jobs.hpp"
#include "support/fewer.hpp"

namespace of_search_tests {

namespace {

using namespace rankmesh;
using plan::Layout;
using plan::Recompute;

plan::Job job_of(plan::Model model, int devices, std::int64_t batch, std::int64_t sequence) {
    auto job = plan::Job{.model = std::move(model), .devices = devices, .sequence = sequence, .batch = batch};
    job.machine = plan::machine(Cluster::parse("node:4096(400GB/s,5us) gpu:8(450GB/s,2us)"),
                                plan::device("H100-SXM-80GB"));
    job.stack = plan::stack("");
    return job;
}

const auto dense = plan::Model{
    .name = "dense",
    .hidden = 2048,
    .vocabulary = 128000,
    .kinds = {{.heads = 16, .kv_heads = 4, .head_dim = 128, .value_dim = 128, .ffn = 8192, .gated = true}},
    .runs = {{0, 6}}};

plan::Model with_experts() {
    auto model = dense;
    model.name = "experts";
    auto& with = model.kinds.emplace_back(model.kinds.front());
    with.ffn = 0;
    with.experts = 4;
    with.top_k = 2;
    with.expert_ffn = 1024;
    with.shared_ffn = 1024;
    model.runs = {{0, 1}, {1, 3}};
    return model;
}

bool is_legal(const plan::Job& job, const Layout& layout) {
    try {
        plan::check(layout, job.model, job.batch, job.sequence);
        return true;
    } catch (const UsageError&) {
        return false;
    }
}

/// Every layout that `check` accepts and a search looks at, one by one.
std::vector<Layout> all_layouts(const plan::Job& job) {
    auto all = std::vector<Layout>{};
    const auto layers = job.model.layers();
    for (int tp = 1; tp <= job.devices; ++tp)
        for (int cp = 1; tp * cp <= job.devices; ++cp)
            for (int pp = 1; tp * cp * pp <= job.devices; ++pp)
                for (int ep = 1; ep <= std::max(1, job.model.experts()); ++ep)
                    for (int vpp = 1; vpp <= layers; ++vpp)
                        for (int micro = 1; micro <= job.batch; ++micro) {
                            if (job.devices % (tp * cp * pp) != 0) continue;
                            auto base = Layout{.tp = tp,
                                               .cp = cp,
                                               .ep = ep,
                                               .pp = pp,
                                               .vpp = vpp,
                                               .dp = job.devices / (tp * cp * pp)};
                            base.micro_batch = micro;
                            base.sequence_parallel = tp > 1;
                            auto plain = base;  // chunks and uneven stages only add rules
                            plain.vpp = 1;
                            if (!is_legal(job, plain)) continue;
                            for (int first = 0; first <= (pp > 1 ? layers : 0); ++first)
                                for (int last = 0; last <= (pp > 1 ? layers : 0); ++last) {
                                    base.first_layers = first;
                                    base.last_layers = last;
                                    if (!is_legal(job, base)) continue;
                                    for (int zero = 0; zero <= 3; ++zero)
                                        for (const auto kind :
                                             {Recompute::none, Recompute::selective, Recompute::full})
                                            for (int again = 0;
                                                 again < (kind == Recompute::full ? layers : 1); ++again) {
                                                auto layout = base;
                                                layout.zero = zero;
                                                layout.recompute = kind;
                                                layout.recompute_layers = again;
                                                if (is_legal(job, layout)) all.push_back(layout);
                                            }
                                }
                        }
    return all;
}

using Sizes = std::array<int, 5>;
Sizes sizes_of(const Layout& layout) { return {layout.tp, layout.cp, layout.ep, layout.pp, layout.dp}; }

struct Known {
    Layout layout;
    double seconds;
    std::int64_t bytes;
};

std::vector<Known> known(const plan::Job& job) {
    auto all = std::vector<Known>{};
    const auto steps = plan::Steps(job);
    for (const auto& layout : all_layouts(job))
        all.push_back({layout, steps.step(layout).seconds, plan::memory(job, layout).estimate});
    return all;
}

/// The seconds of the best layout of each mesh that fits, ascending.
std::vector<double> best_of(const std::vector<Known>& all, std::int64_t capacity) {
    auto meshes = std::map<Sizes, double>{};
    for (const auto& one : all)
        if (one.bytes <= capacity) {
            const auto [at, fresh] = meshes.try_emplace(sizes_of(one.layout), one.seconds);
            at->second = std::min(at->second, one.seconds);
        }
    auto seconds = std::vector<double>{};
    for (const auto& [mesh, best] : meshes) seconds.push_back(best);
    std::ranges::sort(seconds);
    return seconds;
}

std::vector<plan::Job> small_jobs() {
    auto shallow = dense;
    shallow.runs[0].count = 3;
    auto deep = dense;
    deep.runs[0].count = 9;
    return support::fewer_if_sanitized(
        std::vector{job_of(dense, 8, 8, 2048), job_of(deep, 8, 16, 4096), job_of(dense, 4, 4, 4096),
                    job_of(with_experts(), 8, 4, 2048), job_of(shallow, 6, 6, 1024)});
}

}  // namespace

TEST(Search, FindsWhatTryingEveryLayoutFinds) {
    for (const auto& job : small_jobs()) {
        const auto all = known(job);
        ASSERT_GT(all.size(), 100U);
        auto bytes = std::vector<std::int64_t>{};
        for (const auto& one : all) bytes.push_back(one.bytes);
        std::ranges::sort(bytes);
        for (const auto share : {0.0, 0.001, 0.02, 0.1, 0.4, 1.0}) {
            const auto capacity =
                bytes[static_cast<std::size_t>(share * static_cast<double>(bytes.size() - 1))];
            for (const auto count : {std::size_t{1}, std::size_t{3}, std::size_t{100}}) {
                const auto found = plan::search(job, {.count = count, .capacity = capacity});
                auto expected = best_of(all, capacity);
                if (expected.size() > count) expected.resize(count);
                ASSERT_EQ(found.best.size(), expected.size())
                    << job.devices << " devices, " << capacity << " bytes";
                for (std::size_t i = 0; i < expected.size(); ++i) {
                    const auto& one = found.best[i];
                    EXPECT_NEAR(one.step.seconds, expected[i], 1e-9 * expected[i])
                        << job.model.name << ", " << job.devices << " devices, " << capacity
                        << " bytes, number " << i << ": " << to_string(one.layout);
                    EXPECT_LE(one.memory.estimate, capacity);
                    EXPECT_TRUE(is_legal(job, one.layout)) << to_string(one.layout);
                }
            }
        }
    }
}

TEST(Search, FindsTheBestOfWhatIsAllowed) {
    const auto allows = [](const Layout& layout) {
        return layout.recompute_layers % 2 == 0 && layout.zero != 1;
    };
    for (const auto& job : small_jobs()) {
        auto all = known(job);
        std::erase_if(all, [&](const Known& one) { return !allows(one.layout); });
        auto bytes = std::vector<std::int64_t>{};
        for (const auto& one : all) bytes.push_back(one.bytes);
        std::ranges::sort(bytes);
        for (const auto share : {0.01, 0.1, 0.3}) {
            const auto capacity =
                bytes[static_cast<std::size_t>(share * static_cast<double>(bytes.size() - 1))];
            const auto found = plan::search(job, {.allows = allows, .count = 100, .capacity = capacity});
            const auto expected = best_of(all, capacity);
            ASSERT_EQ(found.best.size(), expected.size());
            for (std::size_t i = 0; i < expected.size(); ++i) {
                EXPECT_NEAR(found.best[i].step.seconds, expected[i], 1e-9 * expected[i])
                    << to_string(found.best[i].layout);
                EXPECT_TRUE(allows(found.best[i].layout)) << to_string(found.best[i].layout);
            }
        }
    }
}

TEST(Search, FindsTheLayoutThatNeedsLeastWhereNoneFits) {
    for (const auto& job : small_jobs()) {
        const auto found = plan::search(job, {.capacity = 1});
        EXPECT_TRUE(found.best.empty());
        ASSERT_TRUE(found.smallest);
        for (const auto& one : known(job))
            if (one.layout.first_layers == 0 && one.layout.last_layers == 0 &&
                one.layout.recompute_layers == 0) {
                EXPECT_LE(found.smallest->memory.estimate, one.bytes) << to_string(one.layout);
            }
    }
}

TEST(Search, HasABoundThatNoLayoutGoesBelow) {
    for (const auto& job : small_jobs()) {
        const auto steps = plan::Steps(job);
        for (const auto& [layout, seconds, bytes] : known(job)) {
            const auto count = job.batch / layout.dp / layout.micro_batch;
            const auto pieces = steps.pieces(layout);
            const auto partial = layout.recompute == Recompute::full;
            EXPECT_LE(plan::lower_bound(pieces, job, layout.pp, layout.vpp, count, partial), seconds)
                << to_string(layout);
            EXPECT_LE(plan::split_bound(pieces, job, layout, count, partial), seconds) << to_string(layout);
            if (layout.first_layers == 0 || layout.last_layers == 0 || layout.vpp > 1) continue;
            const auto range = plan::splits(pieces, job, layout.pp, count, partial, seconds * (1 + 1e-6));
            EXPECT_LE(layout.first_layers, range.first_most) << to_string(layout);
            EXPECT_LE(layout.last_layers, range.last_most) << to_string(layout);
            EXPECT_LE(range.both_least, layout.first_layers + layout.last_layers) << to_string(layout);
        }
    }
}

TEST(Search, ComputesMoreLayersAgainForLessMemoryAndMoreTime) {
    for (const auto& job : small_jobs()) {
        const auto steps = plan::Steps(job);
        for (const auto& layout : all_layouts(job)) {
            if (layout.recompute != Recompute::full || layout.recompute_layers == 0) continue;
            auto more = layout;
            ++more.recompute_layers;
            if (!is_legal(job, more)) more.recompute_layers = 0;
            EXPECT_LE(steps.step(layout).seconds, steps.step(more).seconds * (1 + 1e-12))
                << to_string(layout);
            EXPECT_GE(plan::memory(job, layout).estimate, plan::memory(job, more).estimate)
                << to_string(layout);
        }
    }
}

TEST(Search, KeepsWhatIsFixedAndLimited) {
    const auto job = job_of(dense, 8, 8, 2048);
    auto options = plan::Options{.count = 100};
    plan::fix(options, "tp=2");
    plan::fix(options, "zero=1");
    plan::fix(options, "recompute=full");
    plan::limit(options, "pp=2");
    const auto found = plan::search(job, options);
    ASSERT_FALSE(found.best.empty());
    for (const auto& one : found.best) {
        EXPECT_EQ(one.layout.tp, 2);
        EXPECT_EQ(one.layout.zero, 1);
        EXPECT_EQ(one.layout.recompute, Recompute::full);
        EXPECT_LE(one.layout.pp, 2);
    }
    for (const auto* text : {"tp", "tp=", "tp=0", "tp=x", "tq=8", "zero=4", "recompute=some", "=", ""})
        EXPECT_THROW(plan::fix(options, text), UsageError) << text;
}

std::string error_of(const plan::Job& job, const plan::Options& options) {
    try {
        static_cast<void>(plan::search(job, options));
        return "";
    } catch (const UsageError& error) {
        return error.what();
    }
}

plan::Options fixed_to(const std::vector<std::string>& words) {
    auto options = plan::Options{};
    for (const auto& word : words) plan::fix(options, word);
    return options;
}

TEST(Search, SaysWhyNoLayoutIsLegal) {
    EXPECT_EQ(error_of(job_of(dense, 8192, 7, 2048), {}),
              "no layout of 8192 devices is legal with a batch of 7 sequences, but a batch of 8 has one; the "
              "layout pp=4 dp=8 cp=256 mbs=1 zero=0 recompute=none takes 8 sequences at a time (dp=8 times a "
              "micro-batch of 1), which do not divide a batch of 7");
    const auto expect_reason = [](const plan::Model& model, const std::vector<std::string>& fixed,
                                  const std::string& reason) {
        EXPECT_EQ(error_of(job_of(model, 8, 8, 2048), fixed_to(fixed)),
                  "no layout of 8 devices is legal" + reason);
    };
    expect_reason(dense, {"ep=2", "zero=1"}, ": each has ep=2, but the model has no experts");
    expect_reason(with_experts(), {"tp=1", "ep=3"},
                  ": each has ep=3, which does not divide the 4 experts of the model");
    expect_reason(with_experts(), {"ep=4", "etp=4"},
                  ": each has ep*etp=16, which does not divide its tp*cp*dp=8");
    expect_reason(dense, {"tp=7"}, ": tp=7 does not divide the 8 devices");
    expect_reason(dense, {"dp=3"}, ": dp=3 does not divide the 8 devices");
    expect_reason(dense, {"tp=4", "pp=4", "mbs=2"},
                  ": the product of pp=4 and tp=4 does not divide the 8 devices");
    expect_reason(dense, {"pp=8"}, ": each has pp=8 stages for 6 layers");
    expect_reason(dense, {"schedule=zb", "pp=1"},
                  ": each has schedule=zb on one stage; it takes pp=2 or more");
    expect_reason(dense, {"vpp=9"},
                  " with vpp=9; one of pp=2 has pp*vpp=18 chunks for 6 layers; only the first chunk of the "
                  "first stage and the last chunk of the last stage may have fewer layers than the others");
    auto options = plan::Options{};
    for (const auto* word : {"tp=1", "cp=1", "dp=1"}) plan::limit(options, word);
    EXPECT_EQ(error_of(job_of(dense, 8, 8, 2048), options),
              "no layout of 8 devices is legal with dp up to 1, cp up to 1 and tp up to 1: tp must divide "
              "the 16 heads and cp the 2048 tokens, pp is at most the 6 layers, and tp*cp*pp*dp is the "
              "number of devices");
}

TEST(Search, WhenNoLayoutIsLegal_NamesTheNextBatchThatHasOne) {
    auto deep = with_experts();
    deep.runs[1].count = 8;
    auto named = 0;
    auto without = 0;
    for (const auto& model : {dense, with_experts(), deep})
        for (const auto devices : {1, 6, 8})
            for (const auto& fixed : std::vector<std::vector<std::string>>{{"ep=2"},
                                                                           {"ep=3"},
                                                                           {"mbs=3"},
                                                                           {"vpp=2"},
                                                                           {"vpp=3", "mbs=2"},
                                                                           {"vpp=5"},
                                                                           {"dp=4"},
                                                                           {"schedule=zb"},
                                                                           {"schedule=dualpipe"},
                                                                           {"schedule=dualpipe", "pp=4"},
                                                                           {"tp=3"},
                                                                           {"pp=2", "dp=3"},
                                                                           {"pp=4", "vpp=2"},
                                                                           {"ep=2", "dp=1", "pp=2"}})
                for (const auto batch : {1, 5, 7}) {
                    const auto options = fixed_to(fixed);
                    const auto error = error_of(job_of(model, devices, batch, 2048), options);
                    if (error.empty()) continue;
                    const auto at = error.find("but a batch of ");
                    const auto next = at == std::string::npos ? 40 : std::stoi(error.substr(at + 15));
                    (at == std::string::npos ? without : named) += 1;
                    for (auto other = batch + 1; other < next; ++other)
                        EXPECT_NE(error_of(job_of(model, devices, other, 2048), options), "")
                            << other << " sequences: " << error;
                    if (at != std::string::npos) {
                        EXPECT_EQ(error_of(job_of(model, devices, next, 2048), options), "") << error;
                    }
                }
    EXPECT_GT(named, 20);
    EXPECT_GT(without, 20);
}

TEST(Advice, OfWhatWouldHelpIsByHowMuchFasterTheSameLayoutIsThen) {
    auto jobs = small_jobs();
    jobs.push_back(job_of(dense, 64, 128, 4096));
    auto said = std::map<std::string, int>{};
    for (const auto& job : jobs) {
        const auto options = plan::Options{};
        const auto found = plan::search(job, options);
        ASSERT_FALSE(found.best.empty());
        const auto& best = found.best.front();
        const auto gain = [&](auto&& change, double work) {
            auto other = job;
            change(other);
            return best.step.seconds * work / plan::step(other, best.layout).seconds - 1;
        };
        const auto gains = std::map<std::string, double>{
            {"twice the bandwidth between nodes", gain([](plan::Job& j) { j.machine.scale_out *= 2; }, 1)},
            {"twice the bandwidth inside a node", gain([](plan::Job& j) { j.machine.scale_up *= 2; }, 1)},
            {"twice the batch", gain([](plan::Job& j) { j.batch *= 2; }, 2)}};
        auto before = std::numeric_limits<double>::infinity();
        for (const auto& help : plan::what_would_help(job, found, options)) {
            EXPECT_GE(help.gain, 0.001) << help.what;
            EXPECT_LE(help.gain, before) << help.what;
            before = help.gain;
            if (gains.contains(help.what)) {
                EXPECT_DOUBLE_EQ(help.gain, gains.at(help.what)) << help.what;
            }
            ++said[help.what];
        }
    }
    for (const auto* what :
         {"twice the bandwidth between nodes", "twice the bandwidth inside a node", "twice the batch"})
        EXPECT_GT(said[what], 0) << what;
}

TEST(Advice, OfMeasuredStepsIsTheirMedianAndTheErrorsOfTheOthers) {
    auto job = plan::some_jobs().front();
    const auto layouts = plan::some_layouts(job);
    auto measured = std::vector<plan::Measured>{};
    for (const auto ratio : {3.0, 1.25, 1.0, 1.5, 1.25}) {
        const auto& layout = layouts[measured.size()];
        measured.push_back({.layout = layout, .seconds = ratio * plan::step(job, layout).seconds});
    }
    const auto before = plan::step(job, layouts.front()).seconds;
    const auto found = plan::calibrate(job, measured);
    EXPECT_EQ(found.steps, 5);
    EXPECT_NEAR(found.factor, 1.25, 1e-9);
    EXPECT_NEAR(plan::step(job, layouts.front()).seconds, 1.25 * before, 1e-9 * before);
    EXPECT_NEAR(found.before, (2.0 / 3 + 0.2 + 0 + 1.0 / 3 + 0.2) / 5, 1e-9);
    const auto middle = std::sqrt(1.25 * 1.5);  // of the others without 1 or 1.25
    const auto errors = {1 - 1.25 / 3, middle / 1.25 - 1, middle - 1, 1 - 1.25 / 1.5, middle / 1.25 - 1};
    EXPECT_NEAR(found.after, std::accumulate(errors.begin(), errors.end(), 0.0) / 5, 1e-9);
}

TEST(LayoutText, ReadsWhatItPrints) {
    for (const auto& job : small_jobs())
        for (const auto& layout : support::fewer_if_sanitized(all_layouts(job))) {
            ASSERT_EQ(plan::read_layout(to_string(layout)), layout) << to_string(layout);
            ASSERT_EQ(plan::read_layout(to_string(layout), job.devices), layout);
        }
    EXPECT_EQ(plan::read_layout("tp=8 pp=4", 256).dp, 8);
    EXPECT_EQ(plan::read_layout("tp=8 sp=0", 8).sequence_parallel, false);
    for (const auto* text : {"", "tp=0", "tp=-1", "tp=nan", "tp=4x", "tp=", "zero=x", "tp", "tq=8",
                             "tp=2 tp=2", "recompute=half", "recompute=none:2", "recompute=full:0",
                             "tp=99999999999", "sp=2", "tp=65536 pp=65536", "tp=3"})
        EXPECT_THROW(static_cast<void>(plan::read_layout(text, 256)), UsageError) << text;
}

}  // namespace of_search_tests
