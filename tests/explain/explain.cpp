// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/explain/explain.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include <rankmesh/explain/read.hpp>

#include "recorded_job.hpp"

namespace rankmesh::tests {
namespace {

using Kind = Finding::Kind;

/// Calls along the axes of a mesh and over all of it, of which no two in a row are equal.
std::vector<Step> calls_on(const Mesh& mesh, std::mt19937& random, std::size_t count) {
    auto sets = std::vector<std::vector<std::string>>{{}};
    for (int a = 0; a < mesh.axis_count(); ++a) {
        sets.push_back({std::string(mesh.name(AxisId{a}))});
        sets.front().emplace_back(mesh.name(AxisId{a}));
    }
    const auto any = [&](std::size_t most) {
        return std::uniform_int_distribution<std::size_t>(0, most - 1)(random);
    };
    auto calls = std::vector<Step>{};
    while (calls.size() < count) {
        auto step = Step{sets[any(sets.size())]};
        step.count = static_cast<int>(1 + any(9));
        if (any(3) == 0) step.operation = "all_gather", step.reduction = "";
        if (any(4) == 0) step.operation = "broadcast", step.reduction = "", step.argument = 0;
        if (calls.empty() || calls.back().axes != step.axes || calls.back().operation != step.operation)
            calls.push_back(step);
    }
    return calls;
}

const auto meshes = {"dp=2 tp=2", "dp=3 tp=2", "pp=2 dp=2 tp=2", "dp=4 tp=3", "tp=5"};

/// Runs a program in which one rank does something else, and returns what its records say.
struct Case {
    int culprit = 0;
    std::string text;
    Explanation explanation;
};
Case with_fault(unsigned seed, const std::function<void(std::vector<Step>&, std::size_t)>& fault,
                bool dies = false) {
    auto random = std::mt19937(seed);
    const auto mesh = Mesh::parse(std::data(meshes)[seed % meshes.size()]);
    auto job = RecordedJob(mesh);
    for (const auto& step : calls_on(mesh, random, 12)) job.all(step);
    const auto culprit = static_cast<int>(random() % static_cast<unsigned>(mesh.size()));
    fault(job[culprit], 4 + random() % 4);
    job.run();
    auto result = Case{.culprit = culprit, .text = {}, .explanation = {}};
    result.explanation = explain(records_of(job, dies ? std::vector{culprit} : std::vector<int>{}));
    result.text =
        to_string(mesh) + ", rank " + std::to_string(culprit) + ", seed " + std::to_string(seed) + ":";
    for (const auto& finding : result.explanation.findings)
        result.text += "\n  " + std::string(to_string(finding.kind)) + " " + ranks_to_string(finding.ranks) +
                       " " + finding.text;
    return result;
}

void expect_first(const Case& one, std::initializer_list<Kind> kinds) {
    ASSERT_FALSE(one.explanation.findings.empty()) << one.text;
    const auto& first = one.explanation.findings.front();
    EXPECT_NE(std::ranges::find(kinds, first.kind), kinds.end()) << one.text;
    EXPECT_NE(std::ranges::find(first.ranks, one.culprit), first.ranks.end()) << one.text;
}

constexpr unsigned seeds = 40;

TEST(Explain, SaysOfAProgramWithoutFaultsThatNothingIsWrong) {
    for (unsigned seed = 0; seed < seeds; ++seed) {
        const auto one = with_fault(seed, [](auto&, auto) {});
        EXPECT_TRUE(one.explanation.findings.empty()) << one.text;
        EXPECT_EQ(one.explanation.doubts, std::vector<std::string>{}) << one.text;
    }
}

TEST(Explain, NeverSaysThatNothingIsWrongWithoutTheRecordOfEachRank) {
    for (unsigned seed = 0; seed < seeds; ++seed) {
        const auto fine = with_fault(
            seed, [](auto&, auto) {}, true);
        EXPECT_TRUE(fine.explanation.findings.empty()) << fine.text;
        ASSERT_EQ(fine.explanation.doubts.size(), 1U) << fine.text;
        EXPECT_TRUE(fine.explanation.doubts[0].starts_with("no record of rank ")) << fine.text;
        const auto cut = with_fault(
            seed, [](auto& calls, auto i) { calls.resize(i); }, true);
        EXPECT_FALSE(cut.explanation.findings.empty()) << cut.text;
    }
}

TEST(Explain, DoubtsUnfinishedAndUnevenCallsInARunThatReportsNothing) {
    auto job = RecordedJob(Mesh{{"tp", 3}});
    job.all({{"tp"}});
    job.all({{"tp"}, "barrier", 0, "i32", ""});
    job.run();
    auto records = records_of(job);
    records[1].entries[1].state = RecordedState::started;
    records[1].statuses.front().completed = 1;
    EXPECT_EQ(
        explain(records).doubts,
        std::vector<std::string>{"barrier of 0 i32, call 2 on 'tp' of mesh tp=3 {0..2} is not over in the "
                                 "record of rank 1 (tp=1)"});
    records[1].entries.pop_back();
    records[1].statuses.front().enqueued = 1;
    EXPECT_EQ(
        explain(records).doubts,
        std::vector<std::string>{"rank 0 (tp=0) has made 2 calls on 'tp' of mesh tp=3 {0..2}, and rank 1 "
                                 "(tp=1) 1"});
    records[1].every_s = 10;
    records[1].reason = "request";
    const auto running = explain(records);
    ASSERT_EQ(running.doubts.size(), 2U);
    EXPECT_EQ(running.doubts[0],
              "the job may run: its ranks write records every 10 s, not at the same moment; 'rankmesh watch "
              "FOLDER' says which calls stand");
    auto twice = records_of(job);
    twice.push_back(twice.back());
    twice.back().file = "rank-2.2.json";
    EXPECT_EQ(explain(twice).doubts,
              std::vector<std::string>{"rank-2.2.json is of rank 2 as rank-2.json is, and is left out"});
}

TEST(Explain, QuotesAnErrorOfSeveralLinesOnOne) {
    auto job = RecordedJob(Mesh{{"dp", 2}});
    job.all({{"dp"}});
    job.run();
    auto records = records_of(job);
    records[1].reason = "exception";
    records[1].error = "plans differ:\n  rank 0: dp=2\n  rank 1: dp=1";
    const auto said = explain(records);
    ASSERT_EQ(said.findings.size(), 1U);
    EXPECT_NE(said.findings[0].text.find("plans differ: rank 0: dp=2 rank 1: dp=1"), std::string::npos)
        << said.findings[0].text;
}

TEST(Explain, Errors_WhenTheyDiffer_AreNotMerged) {
    auto job = RecordedJob(Mesh{{"dp", 2}, {"tp", 2}});
    job.all({{"dp", "tp"}});
    job[3].clear();
    job.run();
    auto records = records_of(job);
    const auto timeout = [](const std::string& rank, const std::string& rest) {
        return "the timeout of 5 s expired on rank " + rank + " in " + rest;
    };
    records[0].error = timeout("0", "all_reduce on 'world'; rank 3 is outside any call for 5.0 s");
    records[1].error = timeout("1", "all_reduce on 'world'; rank 3 is outside any call for 5.1 s");
    records[2].error = timeout("2", "barrier on 'tp'");
    ASSERT_EQ(records.size(), 4U);
    records[3].reason = "timeout";
    records[3].error = records[0].error;  // as on threads
    const auto said = explain(records);
    EXPECT_EQ(said.notes,
              (std::vector<std::string>{
                  "ranks {0 (dp=0 tp=0), 1 (dp=0 tp=1), 3 (dp=1 tp=1)} report timeout; the first: " +
                      records[0].error,
                  "rank 2 (dp=1 tp=0) reports timeout: " + records[2].error}));
}

TEST(Explain, Errors_WhenMany_AreCounted) {
    auto job = RecordedJob(Mesh{{"tp", 6}});
    job.all({{"tp"}});
    job[5].clear();
    job.run();
    auto records = records_of(job);
    for (auto& record : records) record.error = "error " + std::to_string(record.rank);
    const auto notes = explain(records).notes;
    ASSERT_EQ(notes.size(), 4U);
    EXPECT_EQ(notes.back(), "and 2 more errors of other ranks");
    // The rank on which a timeout expired, and since when, make no other error.
    for (auto& record : records) {
        const auto rank = std::to_string(record.rank);
        record.error = "the timeout of 2 s expired on rank " + rank + " [tp=" + rank +
                       "] in barrier, since 10:46:4" + rank + ": missing rank 5";
    }
    EXPECT_EQ(explain(records).notes.size(), 1U);
    for (auto& record : records)
        record.error = "the timeout expired in join on rank " + std::to_string(record.rank) + ": why";
    EXPECT_EQ(explain(records).notes.size(), 1U);
    // A timeout is a consequence, also if more ranks report it.
    records[4].error = "error 4";
    records[4].reason = "exception";
    EXPECT_EQ(explain(records).notes.front(), "rank 4 (tp=4) reports exception: error 4");
}

TEST(Explain, Errors_WhenLong_AreCutBetweenWords) {
    auto job = RecordedJob(Mesh{{"tp", 2}});
    job.all({{"tp"}});
    job[1].clear();
    job.run();
    for (std::size_t words = 1; words < 200; ++words) {
        auto records = records_of(job);
        auto& error = records[0].error;
        for (std::size_t i = 0; i < words; ++i) error += (i == 0 ? "word" : " word") + std::to_string(i);
        const auto note = explain(records).notes.front();
        const auto said = note.substr(note.find(": ") + 2);
        if (error.size() <= 400) {
            EXPECT_EQ(said, error);
            continue;
        }
        const auto cut = said.find(" … ");
        ASSERT_NE(cut, std::string::npos) << said;
        EXPECT_LE(said.size(), 405U) << said;
        EXPECT_TRUE(error.starts_with(said.substr(0, cut) + " ")) << said;
        EXPECT_TRUE(error.ends_with(said.substr(cut + std::string(" …").size()))) << said;
    }
    // A text of one word.
    auto records = records_of(job);
    records[0].error = std::string(1000, 'x');
    EXPECT_NE(explain(records).notes.front().find(" bytes left out] "), std::string::npos);
}

TEST(Explain, NamesWhoCalledAnotherOperation) {
    for (unsigned seed = 0; seed < seeds; ++seed)
        expect_first(with_fault(seed,
                                [](auto& calls, auto i) {
                                    calls[i].operation =
                                        calls[i].operation == "all_reduce" ? "all_gather" : "all_reduce";
                                }),
                     {Kind::calls_differ});
}

TEST(Explain, NamesWhoPassedAnotherCountTypeReductionOrRoot) {
    for (unsigned seed = 0; seed < seeds; ++seed) {
        expect_first(with_fault(seed, [](auto& calls, auto i) { ++calls[i].count; }), {Kind::calls_differ});
        expect_first(with_fault(seed, [](auto& calls, auto i) { calls[i].dtype = "f64"; }),
                     {Kind::calls_differ});
        expect_first(with_fault(seed,
                                [](auto& calls, auto i) {
                                    if (calls[i].operation == "broadcast")
                                        calls[i].argument = 1;
                                    else if (calls[i].reduction == "sum")
                                        calls[i].reduction = "max";
                                    else
                                        ++calls[i].count;
                                }),
                     {Kind::calls_differ});
    }
}

TEST(Explain, NamesWhoLeftACallOutOrMadeItTwice) {
    for (unsigned seed = 0; seed < seeds; ++seed) {
        expect_first(
            with_fault(seed, [](auto& calls, auto i) { calls.erase(calls.begin() + static_cast<long>(i)); }),
            {Kind::calls_differ, Kind::cycle, Kind::behind, Kind::extra});
        expect_first(
            with_fault(seed, [](auto& calls,
                                auto i) { calls.insert(calls.begin() + static_cast<long>(i), calls[i]); }),
            {Kind::calls_differ, Kind::cycle, Kind::behind, Kind::extra});
    }
}

TEST(Explain, NamesWhoStoppedAndWhoDied) {
    for (unsigned seed = 0; seed < seeds; ++seed) {
        expect_first(with_fault(seed, [](auto& calls, auto i) { calls.resize(i); }), {Kind::behind});
        expect_first(with_fault(
                         seed, [](auto& calls, auto i) { calls.resize(i); }, true),
                     {Kind::absent});
    }
}

RecordedJob crossed_barriers() {
    auto job = RecordedJob(Mesh{{"dp", 2}, {"tp", 2}});
    for (int rank = 0; rank < 4; ++rank) {
        job[rank] = {Step{{"tp"}}, Step{{"dp", "tp"}, "barrier", 0, "i32", ""}};
        if (rank == 1) std::swap(job[rank][0], job[rank][1]);
    }
    job.run();
    return job;
}

TEST(Explain, SaysTheCycleOfCrossedOrdersInWords) {
    const auto said = explain(records_of(crossed_barriers()));
    ASSERT_EQ(said.findings.size(), 1U);
    const auto& finding = said.findings.front();
    EXPECT_EQ(finding.kind, Kind::cycle);
    EXPECT_EQ(finding.ranks, std::vector{1});
    ASSERT_EQ(finding.details.size(), 1U);
    EXPECT_EQ(finding.details.front(),
              "2 ranks wait for one another: rank 0 (dp=0 tp=0) waits in all_reduce of 4 f32 by sum, call 1 "
              "on 'tp' of "
              "mesh dp=2 tp=2 {0, 1}, for rank 1 (dp=0 tp=1), which waits in barrier of 0 i32, call 1 on "
              "'dp,tp' of mesh "
              "dp=2 tp=2 {0..3}, for rank 0 (dp=0 tp=0)");
    EXPECT_EQ(
        finding.text,
        "rank 1 (dp=0 tp=1) called barrier of 0 i32 on 'dp,tp' of mesh dp=2 tp=2 as number 1 of all its "
        "calls, where ranks {0 (dp=0 tp=0), 2 (dp=1 tp=0), 3 (dp=1 tp=1)} called all_reduce of 4 f32 by "
        "sum on 'tp' of mesh dp=2 tp=2");
}

TEST(Explain, FindsAnOrderThatCanBlockInARunThatDidNot) {
    // An engine that buffers let them all return.
    auto records = records_of(crossed_barriers());
    for (auto& record : records) {
        record.reason = "request";
        for (auto& entry : record.entries) entry.state = RecordedState::completed;
        auto missing = record.rank == 0 || record.rank == 1;
        if (missing && record.entries.size() == 1) {
            const auto& other = records[record.rank == 0 ? 1 : 0].entries.front();
            auto added = other;
            added.id = 1;
            if (record.rank == 1 && other.number == 1 && other.call->operation == "barrier") continue;
            record.entries.push_back(added);
        }
    }
    const auto said = explain(records);
    ASSERT_EQ(said.findings.size(), 1U);
    EXPECT_EQ(said.findings.front().kind, Kind::order);
    EXPECT_TRUE(
        said.findings.front().text.starts_with("nothing hangs in these records because messages were "
                                               "buffered; without buffering, these calls block in every "
                                               "run: rank 0 (dp=0 tp=0) waits in "))
        << said.findings.front().text;
}

TEST(Explain, ADisagreement_WhenRecordsAgree_CanBeOfAnEarlierCall) {
    auto job = RecordedJob(Mesh{{"tp", 2}});
    for (int i = 0; i < 3; ++i) job.all({{"tp"}});
    job.run();
    auto records = records_of(job);
    for (auto& record : records) {
        record.reason = "disagreement";
        record.error = "the calls from number 1 to 3 are not the same";
        record.differ = {1};
        record.entries.back().state = RecordedState::failed;
    }
    auto said = explain(records);
    ASSERT_EQ(said.findings.size(), 1U);
    EXPECT_EQ(said.findings[0].kind, Kind::calls_differ);
    EXPECT_EQ(said.findings[0].ranks, std::vector{1});
    EXPECT_EQ(said.findings[0].text,
              "the records show no difference in all_reduce of 4 f32 by sum, call 3 on 'tp' of mesh tp=2 {0, "
              "1}, but rank 0 (tp=0) reports: the calls from number 1 to 3 are not the same");
    EXPECT_EQ(said.findings[0].details, std::vector<std::string>{});

    records[1].entries.erase(records[1].entries.begin());
    said = explain(records);
    ASSERT_EQ(said.findings.size(), 1U);
    EXPECT_EQ(said.findings[0].details,
              std::vector<std::string>{"the records begin with call 2: an earlier call can differ, and "
                                       "RANKMESH_CHECK=1 on all ranks stops at the first one that does"});
}

TEST(Explain, GroupsOfTorch_WhenAMeshIsDeclared_AreInItsWords) {
    auto job = RecordedJob(Mesh{{"world", 4}});
    job.all({{"world"}});
    job[3].clear();
    job.run();
    auto records = records_of(job);
    // Without a declared mesh a coordinate would only repeat the rank.
    const auto plain = explain(records).findings.front();
    EXPECT_TRUE(plain.text.starts_with("rank 3 is behind: 0 of 1 calls made on 'world' {0..3}; "))
        << plain.text;
    EXPECT_EQ(plain.coordinates, std::vector<std::string>{""});
    for (auto& record : records) record.meshes.push_back({"", "dp=2 tp=2", {}});
    const auto declared = explain(records).findings.front();
    EXPECT_TRUE(declared.text.starts_with(
        "rank 3 (dp=1 tp=1) is behind: 0 of 1 calls made on 'dp,tp' of mesh dp=2 tp=2 {0..3}; "))
        << declared.text;
    EXPECT_EQ(declared.axes, "dp,tp");
}

TEST(Explain, BlamesWhoFailedAndNotWhoWaitsForItWhereMostGotNoFurther) {
    auto job = RecordedJob(Mesh{{"dp", 3}, {"tp", 2}});
    job.all({{"tp"}});
    job[4].push_back({{"tp"}});
    job.run();
    auto records = records_of(job);
    EXPECT_EQ(explain(records).findings.front().kind, Kind::extra);
    records[4].reason = "peer_lost";
    records[4].lost = {5};
    records[5].reason = "terminate";
    const auto said = explain(records);
    ASSERT_EQ(said.findings.size(), 1U);
    EXPECT_EQ(said.findings.front().kind, Kind::left);
    EXPECT_EQ(said.findings.front().ranks, std::vector{5});
}

TEST(Explain, NamesBothEndsOfMessagesThatDoNotFit) {
    auto job = RecordedJob(Mesh{{"pp", 3}});
    job[0] = {Step{{"pp"}, "send", 4, "f32", "", 1}};
    job[1] = {Step{{"pp"}, "recv", 8, "f32", "", 0}};
    job.run();
    const auto length = explain(records_of(job));
    ASSERT_EQ(length.findings.size(), 1U);
    EXPECT_EQ(length.findings[0].text,
              "rank 0 (pp=0) sends 4 f32 to rank 1 (pp=1), which receives 8 f32: message 1 from one to the "
              "other on 'pp' "
              "of mesh pp=3 {0..2}");

    job[1] = {Step{{"pp"}, "recv", 4, "f32", "", 0, 3}};
    job.run();
    const auto tag = explain(records_of(job));
    ASSERT_EQ(tag.findings.size(), 1U);
    EXPECT_TRUE(tag.findings[0].text.starts_with(
        "rank 0 (pp=0) sends 4 f32 with tag 0 to rank 1 (pp=1), which receives 4 f32 with tag 3: message 1 "))
        << tag.findings[0].text;

    job[0] = {Step{{"pp"}, "send", 4, "f32", "", 2}};
    job.run();
    const auto peer = explain(records_of(job));
    EXPECT_EQ(peer.findings.front().kind, Kind::peer);
    EXPECT_EQ(peer.findings.front().ranks, (std::vector{0, 1}));
}

TEST(Explain, AnyRank_WhenAllOthersWaitForIt_IsACycle) {
    auto job = RecordedJob(Mesh{{"pp", 3}});
    job.all({{"pp"}});
    job[0] = {Step{{"pp"}, "recv", 4, "f32", "", -1}};
    job.run();
    const auto said = explain(records_of(job));
    ASSERT_FALSE(said.findings.empty());
    EXPECT_EQ(said.findings[0].kind, Kind::cycle) << said.findings[0].text;
    EXPECT_NE(said.findings[0].text.find("recv of 4 f32 from any rank on 'pp'"), std::string::npos)
        << said.findings[0].text;

    // A rank that may still send is not waited for by the others.
    job[2] = {};
    job.run();
    const auto open = explain(records_of(job));
    EXPECT_NE(open.findings.at(0).kind, Kind::cycle) << open.findings[0].text;
}

TEST(Explain, TellsInAGroupOfTwoWhoDiffersByTheOtherGroups) {
    auto job = RecordedJob(Mesh{{"dp", 3}, {"tp", 2}});
    job.all({{"tp"}});
    job[3].front().operation = "all_gather";
    job.run();
    const auto said = explain(records_of(job));
    EXPECT_EQ(said.findings.front().ranks, std::vector{3});

    auto alone = RecordedJob(Mesh{{"tp", 2}});
    alone.all({{"tp"}});
    alone[1].front().operation = "all_gather";
    alone.run();
    const auto tie = explain(records_of(alone));
    EXPECT_EQ(tie.findings.front().ranks, (std::vector{0, 1}));
    EXPECT_EQ(tie.findings.front().details.front(),
              "as many called the one as the other, so records do not tell which is right");
}

TEST(Explain, SaysOfTwoThousandRanksAsLittleAsOfEight) {
    for (const auto& [mesh, slow] :
         {std::pair{Mesh{{"dp", 4}, {"tp", 2}}, 5}, std::pair{Mesh{{"dp", 250}, {"tp", 8}}, 1321}}) {
        auto job = RecordedJob(mesh);
        job.all({{"tp"}});
        job.all({{"dp", "tp"}});
        job.all({{"tp"}});
        job[slow].resize(1);
        job.run();
        const auto said = explain(records_of(job));
        ASSERT_EQ(said.findings.size(), 1U);
        EXPECT_EQ(said.findings[0].kind, Kind::behind);
        EXPECT_EQ(said.findings[0].ranks, std::vector{slow});
        for (const auto& text : {said.findings[0].text, said.findings[0].details[0]})
            EXPECT_LT(text.size(), 500U) << text;
        EXPECT_LE(said.findings[0].details.size(), 4U);
    }
}

TEST(Explain, ARecordWithCallsOfAGroupOfOthersIsNotTakenForThatOfItsRank) {
    auto job = RecordedJob(Mesh{{"dp", 2}, {"tp", 2}});
    job.all({{"tp"}});
    job[0].clear();
    job.run();
    auto records = records_of(job);
    records[3].rank = 0;
    const auto said = explain(std::vector{records[3], records[1], records[2]});
    ASSERT_EQ(said.findings.size(), 1U);
    EXPECT_EQ(said.findings[0].kind, Kind::absent);
    const auto why = "rank-3.json has calls on 'tp' of mesh dp=2 tp=2 {2, 3}, in which its rank, 0, is not";
    EXPECT_NE(said.findings[0].text.find(why), std::string::npos) << said.findings[0].text;
    EXPECT_EQ(said.notes.back(), why);
}

TEST(Explain, Hosts_WhenSeveral_AreThoseOfTheRanksToBlame) {
    auto job = RecordedJob(Mesh{{"dp", 3}, {"tp", 4}});
    job.all({{"dp", "tp"}});
    for (const auto rank : {1, 6, 7, 8}) job[rank].clear();
    job.run();
    auto records = records_of(job, {8});
    const auto ours = [&] {
        const auto findings = explain(records).findings;
        return *std::ranges::find(findings, Kind::behind, &Finding::kind);
    };
    // On one host they are noise.
    const auto one = ours();
    EXPECT_EQ(one.ranks, (std::vector{1, 6, 7}));
    EXPECT_EQ(one.hosts, (std::vector<std::string>{"a", "a", "a"}));
    EXPECT_EQ(one.details.front().find(" on a"), std::string::npos) << one.details.front();
    for (auto& record : records) record.host = "n" + std::to_string(record.rank / 4);
    const auto several = ours();
    EXPECT_EQ(several.hosts, (std::vector<std::string>{"n0", "n1", "n1"}));
    EXPECT_EQ(several.details.front(), "rank 1 is on n0, ranks {6, 7} are on n1");
    const auto absent = explain(records).findings.front();
    EXPECT_EQ(absent.ranks, std::vector{8});
    EXPECT_EQ(absent.hosts, std::vector<std::string>{""});
    EXPECT_EQ(absent.details.front().find(" on n"), std::string::npos) << absent.details.front();
}

TEST(Explain, Hosts_WhenMany_AreNamedInPart) {
    auto job = RecordedJob(Mesh{{"dp", 16}});
    job.all({{"dp"}});
    for (int rank = 2; rank < 8; ++rank) job[rank].clear();
    job.run();
    auto records = records_of(job);
    for (auto& record : records) record.host = "n" + std::to_string(record.rank);
    EXPECT_EQ(
        explain(records).findings.front().details.front(),
        "rank 2 is on n2, rank 3 is on n3, rank 4 is on n4, rank 5 is on n5, and others on 2 more hosts");
}

TEST(Explain, KeepsLongListsOfRanksShort) {
    auto job = RecordedJob(Mesh{{"dp", 64}});
    job.all({{"dp"}});
    job.run();
    auto without = std::vector<int>{};
    for (int rank = 1; rank < 64; ++rank)
        if (rank % 3 != 0 && rank % 5 != 0) without.push_back(rank);
    const auto said = explain(records_of(job, without));
    EXPECT_EQ(said.doubts.front(),
              "no record of ranks {1, 2, 4, 7, 8, 11, 13, 14, 16, 17, 19, 22, 23, 26, 28, 29} and 18 more");
}

}  // namespace
}  // namespace rankmesh::tests
