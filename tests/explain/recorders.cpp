// SPDX-License-Identifier: Apache-2.0
// Dumps as each recorder of docs/recorders.md writes them: what explain says of the same jobs.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>

#include <rankmesh/core/error.hpp>
#include <rankmesh/explain/explain.hpp>
#include <rankmesh/explain/read.hpp>

namespace rankmesh::tests {
namespace {

using Kind = Finding::Kind;

/// How a recorder writes a dump; `name` is the first column of the table.
struct Recorder {
    std::string name;
    std::string version;
    std::string backend;
    enum class Counts { apart, together, with_other_groups } counts = Counts::apart;
    enum class Group { by_number, by_name, listed } group = Group::listed;  ///< listed: with its ranks
    bool lists_ranks_only = false;                                          ///< of `pg_config`, by number
    enum class Over { completed, retired, issued } over = Over::completed;  ///< what a call that is over has
    enum class Status { none, empty, calls, issued } status = Status::calls;
    bool names_peers = true;
    bool is_text = false;  ///< numbers of the status are texts
};

using Counts = Recorder::Counts;
using Group = Recorder::Group;
using Over = Recorder::Over;
using Status = Recorder::Status;

const Recorder recorders[] = {
    {"NCCL 1.0 to 1.3", "1.1", "nccl", Counts::together, Group::by_number, false, Over::completed,
     Status::none},
    {"NCCL 1.4", "1.4", "nccl", Counts::together, Group::by_number, true, Over::completed, Status::none},
    {"NCCL 1.5", "1.5", "nccl", Counts::together, Group::listed, false, Over::completed, Status::none},
    {"NCCL 2.0 to 2.2", "2.0", "nccl", Counts::apart, Group::listed, false, Over::completed, Status::none},
    {"NCCL 2.3 to 2.10", "2.4", "nccl"},
    {"NCCL as JSON", "2.10", "nccl", Counts::apart, Group::listed, false, Over::completed, Status::calls,
     true, true},
    {"XCCL, HCCL, MCCL, BCCL", "2.4", "hccl"},
    {"Gloo", "2.10", "gloo", Counts::apart, Group::by_name, false, Over::retired, Status::calls},
    {"hook, nccl2 and nccl-lazy", "2.10", "nccl2", Counts::apart, Group::listed, false, Over::completed,
     Status::calls},
    {"hook, other backends", "2.10", "ucc", Counts::apart, Group::listed, false, Over::issued,
     Status::issued},
    {"hook of July 2026", "2.10", "c10d", Counts::apart, Group::listed, false, Over::issued, Status::calls,
     false},
    {"torchcomms", "2.10", "ncclx", Counts::with_other_groups, Group::listed, false, Over::issued,
     Status::empty, false},
};

/// One call of a rank on the group of all ranks (0) or of the ranks 0 and 1 (1).
struct Made {
    std::string operation = "all_reduce";
    int group = 0;
    int elements = 8;
    bool is_over = true;
    bool is_message() const { return operation == "send" || operation == "recv"; }
};

std::string dump(const Recorder& by, int rank, int ranks, const std::vector<Made>& calls) {
    const auto quoted = [](const std::string& text) { return "\"" + text + "\""; };
    auto counters = std::map<std::pair<int, bool>, int>{};
    auto last = std::map<int, std::pair<int, int>>{};
    const auto is_torchcomms = by.counts == Counts::with_other_groups;
    auto entries = std::string{};
    for (std::size_t i = 0; i < calls.size(); ++i) {
        const auto& [operation, group, elements, is_over] = calls[i];
        const auto together = by.counts != Counts::apart;
        auto& counter = counters[{is_torchcomms ? 0 : group, !together && calls[i].is_message()}];
        const auto number = is_torchcomms ? counter++ : ++counter;
        auto& [enqueued, completed] = last[group];
        enqueued = number;
        if (is_over) completed = number;
        auto name = by.backend + ":" + operation;
        if (by.names_peers && calls[i].is_message()) {
            name +=
                " " + std::to_string(rank) + (operation == "send" ? "->" : "<-") + std::to_string(1 - rank);
        }
        const auto sizes = "[[" + std::to_string(elements) + "]]";
        const auto names = is_torchcomms ? std::pair{group == 0 ? "world" : "pair", by.backend.c_str()}
                           : group == 0  ? std::pair{"0", "default_pg"}
                                         : std::pair{"1", "pair"};
        entries += entries.empty() ? "{" : ", {";
        if (by.version != "1.1") entries += "\"record_id\": " + std::to_string(i) + ", ";
        if (by.group != Group::by_number)
            entries += "\"process_group\": [" + quoted(names.first) + ", " + quoted(names.second) + "], ";
        entries +=
            by.version.starts_with("1.")
                ? "\"seq_id\": " + std::to_string(number) + ", "
                : "\"collective_seq_id\": " +
                      std::to_string(calls[i].is_message() && !together ? 0 : number) +
                      ", \"p2p_seq_id\": " + std::to_string(calls[i].is_message() && !together ? number : 0) +
                      ", \"is_p2p\": " + (calls[i].is_message() && !together ? "true" : "false") + ", ";
        const auto is_completed = is_over && by.over == Over::completed;
        // A hook without completion retires a call when it is issued.
        const auto is_retired = is_over || by.over == Over::issued;
        entries += "\"pg_id\": " + std::to_string(group) + ", \"op_id\": " + std::to_string(i + 1) +
                   ", \"profiling_name\": " + quoted(name) + ", \"time_created_ns\": " +
                   std::to_string(1'760'000'000'000'000'000 + static_cast<long>(i)) +
                   ", \"input_sizes\": " + sizes + ", \"output_sizes\": " + sizes +
                   ", \"state\": " + (is_completed ? "\"completed\"" : "\"scheduled\"") +
                   ", \"time_discovered_completed_ns\": " + (is_completed ? "1760000000000000009" : "null") +
                   ", \"retired\": " + (is_retired ? "true" : "false") + "}";
    }
    auto all = std::string{};
    for (int i = 0; i < ranks; ++i) all += (i == 0 ? "" : ", ") + std::to_string(i);
    auto text = "{\"version\": " + quoted(by.version) + ", \"entries\": [" + entries + "]";
    if (by.group == Group::listed || by.lists_ranks_only) {
        const auto world = std::string(is_torchcomms ? "world" : "0");
        const auto pair = std::string(is_torchcomms ? "pair" : "1");
        const auto group = [&](const std::string& name, const std::string& about,
                               const std::string& members) {
            return quoted(name) + ": " +
                   (by.lists_ranks_only ? "[" + members + "]"
                                        : "{\"name\": " + quoted(name) + ", \"desc\": " + quoted(about) +
                                              ", \"ranks\": \"[" + members + "]\"}");
        };
        text += ", \"pg_config\": {" + group(world, is_torchcomms ? by.backend : "default_pg", all) +
                (rank < 2 ? ", " + group(pair, is_torchcomms ? by.backend : "pair", "0, 1") : "") + "}";
    } else if (by.group == Group::by_name) {
        text += R"(, "pg_config": {"": {"name": "", "desc": "", "ranks": "[]"}})";
    }
    if (by.status != Status::none) text += ", \"pg_status\": {";
    if (by.status == Status::calls || by.status == Status::issued)
        for (const auto& [group, numbers] : last) {
            const auto number = [&](int value) {
                return by.is_text ? quoted(std::to_string(value)) : std::to_string(value);
            };
            text += std::string(group == last.begin()->first ? "" : ", ") + quoted(std::to_string(group)) +
                    ": {\"last_enqueued_collective\": " + number(numbers.first) +
                    ", \"last_completed_collective\": " +
                    number(by.status == Status::issued ? -1 : numbers.second) + "}";
        }
    return text + (by.status != Status::none ? "}}" : "}");
}

Explanation explained(const Recorder& by, const std::vector<std::vector<Made>>& job) {
    auto reader = RecordReader();
    auto records = std::vector<FlightRecord>{};
    for (int rank = 0; rank < static_cast<int>(job.size()); ++rank)
        records.push_back(
            reader.read(dump(by, rank, static_cast<int>(job.size()), job[static_cast<std::size_t>(rank)]),
                        "nccl_trace_rank_" + std::to_string(rank)));
    return explain(records, {}, Mesh{{"dp", 2}, {"tp", 2}});
}

/// Four ranks that make the same calls; ranks 0 and 1 also a message and a call of their own.
std::vector<std::vector<Made>> healthy(const Recorder& by) {
    auto job = std::vector(4, std::vector<Made>{{}, {}, {}});
    if (by.group == Group::by_number && !by.lists_ranks_only) return job;
    job[0].insert(job[0].begin() + 1, {{"send"}, {"all_reduce", 1}});
    job[1].insert(job[1].begin() + 1, {{"recv"}, {"all_reduce", 1}});
    return job;
}

std::string all_of(const Explanation& said) {
    auto text = std::string{};
    for (const auto& finding : said.findings) text += finding.text + "\n";
    for (const auto& doubt : said.doubts) text += "doubt: " + doubt + "\n";
    return text;
}

TEST(Recorders, AHealthyJob_OfEach_IsHealthy) {
    for (const auto& by : recorders) {
        const auto said = explained(by, healthy(by));
        EXPECT_TRUE(said.findings.empty() && said.doubts.empty()) << by.name << ": " << all_of(said);
        const auto is_assumed = by.over == Over::issued;
        EXPECT_EQ(said.notes.size(), is_assumed ? 1U : 0U) << by.name;
        if (!is_assumed) continue;
        EXPECT_EQ(said.notes.front(),
                  "dumps of " + by.backend +
                      " say that calls were issued, not that they have ended: a call that hangs "
                      "on all its ranks looks complete");
    }
}

TEST(Recorders, ARankThatStopped_OfEach_IsBehind) {
    for (const auto& by : recorders) {
        auto job = healthy(by);
        job[1].pop_back();
        for (const auto rank : {0U, 2U, 3U}) job[rank].back().is_over = false;
        const auto said = explained(by, job);
        ASSERT_FALSE(said.findings.empty()) << by.name << ": " << all_of(said);
        EXPECT_EQ(said.findings.size(), 1U) << by.name << ": " << all_of(said);
        EXPECT_EQ(said.findings.front().kind, Kind::behind) << by.name << ": " << all_of(said);
        EXPECT_EQ(said.findings.front().ranks, std::vector{1}) << by.name;
        EXPECT_EQ(said.findings.front().call, 3) << by.name << ": " << all_of(said);
    }
}

TEST(Recorders, AnotherCount_OfEach_IsNamed) {
    for (const auto& by : recorders) {
        auto job = healthy(by);
        job[2][1].elements = 9;
        const auto said = explained(by, job);
        ASSERT_FALSE(said.findings.empty()) << by.name;
        EXPECT_EQ(said.findings.front().kind, Kind::calls_differ) << by.name;
        EXPECT_EQ(said.findings.front().ranks, std::vector{2}) << by.name;
        EXPECT_EQ(said.findings.front().call, 2) << by.name;
    }
}

TEST(Recorders, OneThatCountsTogether_WithoutTheFirstCalls_IsRefused) {
    for (const auto& by : recorders) {
        if (by.counts == Counts::apart) continue;
        const auto read = [&](const std::vector<Made>& calls) -> std::string {
            auto text = dump(by, 0, 4, calls);
            const auto first = text.find('{', text.find("\"entries\"")), second = text.find("{", first + 1);
            text.erase(first, second - first);  // the ring has dropped the first entry
            try {
                return "call " + std::to_string(RecordReader().read(text, "trace_0").entries.back().number);
            } catch (const UsageError& error) {
                return error.what();
            }
        };
        EXPECT_EQ(read({{}, {}, {}}), "call 3") << by.name;
        const auto said = read({{}, {"send"}, {}});
        EXPECT_NE(
            said.find(" together and no longer has 1 of them, so the others cannot be matched; raise TORCH"),
            std::string::npos)
            << by.name << ": " << said;
    }
}

TEST(Recorders, GroupsOfVersion1_AreTheSameByTheirRanksAndOrder) {
    // Each process counts its own groups: rank 1 has made one more before.
    const auto record = [](int rank, const std::string& config, int id) {
        return RecordReader().read(
            R"({"version": "1.4", "pg_config": )" + config + R"(, "entries": [{"pg_id": )" +
                std::to_string(id) +
                R"(, "seq_id": 1, "profiling_name": "nccl:all_reduce", "state": "completed"}]})",
            "trace_" + std::to_string(rank));
    };
    const auto zero = record(0, R"({"0": [0, 1, 2], "1": [0, 1]})", 1);
    const auto one = record(1, R"({"0": [0, 1, 2], "1": [1, 2], "2": [0, 1]})", 2);
    EXPECT_EQ(*zero.entries[0].group, *one.entries[0].group);
    const auto twice = record(1, R"({"0": [0, 1, 2], "1": [0, 1], "2": [0, 1]})", 2);
    EXPECT_NE(*zero.entries[0].group, *twice.entries[0].group);
}

TEST(Recorders, AGroupOfVersion1WithoutRanks_IsNotMatched) {
    // The calls differ, but nothing says that they are of one group.
    auto records = std::vector<FlightRecord>{};
    for (int rank = 0; rank < 2; ++rank)
        records.push_back(RecordReader().read(
            R"({"version": "1.1", "entries": [{"pg_id": 1, "seq_id": 1, "profiling_name": "nccl:all_reduce", "state": )"
            R"("scheduled", "input_sizes": [[)" +
                std::to_string(rank + 1) + "]]}]}",
            "trace_" + std::to_string(rank)));
    const auto said = explain(records, {}, Mesh{{"dp", 2}, {"tp", 1}});
    EXPECT_TRUE(said.findings.empty()) << all_of(said);
    EXPECT_FALSE(said.doubts.empty());
}

TEST(Recorders, MembersOfAGroup_WhenNoDumpListsThem_AreInferredAndSaidToBe) {
    // Two groups of the same four ranks, which rank 0 and 1 call in another order than ranks 2 and 3;
    // PyTorch's Gloo does not list their ranks.
    const auto records = [](bool is_over) {
        auto all = std::vector<FlightRecord>{};
        for (int rank = 0; rank < 4; ++rank) {
            const auto* name = rank < 2 ? R"(["2", "DENSE"])" : R"(["3", "EXPERT"])";
            all.push_back(RecordReader().read(
                std::string(
                    R"({"version": "2.10", "pg_config": {"": {"ranks": "[]"}}, "entries": [{"process_group": )") +
                    name + R"(, "pg_id": 1, "collective_seq_id": 1, "profiling_name": "gloo:all_reduce", )" +
                    R"("state": "scheduled", "retired": )" + (is_over ? "true" : "false") + "}]}",
                "trace_" + std::to_string(rank)));
        }
        return all;
    };
    // Gloo notes the end of a call that failed as well.
    for (const auto is_over : {false, true}) {
        const auto said = explain(records(is_over), {}, Mesh{{"dp", 4}});
        ASSERT_EQ(said.findings.size(), 1U);
        EXPECT_EQ(said.findings[0].kind, Kind::cycle);
        EXPECT_TRUE(said.findings[0].is_group_inferred);
        EXPECT_EQ(said.findings[0].group, (std::vector{0, 1, 2, 3}));
        EXPECT_EQ(said.findings[0].text,
                  "2 ranks wait for one another: rank 0 (dp=0) waits in all_reduce, call 1 on 'DENSE' "
                  "along 'dp' of "
                  "mesh dp=4 {0..3} (inferred), for rank 2 (dp=2), which waits in all_reduce, call 1 on "
                  "'EXPERT' "
                  "along 'dp' of mesh dp=4 {0..3} (inferred), for rank 0 (dp=0)");
        // Without a mesh nobody knows.
        const auto unknown = explain(records(is_over));
        EXPECT_TRUE(unknown.findings.empty());
        EXPECT_FALSE(unknown.doubts.empty());
    }
    EXPECT_NE(explain(records(false)).doubts.at(1).find("call 1 on 'DENSE' {0, 1} (inferred) is not over"),
              std::string::npos);
    // Ranks that have gone on: the group can be of two ranks, and nothing says so.
    auto gone_on = records(true);
    for (auto& record : gone_on) {
        auto later = record.entries.back();
        auto world = *later.group;
        world.name = "0", world.description = "default_pg";
        later.group = std::make_shared<const RecordedGroup>(world);
        later.id = 1, later.state = RecordedState::completed;
        record.entries.push_back(later);
    }
    const auto said = explain(gone_on, {}, Mesh{{"dp", 4}});
    EXPECT_TRUE(said.findings.empty());
    EXPECT_EQ(said.doubts.at(0),
              "no record lists the members of 'DENSE': ranks {0 (dp=0), 1 (dp=1)} made calls on it, "
              "and others may not have come to it");
}

TEST(Recorders, OtherVersions_AreRefusedInWords) {
    const auto said = [](const std::string& version) -> std::string {
        try {
            RecordReader().read("{\"version\": " + version + ", \"entries\": []}", "trace_0");
        } catch (const UsageError& error) {
            return error.what();
        }
        return "read";
    };
    for (const auto* version : {"\"1.0\"", "\"1.5\"", "\"2.0\"", "\"2.9\"", "\"2.10\""})
        EXPECT_EQ(said(version), "read");
    for (const std::string version : {"2.11", "3.0", "0.9"})
        EXPECT_EQ(said("\"" + version + "\""), "trace_0 is of version " + version +
                                                   " of PyTorch's flight recorder, and versions 1.0 to 2.10 "
                                                   "are known; a later rankmesh may read it");
    for (const auto* version : {"\"\"", "\"2\"", "\"two\""})
        EXPECT_EQ(said(version), "trace_0 has a 'version' that is no version such as 2.10");
}

TEST(Recorders, OfTheTable_AreTheseOnes) {
    auto stream = std::ifstream(RANKMESH_SOURCE "/docs/recorders.md");
    auto rows = std::set<std::string>{};
    for (auto line = std::string{}; std::getline(stream, line);)
        if (line.starts_with("| ") && !line.starts_with("| recorder") &&
            line.find(" | ", 2) != std::string::npos)
            rows.insert(line.substr(2, line.find(" | ", 2) - 2));
    auto tested = std::set<std::string>{};
    for (const auto& by : recorders) tested.insert(by.name);
    EXPECT_EQ(rows, tested);
}

}  // namespace
}  // namespace rankmesh::tests
