// SPDX-License-Identifier: Apache-2.0
// Stops of simulated jobs, whose ranks write their records at times that the test chooses.
#include <rankmesh/explain/watch.hpp>

#include <gtest/gtest.h>

#include <random>

#include "recorded_job.hpp"
#include "support/processes.hpp"

namespace rankmesh::tests {
namespace {

const auto step = {Step{.axes = {"tp"}}, Step{.axes = {"dp"}}};

/// A job that is watched; a rank writes a record only where the test says so.
class WatchedJob {
public:
    explicit WatchedJob(const char* mesh, int records = 3) : job(Mesh::parse(mesh)), watch_(records) {
        for (const auto& call : step) job.all(call);
    }

    /// Lets all ranks go on and these ranks write records, and looks.
    std::vector<WatchEvent> look(const std::vector<int>& ranks) {
        job.run();
        auto all = records_of(job);
        for (const auto rank : ranks) {
            auto& record = all[static_cast<std::size_t>(rank)];
            record.reason = reason;
            record.written_ns = ++now_;
            record.pid = 42;
            if (hangs) record.entries.back().state = RecordedState::started;
            written_[rank] = record;
        }
        auto records = std::vector<FlightRecord>{};
        for (const auto& [rank, record] : written_) records.push_back(record);
        return watch_.look(records);
    }
    std::vector<WatchEvent> look() { return look(everybody()); }
    std::vector<int> everybody() const {
        auto ranks = std::vector<int>{};
        for (int rank = 0; rank < job.size(); ++rank) ranks.push_back(rank);
        return ranks;
    }
    /// All ranks make one more step, but this one.
    void step_without(int stuck) {
        for (int rank = 0; rank < job.size(); ++rank)
            if (rank != stuck) job[rank].insert(job[rank].end(), step.begin(), step.end());
    }
    const Watch& watch() const { return watch_; }

