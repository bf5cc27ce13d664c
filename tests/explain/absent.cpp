// SPDX-License-Identifier: Apache-2.0
// Ranks that left no record or left the job: what their peers say about them.
#include <gtest/gtest.h>

#include <rankmesh/explain/explain.hpp>

#include "recorded_job.hpp"

namespace rankmesh::tests {
namespace {

using Kind = Finding::Kind;

TEST(Explain, OfRanksWithoutARecord_CallsLostOnlyThoseThatAPeerLost) {
    auto job = RecordedJob(Mesh{{"dp", 2}, {"tp", 2}});
    job.all({{"dp", "tp"}});
    job[2].clear(), job[3].clear();
    job.run();
    auto records = records_of(job, {2, 3});
    for (auto& record : records) {
        record.reason = "peer_lost", record.lost = {2};
        record.error = "rank 2 is gone: its process has ended or cannot be reached; 'dp,tp' has lost rank 2";
    }
    const auto text = explain(records).findings[0].text;
    EXPECT_EQ(
        text.find("ranks {2 (dp=1 tp=0), 3 (dp=1 tp=1)} left no record, and ranks {0 (dp=0 tp=0), 1 (dp=0 "
                  "tp=1)} lost rank 2 (dp=1 tp=0): its process has ended or cannot be reached; no "
                  "other rank reports what happened to rank 3 (dp=1 tp=1)"),
        0U)
        << text;
}

TEST(Explain, SaysOfARankWithoutARecordWhatTheErrorsOfItsPeersSay) {
    auto job = RecordedJob(Mesh{{"dp", 2}, {"tp", 2}});
    job.all({{"dp", "tp"}});
    job[2].clear();
    job.run();
    for (const auto& [error, told] :
         {std::pair{
              "the timeout of 2 s expired on rank 0 in all_reduce of 4 f32 by sum, call number 1 on 'dp,tp' "
              "of "
              "mesh dp=2 tp=2, group {0..3}: arrived ranks {0, 1, 3}, missing rank 2 [dp=1 tp=0]; 'dp,tp' of "
              "mesh dp=2 "
              "tp=2 cannot be used any more; rank 2 [dp=1 tp=0] does not answer: it is stopped, cut off or "
              "gone",
              "does not answer: it is stopped, cut off or gone"},
          std::pair{"expired: arrived ranks {0, 1, 3}, missing rank 2 [dp=1 tp=0] ; rank 2 [dp=1 tp=0] is "
                    "stopped, or has "
                    "no time to answer; the job is ended",
                    "is stopped, or has no time to answer"}}) {
        auto records = records_of(job, {2});
        records[0].error = error;
        for (auto& record : records) record.missing = {2};
        const auto said = explain(records);
        ASSERT_EQ(said.findings.size(), 1U);
        EXPECT_EQ(said.findings[0].kind, Kind::absent);
        EXPECT_EQ(said.findings[0].text,
                  "rank 2 (dp=1 tp=0) left no record; rank 0 (dp=0 tp=0) reports that it " +
                      std::string(told) + "; 3 ranks wait for it, directly or through others");
        // In join there are no calls yet.
        for (auto& record : records) record.entries.clear(), record.statuses.clear();
        const auto early = explain(records);
        ASSERT_EQ(early.findings.size(), 1U);
        EXPECT_EQ(early.findings[0].kind, Kind::absent);
        EXPECT_EQ(early.findings[0].ranks, std::vector{2});
        // What no error says is not invented.
        for (auto& record : records)
            record.reason = "peer_lost", record.missing = {}, record.lost = {2}, record.error = "";
        EXPECT_EQ(
            explain(records).findings[0].text,
            "rank 2 (dp=1 tp=0) left no record, and ranks {0 (dp=0 tp=0), 1 (dp=0 tp=1), 3 (dp=1 tp=1)} "
            "lost it");
    }
}

TEST(Explain, ALostRank_IsDescribedInTheWordsOfItsPeers) {
    auto job = RecordedJob(Mesh{{"dp", 2}, {"tp", 2}});
    job.all({{"dp", "tp"}});
    job[1].clear(), job[2].clear();
    job.run();
    const auto hint = std::string("returned early: look at the branch that ");
    for (const auto& [error, words, early] :
         {std::tuple{
              "rank 1 has ended this communicator; 'dp,tp' of mesh dp=2 tp=2 has lost rank 1 [dp=0 tp=1]",
              "lost it: it has ended this communicator", true},
          {"rankmesh: rank 1 [dp=0 tp=1] has ended the world while another rank waits: rank 0 [dp=0 tp=0] in "
           "recv of 1 "
           "i32 from 1; the job is ended",
           "lost it: it has ended the world while another rank waits", true},
          {"rank 1 is gone: its process has ended or cannot be reached; 'dp,tp' has lost rank 1",
           "lost it: its process has ended or cannot be reached", false},
          {"rank 1 left by an exception", "lost it: it left by an exception", false},
          {"rank 2 is gone: something else", "lost it", false}}) {
        auto records = records_of(job, {1});
        for (auto& record : records) record.reason = "peer_lost", record.lost = {1}, record.error = error;
        const auto said = explain(records).findings.at(0);
        EXPECT_EQ(
            said.text.substr(0, said.text.rfind("; ")),
            "rank 1 (dp=0 tp=1) left no record, and ranks {0 (dp=0 tp=0), 2 (dp=1 tp=0), 3 (dp=1 tp=1)} " +
                std::string(words));
        EXPECT_EQ(said.details.front().starts_with("rank 1 (dp=0 tp=1) " + hint + "it took"), early) << error;
    }
    // Several, with one text or with several.
    auto records = records_of(job, {1, 2});
    for (auto& record : records) record.reason = "peer_lost", record.lost = {1, 2};
    records[0].error = "the ranks {1, 2} have ended this communicator; 'dp,tp' has lost ranks {1, 2}";
    auto said = explain(records).findings.at(0);
    EXPECT_NE(said.text.find("lost them: they have ended this communicator; 2 ranks wait"), std::string::npos)
        << said.text;
    EXPECT_NE(said.details.front().find(hint + "they took"), std::string::npos);
    records[0].error = "rank 1 is gone: it crashed; rank 2 [dp=1 tp=0] has ended this communicator";
    said = explain(records).findings.at(0);
    EXPECT_NE(said.text.find("lost them; 2 ranks wait"), std::string::npos) << said.text;
    EXPECT_EQ(said.details.at(0), "rank 2 (dp=1 tp=0) has ended this communicator");
    EXPECT_EQ(said.details.at(1), "rank 1 (dp=0 tp=1) is gone: it crashed");
    EXPECT_NE(said.details.at(2).find("rank 2 (dp=1 tp=0) " + hint), std::string::npos);
}

TEST(Explain, ARankWhoseRecordCannotBeRead_IsNotOneWithoutARecord) {
    auto job = RecordedJob(Mesh{{"dp", 2}, {"tp", 2}});
    job.all({{"dp", "tp"}});
    job[1].clear();
    job.run();
    auto records = records_of(job, {0, 1, 2});
    records[0].reason = "peer_lost", records[0].lost = {1};
    const auto unread = std::vector<UnreadFile>{{"rank-0.json", "rank-0.json is cut off", 0},
                                                {"rank-2.json", "rank-2.json is empty", 2}};
    auto said = explain(records, unread);
    ASSERT_EQ(said.findings.size(), 1U);
    EXPECT_EQ(said.findings[0].ranks, std::vector{1});
    EXPECT_EQ(said.findings[0].text,
              "rank 1 (dp=0 tp=1) left no record, and rank 3 (dp=1 tp=1) lost it; 1 rank waits for it");
    EXPECT_EQ(
        said.findings[0].details.front(),
        "the records of ranks {0 (dp=0 tp=0), 2 (dp=1 tp=0)} cannot be read, so what they did is not known");
    EXPECT_EQ(said.notes, (std::vector<std::string>{"rank 3 (dp=1 tp=1) reports peer_lost",
                                                    "no record of rank 1 (dp=0 tp=1)",
                                                    "rank-0.json is cut off", "rank-2.json is empty"}));
    // Where only such ranks are awaited, they are the ones.
    records = records_of(job, {0, 2});
    records[1].reason = "timeout", records[1].missing = {0, 2};
    said = explain(records, unread);
    EXPECT_EQ(
        said.findings[0].text.find("ranks {0 (dp=0 tp=0), 2 (dp=1 tp=0)} left no record that can be read"),
        0U)
        << said.findings[0].text;
}

TEST(Explain, BlamesARankThatLeftOnlyWhereItsOwnRecordSaysWhy) {
    auto job = RecordedJob(Mesh{{"tp", 3}});
    job.all({{"tp"}});
    job.run();
    auto records = records_of(job);
    records[0].reason = records[2].reason = "peer_lost";
    records[0].lost = records[2].lost = {1};
    records[1].reason = "terminate";
    records[1].error = "out of memory";
    const auto said = explain(records);
    ASSERT_EQ(said.findings.size(), 1U);
    EXPECT_EQ(said.findings.front().kind, Kind::left);
    EXPECT_EQ(said.findings.front().ranks, std::vector{1});
    EXPECT_EQ(said.findings.front().text, "rank 1 (tp=1) left, reason terminate: out of memory");

    // Its timeout made it leave: it is not the one that did not come.
    for (const auto* reason : {"timeout", "peer_lost"}) {
        records[1].reason = reason;
        for (const auto& finding : explain(records).findings) EXPECT_NE(finding.kind, Kind::left) << reason;
    }
}

TEST(Explain, ALostRank_WhenItLeftByAMismatch_IsNoOtherFinding) {
    auto job = RecordedJob(Mesh{{"dp", 2}, {"tp", 2}});
    job.all({{"dp", "tp"}});
    job.all({{"tp"}});
    job.all({{"dp"}});
    job[1][1].count = 3;
    job.run();
    auto records = records_of(job);
    for (auto& record : records) {
        const auto made_it = record.rank < 2;  // along dp, ranks 2 and 3 lose their peer
        record.reason = made_it ? "disagreement" : "peer_lost";
        record.error = made_it ? "not the same" : "";
        if (!made_it) record.lost = {record.rank - 2};
    }
    const auto said = explain(records);
    ASSERT_EQ(said.findings.size(), 1U) << said.findings[1].text;
    EXPECT_EQ(said.findings[0].kind, Kind::calls_differ);
    EXPECT_EQ(said.findings[0].ranks, std::vector{1});
    EXPECT_EQ(said.notes.front(),
              "ranks {0 (dp=0 tp=0), 1 (dp=0 tp=1)} report disagreement; the first: not the same");

    // Another error, or a disagreement that no call shows, is one.
    records[0].reason = "exception";
    EXPECT_EQ(explain(records).findings.back().text,
              "rank 0 (dp=0 tp=0) left, reason exception: not the same");
    for (auto& record : records) record.entries.clear(), record.statuses.clear();
    const auto in_join = explain(records);
    EXPECT_EQ(in_join.findings.back().kind, Kind::left);
    EXPECT_EQ(in_join.findings.back().ranks, std::vector{1});
}

}  // namespace
}  // namespace rankmesh::tests
