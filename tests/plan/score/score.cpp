// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <string>

#include <rankmesh/plan/step.hpp>

#include "bench/plan/fit.hpp"
#include "bench/plan/report.hpp"
#include "bench/plan/rows.hpp"
#include "bench/plan/terms.hpp"

#include "support/command.hpp"
#include "support/text_of.hpp"

namespace rankmesh::plan::score {
namespace {

std::string published() {
    auto in = std::ifstream(RANKMESH_PUBLISHED);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// The shapes of the measured models.
Known shapes() {
    auto in = std::ifstream(RANKMESH_PLAN_MODELS);
    const auto text = std::string(std::istreambuf_iterator<char>(in), {});
    return {.models = read_models(text, RANKMESH_PLAN_MODELS), .devices = {}};
}

/// The first line and the first row with `from` in it written as `to`.
std::string changed(const std::string& from, const std::string& to) {
    const auto text = published();
    const auto end = text.find('\n', text.find('\n') + 1) + 1;
    auto head = text.substr(0, end);
    const auto at = head.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return head.replace(at, from.size(), to);
}

std::string last_line(std::string text) {
    while (text.ends_with('\n')) text.pop_back();
    return text.substr(text.rfind('\n') + 1);
}

TEST(Rows, AreReadAsTheirSourcesWroteThem) {
    const auto table = read(published(), "published.csv", shapes());
    ASSERT_EQ(table.rows.size(), 12U);
    EXPECT_TRUE(table.left_out.empty());
    const auto& first = table.rows[0];
    EXPECT_EQ(first.family, "korthikanti2022");
    EXPECT_EQ(first.job.model.name, "gpt3-22B");
    EXPECT_EQ(first.layout, (Layout{.tp = 8, .micro_batch = 4, .recompute = Recompute::full}));
    EXPECT_EQ(first.seconds, 1.42);
    const auto& bloom = table.rows[9];
    EXPECT_EQ(bloom.job.machine.scale_out, 6.25e9);
    EXPECT_EQ(bloom.memory, 60.0);
    EXPECT_FALSE(bloom.allocated);
    EXPECT_EQ(table.rows[11].out_of_memory, true);
    EXPECT_EQ(table.rows[6].job.model.layers(), 12);
    EXPECT_TRUE(table.rows[6].allocated);
}

TEST(Rows, OfAFewLayersOfAModelHaveOneOfItsDenseOnes) {
    const auto model = [](const std::string& layers) {
        return read(changed("gpt3-22B,,", "deepseek-v3," + layers + ","), "f", {}).rows.at(0).job.model;
    };
    EXPECT_EQ(model("").layers(), 61);
    EXPECT_EQ(model("").counts()[0], 3);
    for (const int layers : {1, 2, 4, 61}) {
        EXPECT_EQ(model(std::to_string(layers)).layers(), layers);
        EXPECT_EQ(model(std::to_string(layers)).counts()[0], 1) << layers;
    }
}

TEST(Rows, ShardAmongTheGroupThatTheirWordsName) {
    const auto layout = [](const std::string& zero) {
        return read(changed("8,8,8,1,1,1,1,1,0,4,4,", "8,8,1,1,1,1,1,8," + zero + ",1,8,"), "f", {})
            .rows.at(0)
            .layout;
    };
    EXPECT_EQ(layout("1").zero_group, 0);
    for (const auto& [words, group] :
         {std::pair{"1 (group 1)", 1}, {"1 (group 4)", 4}, {"2 group 8", 8}, {"1 (HSDP)", 8}}) {
        EXPECT_EQ(layout(words).zero_group, group) << words;
        EXPECT_EQ(layout(words).zero, words[0] - '0') << words;
    }
    for (const auto* words : {"1 (group 0)", "1 (group 9)", "1 group", "1 group x", "1 (group -1)"})
        EXPECT_EQ(layout(words).zero_group, 0) << words;
}

TEST(Rows, TakeTheFabricFromTheirWords) {
    const auto scale_out = [](const std::string& words) {
        return read(changed("dp=1: no DP traffic", words), "f", {}).rows.at(0).job.machine.scale_out;
    };
    EXPECT_EQ(scale_out("4x100Gb RoCE per node"), 6.25e9);
    EXPECT_EQ(scale_out("400 Gbps per node"), 6.25e9);
    EXPECT_EQ(scale_out("with 1600 Gbps node-node interconnect"), 25e9);
    EXPECT_EQ(scale_out("Gb xGb 0x0Gb 99999999999999999999x1Gb"), 25e9);  // the usual one of the device
}

TEST(Rows, ThatAreWrongAreErrorsWithTheirLine) {
    const auto text = [](const std::string& from, const std::string& to) {
        return text_of([&] { read(changed(from, to), "f.csv", {}); });
    };
    EXPECT_EQ(text(",1.42,", ",nan,"),
              "f.csv:2: has 'nan' as step_time_s, which is not a number of 0 or more");
    EXPECT_EQ(text(",1.42,", ",-1.42,"),
              "f.csv:2: has '-1.42' as step_time_s, which is not a number of 0 or more");
    EXPECT_EQ(text(",1.42,", ",0,"), "f.csv:2: has a step time of 0");
    EXPECT_EQ(text(",1.42,", ",1e999,"),
              "f.csv:2: has '1e999' as step_time_s, which is not a number of 0 or more");
    EXPECT_EQ(text(",2048,A100", ",20.5,A100"),
              "f.csv:2: has '20.5' as seq, which is not a whole number from 0 to 1073741824");
    EXPECT_EQ(text("SXM-80GB,8,8,8,1", "SXM-80GB,8,8,4,1"), "f.csv:2: has tp*cp*pp*dp=4, but 8 gpus");
    EXPECT_EQ(text("gpt3-22B,,", "gpt3-22B"), "f.csv:2: has 28 fields, but the first line names 30");
    EXPECT_EQ(text("step_time_s", "seconds"), "f.csv:1: has no column 'step_time_s'");
    EXPECT_EQ(text_of([] { read("", "f.csv", {}); }), "f.csv: is empty; the first line names the columns");
}

TEST(Rows, ThatCannotBeScoredAreCountedWithTheReason) {
    const auto why = [](const std::string& from, const std::string& to) {
        const auto table = read(changed(from, to), "f.csv", {});
        EXPECT_TRUE(table.rows.empty());
        EXPECT_EQ(table.left_out.size(), 1U);
        return table.left_out.begin()->first;
    };
    EXPECT_EQ(why("gpt3-22B", "gpt3-23B"), "the shape of 'gpt3-23B' is not known");
    EXPECT_EQ(why("A100-SXM-80GB", "Z1"), "the device 'Z1' is not known");
    EXPECT_EQ(why(",1.42,", ",,"), "nothing was measured");
    EXPECT_EQ(why("SXM-80GB,8,8,8,1", "SXM-80GB,8,,8,1"), "a size is not stated");
    auto beside = Known{};
    beside.models.push_back(models()[0]);
    beside.models.back().name = "gpt3-23B";
    EXPECT_EQ(read(changed("gpt3-22B", "gpt3-23B"), "f.csv", beside).rows.size(), 1U);
}

TEST(Scores, OfPublishedRowsAreClose) {
    const auto table = read(published(), "published.csv", shapes());
    const auto errors = step_errors(predict(table.rows));
    EXPECT_EQ(errors.rows, 11);
    EXPECT_LT(errors.mean, 4.5);
    EXPECT_LT(errors.most, 10);
}

TEST(Scores, AreThoseOfRowsWhoseErrorsAreKnown) {
    auto table = read(published(), "published.csv", shapes());
    auto scored = predict(table.rows);
    for (std::size_t i = 0; i < scored.size(); ++i) {
        scored[i].refused = false;
        if (scored[i].row->seconds) scored[i].seconds = *scored[i].row->seconds * (i == 0 ? 1.2 : 0.96);
        if (scored[i].row->memory) scored[i].memory = *scored[i].row->memory * 1.05;
    }
    EXPECT_EQ(last_line(report(scored)),
              "{\"step_mean\":5.4545,\"step_median\":4.0000,\"step_within_10\":90.9091,\"mem_mean\":5.0000,"
              "\"oom_refused\":0,\"oom_total\":1,"
              "\"false_refusals\":0.0000,\"pairs_right\":100.0000,\"regret_mean\":0.0000}");
    // The two layouts of 175B in the wrong order: one pair is wrong, and the first choice takes 18.13 s,
    // not 13.75.
    for (auto& one : scored)
        if (one.row->name == "4") one.seconds = 19;
    const auto line = last_line(report(scored));
    EXPECT_EQ(line.find("\"pairs_right\":100"), std::string::npos) << line;
    EXPECT_EQ(line.find("\"regret_mean\":0.0000"), std::string::npos) << line;
}

TEST(Scores, FallWithEachTermThatIsLeftOutWhereItIsTheOnlyOne) {
    auto table = read(published(), "published.csv", shapes());
    const auto all = predict(table.rows);
    for (const auto& term : terms()) {
        const auto left = predict(table.rows, &term);
        auto changed = false;
        for (std::size_t i = 0; i < left.size(); ++i) {
            EXPECT_TRUE(std::isfinite(left[i].seconds)) << term.name;
            changed = changed || left[i].seconds != all[i].seconds;
        }
        const auto absent = term.name == "cp" || term.name == "ep" || term.name == "shards" ||
                            term.name == "expert-launch" || term.name.starts_with("expert-") ||
                            term.name == "most-nodes" || term.name == "schedule" ||
                            term.name == "alignment" || term.name == "overlap" || term.name == "channels";
        EXPECT_EQ(changed, !absent) << term.name;
    }
}

/// The rows of a table in bench/plan.
std::vector<Row> rows_of(const std::string& name) {
    auto in = std::ifstream(RANKMESH_SOURCE "/bench/plan/" + name);
    const auto text = std::string(std::istreambuf_iterator<char>(in), {});
    return read(text, name, shapes()).rows;
}

TEST(Scores, RefuseNoPublishedLayoutOfALargeJob) {
    const auto rows = rows_of("large.csv");
    ASSERT_EQ(rows.size(), 17U);
    auto inside = 0;
    for (const auto& one : predict(rows)) {
        inside += one.inside ? 1 : 0;
        EXPECT_FALSE(one.refused) << one.row->name << " needs " << one.memory << " GiB";
        EXPECT_NO_THROW(check(one.row->layout, one.row->job.model, one.row->job.batch, one.row->job.sequence))
            << one.row->name;
        const auto step = Steps(one.row->job).step(one.row->layout);
        if (one.row->family == "llama3-405B") {
            EXPECT_LE(step.low, *one.row->seconds) << one.row->name;
            EXPECT_GE(step.high, *one.row->seconds) << one.row->name;
            EXPECT_EQ(step.beyond, "more devices than any measured job");
        }
    }
    EXPECT_GE(inside, 0.9 * static_cast<double>(rows.size()));
}

TEST(Scores, OfRecipesLieInTheirRanges) {
    const auto rows = rows_of("recipes.csv");
    ASSERT_GT(rows.size(), 100U);
    auto inside = 0;
    for (const auto& row : rows) {
        const auto step = Steps(row.job).step(row.layout);
        inside += step.low <= *row.seconds && *row.seconds <= step.high ? 1 : 0;
    }
    EXPECT_GE(inside, 0.9 * static_cast<double>(rows.size()));
    for (const auto& one : predict(rows)) EXPECT_FALSE(one.refused) << one.row->name;
}

TEST(Fits, FindTheValuesThatMadeTheRows) {
    auto rows = rows_of("recipes.csv");
    const auto all = parameters_to_fit();
    auto values = std::vector<double>{};
    for (const auto& one : all) values.push_back(one.start * (one.name == "edge" ? 1.3 : 1));
    const auto errors = errors_with(values, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) *rows[i].seconds *= 1 + errors[i];
    const auto found = fit(rows);
    ASSERT_EQ(found.size(), all.size());
    for (const auto error : errors_with(found, rows)) EXPECT_LT(std::abs(error), 0.01);
    auto start = std::vector<double>{};
    for (const auto& one : all) start.push_back(one.start);
    const auto worst = [&](const std::vector<double>& with) {
        auto most = 0.0;
        for (const auto error : errors_with(with, rows)) most = std::max(most, std::abs(error));
        return most;
    };
    EXPECT_LT(worst(found), worst(start));
}

TEST(Scores, OfNoRowsAreSaid) {
    const auto out = report(predict({}));
    EXPECT_EQ(last_line(out),
              "{\"step_mean\":0.0000,\"step_median\":0.0000,\"step_within_10\":0.0000,\"mem_mean\":0.0000,"
              "\"oom_refused\":0,\"oom_total\":0,"
              "\"false_refusals\":0.0000,\"pairs_right\":0.0000,\"regret_mean\":0.0000}");
}

TEST(ScoreProgram, PrintsTablesAndEndsWithJson) {
    const auto score = std::string(RANKMESH_SCORE) + " ";
    const auto all = support::run(score + RANKMESH_PUBLISHED);
    EXPECT_EQ(all.exit_code, 0);
    EXPECT_TRUE(last_line(all.output).starts_with("{\"step_mean\":")) << all.output;
    EXPECT_NE(all.output.find("refusals: 1 of 1 rows that ran out of memory, 0 of 11 that did not"),
              std::string::npos)
        << all.output;
    const auto left = support::run(score + "--without tp " + RANKMESH_PUBLISHED);
    EXPECT_EQ(left.exit_code, 0);
    EXPECT_NE(last_line(left.output), last_line(all.output));
    EXPECT_NE(support::run(score + "--ablation " + RANKMESH_PUBLISHED).output.find("bubble"),
              std::string::npos);
    EXPECT_NE(support::run("head -1 " RANKMESH_PUBLISHED " | " + score + "/dev/stdin")
                  .output.find("0 rows can be scored"),
              std::string::npos);
}

TEST(ScoreProgram, PrintsWhatTheDocumentShows) {
    auto in = std::ifstream(RANKMESH_DOCUMENT);
    const auto document = std::string(std::istreambuf_iterator<char>(in), {});
    const auto printed = support::run(std::string(RANKMESH_SCORE) + " " + RANKMESH_PUBLISHED).output;
    EXPECT_NE(document.find("```text\n" + printed + "```\n"), std::string::npos) << printed;
}

TEST(ScoreProgram, PrintsEachRowWhereItIsAsked) {
    const auto printed = support::run(std::string(RANKMESH_SCORE) + " --rows " + RANKMESH_PUBLISHED).output;
    EXPECT_NE(printed.find("\n670        bloom-chronicles         A"), std::string::npos) << printed;
}

TEST(ScoreProgram, ExitsWithTwoForWhatItCannotRead) {
    const auto score = std::string(RANKMESH_SCORE) + " ";
    for (const auto& [arguments, text] :
         {std::pair{"", "rankmesh-plan-score: names no file\n"},
          std::pair{"/nowhere", "rankmesh-plan-score: cannot read '/nowhere'\n"},
          std::pair{"/", "rankmesh-plan-score: cannot read '/'\n"},
          std::pair{"--without bubbel x",
                    "rankmesh-plan-score: no term is named 'bubbel'; did you mean 'bubble'?"},
          std::pair{"--without", "rankmesh-plan-score: --without names no term\n"},
          std::pair{"--speed", "rankmesh-plan-score: there is no option '--speed'\n"}}) {
        const auto outcome = support::run(score + arguments);
        EXPECT_EQ(outcome.exit_code, 2) << arguments;
        EXPECT_TRUE(outcome.output.starts_with(text)) << outcome.output;
    }
}

}  // namespace
}  // namespace rankmesh::plan::score