    RecordedJob job;
    std::string reason = "request";
    bool hangs = false;  ///< the last call ends on no rank

private:
    Watch watch_;
    std::int64_t now_ = 1'760'000'000'000'000'000;
    std::map<int, FlightRecord> written_;
};

TEST(Watch, SaysOnceThatACallStopsAndThatItGoesOn) {
    for (const auto records : {1, 2, 5}) {
        auto watched = WatchedJob("dp=2 tp=2", records);
        EXPECT_TRUE(watched.look().empty());
        watched.step_without(2);
        for (auto look = 0; look < records; ++look) EXPECT_TRUE(watched.look().empty());
        const auto stopped = watched.look();
        ASSERT_EQ(stopped.size(), 1U);
        EXPECT_EQ(stopped[0].kind, WatchEvent::Kind::stopped);
        EXPECT_EQ(stopped[0].finding.ranks, std::vector{2});
        EXPECT_EQ(stopped[0].finding.coordinates, std::vector<std::string>{"dp=1 tp=0"});
        const auto text = to_string(stopped[0]);
        EXPECT_EQ(text.substr(0, 14), "stopped since ");
        EXPECT_EQ(text.substr(22),
                  ": rank 2 (dp=1 tp=0) is behind: 1 of 2 calls made on 'dp' of mesh dp=2 tp=2 {0, 2}; it is "
                  "outside any call, after all_reduce of 4 f32 by sum, call 1 on 'dp' of mesh dp=2 tp=2 {0, "
                  "2}; 3 ranks wait for it, directly or through others; to see its stack, run ssh a py-spy "
                  "dump --pid 42");
        EXPECT_TRUE(watched.look().empty());
        EXPECT_EQ(watched.watch().stopped().size(), 1U);
        watched.job[2].insert(watched.job[2].end(), step.begin(), step.end());
        const auto on = watched.look();
        ASSERT_EQ(on.size(), 1U);
        EXPECT_EQ(on[0].kind, WatchEvent::Kind::goes_on);
        EXPECT_NE(to_string(on[0]).find(": call 2 on 'dp' of mesh dp=2 tp=2 {0, 2}, which waited for rank 2 "
                                        "(dp=1 tp=0)"),
                  std::string::npos)
            << to_string(on[0]);
        for (auto look = 0; look < 3 * records; ++look) EXPECT_TRUE(watched.look().empty());
        EXPECT_TRUE(watched.watch().stopped().empty());
    }
}

TEST(Watch, ARankThatWritesNoMoreIsNamedByThoseThatWaitForIt) {
    auto watched = WatchedJob("dp=2 tp=2");
    watched.look();
    watched.step_without(1);
    watched.look({0, 2, 3});
    for (auto look = 0; look < 2; ++look) EXPECT_TRUE(watched.look({0, 2, 3}).empty());
    const auto stopped = watched.look({0, 2, 3});
    ASSERT_EQ(stopped.size(), 1U);
    EXPECT_EQ(stopped[0].finding.ranks, std::vector{1});
}

TEST(Watch, LateFilesOfAJobThatGoesOnAreNoStop) {
    auto random = std::mt19937(7);
    for (auto job = 0; job < 20; ++job) {
        auto watched = WatchedJob(job % 2 == 0 ? "dp=2 tp=4" : "pp=2 dp=2 tp=2");
        const auto late = static_cast<int>(random() % 8);
        for (auto look = 0; look < 20; ++look) {
            watched.step_without(-1);
            auto ranks = watched.everybody();
            std::erase_if(ranks, [&](int rank) { return rank == late || random() % 3 == 0; });
            EXPECT_TRUE(watched.look(ranks).empty());
        }
    }
}

TEST(Watch, AGroupThatGoesOnIsNoStopBesideOneThatStops) {
    auto watched = WatchedJob("dp=2 tp=2", 2);
    const auto call = [&](int rank) { watched.job[rank].push_back({.axes = {"tp"}}); };
    watched.look();
    call(0);
    auto stopped = std::vector<WatchEvent>{};
    for (auto look = 0; look < 6; ++look) {
        for (const auto rank : {2, 3}) call(rank);
        call(2);  // waits for rank 3, until the next look
        const auto events = watched.look();
        stopped.insert(stopped.end(), events.begin(), events.end());
        call(3);
    }
    ASSERT_EQ(stopped.size(), 1U);
    EXPECT_EQ(stopped[0].finding.ranks, std::vector{1});
    call(2);
    for (auto look = 0; look < 2; ++look) EXPECT_TRUE(watched.look().empty());
    const auto second = watched.look();
    ASSERT_EQ(second.size(), 1U);
    EXPECT_EQ(second[0].finding.ranks, std::vector{2});  // the other group has made fewer calls
    call(1);
    const auto on = watched.look();  // rank 0 leaves the call and makes no other
    ASSERT_EQ(on.size(), 1U);
    EXPECT_EQ(on[0].kind, WatchEvent::Kind::goes_on);
    EXPECT_EQ(on[0].finding.ranks, std::vector{1});
}

TEST(Watch, ARankThatOthersWaitForIsNoStopWhileItGoesOnElsewhere) {
    auto watched = WatchedJob("dp=2 tp=2", 2);
    watched.look();
    watched.job[0].push_back({.axes = {"tp"}});
    for (auto look = 0; look < 6; ++look) {
        for (const auto rank : {1, 3}) watched.job[rank].push_back({.axes = {"dp"}});
        EXPECT_TRUE(watched.look().empty());
    }
    watched.look();
    const auto stopped = watched.look();
    ASSERT_EQ(stopped.size(), 1U);
    EXPECT_EQ(stopped[0].finding.group, (std::vector{0, 1}));
}

TEST(Watch, CallsThatDifferOrEndNowhereAreStops) {
    for (const auto differs : {true, false}) {
        auto watched = WatchedJob("dp=2 tp=2");
        for (const auto rank : watched.everybody())
            watched.job[rank].push_back({.axes = {"dp", "tp"}, .count = differs && rank == 1 ? 3 : 4});
        watched.hangs = !differs;
        for (auto look = 0; look < 3; ++look) EXPECT_TRUE(watched.look().empty());
        const auto stopped = watched.look();
        ASSERT_EQ(stopped.size(), 1U);
        EXPECT_EQ(stopped[0].finding.kind, differs ? Finding::Kind::calls_differ : Finding::Kind::unfinished);
        EXPECT_EQ(stopped[0].finding.ranks, differs ? std::vector{1} : std::vector<int>{});
        EXPECT_TRUE(watched.look().empty());
    }
}

TEST(Watch, EndsWhereNoRankWritesAndSaysAnErrorOnce) {
    auto watched = WatchedJob("dp=2 tp=2");
    watched.look();
    watched.step_without(1);
    watched.reason = "timeout";
    const auto failed = watched.look();
    ASSERT_EQ(failed.size(), 1U);
    EXPECT_EQ(to_string(failed[0]).substr(0, 36), "failed: rank 1 (dp=0 tp=1) is behind");
    EXPECT_TRUE(watched.watch().has_failed());
    for (auto look = 0; look < 3; ++look) {
        EXPECT_FALSE(watched.watch().has_ended());
        EXPECT_TRUE(watched.look({}).empty());
    }
    EXPECT_TRUE(watched.watch().has_ended());
}

TEST(Watch, ReadsTheLastCallsOfLargeRecordsAndNamesWhatIsNone) {
    auto job = RecordedJob(Mesh::parse("dp=2 tp=2"));
    for (auto i = 0; i < 100; ++i)
        for (const auto& call : step) job.all(call);
    job.run();
    const auto folder = support::Folder();
    job.write(folder.path());
    std::ofstream(folder.path() + "/rank-4.json") << job.record(1).substr(0, 400);
    std::ofstream(folder.path() + "/rank-0.json.x.tmp") << "half";
    std::ofstream(folder.path() + "/job.log") << "words";
    const auto all = records_of(job);
    const auto last = read_last_calls(folder.path());
    ASSERT_EQ(last.records.size(), 4U);
    for (std::size_t rank = 0; rank < 4; ++rank) {
        const auto& entries = last.records[rank].entries;
        EXPECT_GE(entries.size(), 20U);
        EXPECT_LT(entries.size(), 60U);
        for (std::size_t i = 0; i < entries.size(); ++i)
            EXPECT_EQ(entries[i].id, static_cast<std::int64_t>(200 - entries.size() + i));
        EXPECT_EQ(last.records[rank].meshes, all[rank].meshes);
    }
    ASSERT_EQ(last.unread.size(), 1U);
    EXPECT_EQ(last.unread[0].rank, 4);
}

}  // namespace
}  // namespace rankmesh::tests
