// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/explain/read.hpp>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rankmesh/core/error.hpp>
#include <rankmesh/explain/explain.hpp>

#include "explain/read/fields.hpp"
#include "recorded_job.hpp"

namespace rankmesh::tests {
namespace {

namespace fs = std::filesystem;

std::string error_of(const std::string& bytes, const std::string& file = "rank-0.json") {
    try {
        RecordReader().read(bytes, file);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "read";
}

RecordedJob job() {
    auto job = RecordedJob(Mesh{{"dp", 2}, {"tp", 2}});
    job.all({{"tp"}});
    job.all({{"dp", "tp"}, "broadcast", 4, "f32", "", 0});
    job.run();
    return job;
}

TEST(ReadRecord, HasWhatTheFileSays) {
    const auto record = RecordReader().read(job().record(3), "rank-3.json");
    EXPECT_EQ(record.rank, 3);
    EXPECT_EQ(record.world_size, 4);
    EXPECT_FALSE(record.is_torch);
    ASSERT_EQ(record.entries.size(), 2U);
    EXPECT_EQ(record.entries[0].group->axes, "tp");
    EXPECT_EQ(record.entries[0].group->ranks, (std::vector{2, 3}));
    EXPECT_EQ(record.entries[0].call->reduction, "sum");
    EXPECT_EQ(record.entries[1].call->operation, "broadcast");
    EXPECT_EQ(record.entries[1].call->argument, 0);
    EXPECT_EQ(record.entries[1].number, 1);
    EXPECT_EQ(record.meshes.front().mesh, "dp=2 tp=2");
}

TEST(ReadRecord, SaysOfEveryTornRecordThatItIsCutOff) {
    auto whole = job().record(0);
    while (whole.back() != '}') whole.pop_back();
    for (std::size_t size = 1; size < whole.size(); ++size) {
        const auto said = error_of(whole.substr(0, size));
        EXPECT_TRUE(said.starts_with("rank-0.json is cut off after ")) << size << ": " << said;
    }
    EXPECT_EQ(error_of(whole), "read");
}

TEST(ReadRecord, RefusesWhatIsNoRecordInWords) {
    EXPECT_EQ(error_of(""), "rank-0.json is empty");
    EXPECT_EQ(error_of("hello"), "rank-0.json is no JSON from byte 1 on");
    EXPECT_EQ(error_of("[1, 2]"),
              "rank-0.json is no flight record: it has no 'version' with 'entries' or 'pg_config'");
    EXPECT_EQ(error_of("// {}"), "rank-0.json is no JSON from byte 1 on");
    EXPECT_EQ(error_of(std::string(100'000, '[')), "rank-0.json nests more than 64 levels deep");
    EXPECT_EQ(error_of(R"({"version": "2.10", "entries": []})", "dump"),
              "dump says no rank, and its name has no number; dumps are named as in nccl_trace_rank_3");
    EXPECT_EQ(error_of(R"({"version": "2.10", "rank": -1, "entries": []})"),
              "rank-0.json has a 'rank' that is no rank of 0 to 16777215");
    EXPECT_EQ(
        error_of(R"({"version": "2.10", "rank": 0, "entries": [{"state": "lost"}]})"),
        "rank-0.json has a 'state' that is no state, which are scheduled, started, completed and failed");
    EXPECT_EQ(error_of(R"({"version": "2.10", "rank": 0, "entries": [{}]})"),
              "rank-0.json has an entry without a 'process_group'");
}

TEST(ReadRecord, RefusesObjectsOfMoreThanTenThousandKeysHoweverTheyAreNested) {
    const auto object = [](int keys) {
        auto text = std::string("{\"0\": [0, 0, {\"a\": 0, \"b\": 0}]");
        for (int i = 1; i < keys; ++i) text += ", \"" + std::to_string(i) + "\": 0";
        return text + "}";
    };
    const auto refused = std::string("rank-0.json has an object of more than 10000 keys");
    for (const auto& [before, after] : {std::pair("", ""), std::pair("{\"a\": 0, \"b\": [1, ", "]}")}) {
        EXPECT_NE(error_of(before + object(10000) + after), refused);
        EXPECT_EQ(error_of(before + object(10001) + after), refused);
    }
}

TEST(ReadRecord, RefusesMoreValuesThanMemoryHolds) {
    auto text = std::string(R"({"version": "2.10", "rank": 0, "entries": [], "x": [0)");
    for (int i = 0; i < 8'000'000; ++i) text += ",0";
    EXPECT_EQ(error_of(text + "]}"), "rank-0.json has more than 8000000 values");
}

TEST(ReadRecord, ARankInAFileName_WhateverTheHostIsCalled_IsTheLastNumber) {
    using of_record::rank_in_name;
    for (const std::string host : {"", "node07_", "node00.cluster.local_", "gpu-3.rack-4.example.org_",
                                   "10.0.0.5_", "rank_2_", "a_1.b_", "host.7_"})
        for (const std::string before :
             {"nccl_trace_rank_", "comm_lib_trace_rank_", "trace_", "torchcomm.fr_trace_"})
            for (const std::string after : {"", ".json", ".pickle", ".json.17.tmp"})
                EXPECT_EQ(rank_in_name(before + host + "12" + after), 12) << before << host << after;
    EXPECT_EQ(rank_in_name("rank-3.json"), 3);
    EXPECT_EQ(rank_in_name("rank-3.json.17.tmp"), 3);
    EXPECT_EQ(rank_in_name("host_a-rank-5.json"), 5);
    EXPECT_EQ(rank_in_name("trace_rank_2_node7"), 2);
    EXPECT_EQ(rank_in_name("trace_3.node7.cluster"), 3);
    EXPECT_EQ(rank_in_name("trace.7"), 7);
    EXPECT_EQ(rank_in_name("rank_local7"), 7);
    for (const auto* no : {"dump", "trace_rank_10.0.0.5", "trace_99999999999", "trace_", "host.local"})
        EXPECT_EQ(rank_in_name(no), std::nullopt) << no;
}

TEST(ReadRecord, ExecutesNothingOfAPickle) {
    using namespace std::string_literals;
    // os.system("true"), as protocols 2 and 4 write it.
    for (const auto& [bytes, name] :
         {std::pair{"\x80\x02"s + "cposix\nsystem\nq\x01X\x04\x00\x00\x00trueq\x02\x85q\x03Rq\x04."s,
                    "GLOBAL"s},
          std::pair{
              "\x80\x04"s + "\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R\x94."s,
              "STACK_GLOBAL"s}}) {
        const auto said = error_of(bytes, "nccl_trace_rank_0");
        EXPECT_TRUE(
            said.starts_with("nccl_trace_rank_0 is a pickle that holds the instruction " + name +
                             ", which names or runs code; only plain data is read, and nothing was executed"))
            << said;
    }
}

TEST(ReadRecord, RefusesPicklesThatDoNotEndOrGrowBeyondMeasure) {
    using namespace std::string_literals;
    const auto said = [](const std::string& rest) { return error_of("\x80\x04"s + rest, "rank_0"); };
    EXPECT_NE(said("}").find("is cut off"), std::string::npos);
    EXPECT_NE(said("X\xff\xff\xff\x7f").find("is cut off"), std::string::npos);
    EXPECT_NE(said("(]").find("is cut off"), std::string::npos);
    EXPECT_NE(said("a.").find("takes a value where there is none"), std::string::npos);
    EXPECT_NE(said("h\x05.").find("names a value that it does not have"), std::string::npos);
    EXPECT_NE(said("]\x94h\x00"s + "a.").find("nests more than 64 levels deep"), std::string::npos)
        << "a list of itself";
    // A text of any length that is not UTF-8, wherever it breaks.
    for (const auto* wrong : {"\xff", "\x80", "\xc3", "ok\xed\xa0\x80", "ok\xf0\x9f\x98"}) {
        const auto text = std::string(wrong);
        EXPECT_NE(said("X"s + static_cast<char>(text.size()) + "\0\0\0"s + text + ".")
                      .find("holds a text that is not UTF-8"),
                  std::string::npos)
            << testing::PrintToString(text);
    }
    // A list of 10 times a list of 10 times ... 30 levels deep.
    auto laughs = "]\x94"s;
    for (char level = 0; level < 30; ++level) {
        laughs += "](";
        for (int i = 0; i < 10; ++i) laughs += "h"s + level;
        laughs += "e\x94"s;
    }
    EXPECT_NE(said(laughs + ".").find("ends with values left over"), std::string::npos);
    auto one = "]\x94"s;
    for (char level = 0; level < 30; ++level) {
        one += "0]("s;
        for (int i = 0; i < 10; ++i) one += "h"s + level;
        one += "e\x94"s;
    }
    EXPECT_NE(said(one + ".").find("expands to far more values than it has bytes"), std::string::npos)
        << said(one + ".");
}

class Folder : public ::testing::Test {
protected:
    void SetUp() override {
        auto name = (fs::temp_directory_path() / "rankmesh-records-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        folder_ = name;
    }
    void TearDown() override { fs::remove_all(folder_); }
    fs::path folder_;
};

TEST_F(Folder, ToleratesTornMissingAndForeignFilesAndSaysWhich) {
    auto torn = job();
    torn.write(folder_, {2});
    fs::resize_file(folder_ / "rank-1.json", 100);
    std::ofstream(folder_ / "notes.txt") << "hello";
    std::ofstream(folder_ / "rank-2.json.17.tmp") << "{";
    fs::create_directory(folder_ / "more");
    ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
    const auto found = read_records({folder_.string()});
    ASSERT_EQ(found.records.size(), 2U);
    EXPECT_EQ(found.records[1].rank, 3);
    auto why = std::vector<std::string>{};
    for (const auto& file : found.unread) why.push_back(file.why);
    EXPECT_EQ(why, (std::vector<std::string>{
                       "notes.txt has no line that explain knows", "pipe is no regular file",
                       "rank-1.json is cut off after 100 bytes",
                       "rank-2.json.17.tmp was not written to its end: its process ended meanwhile"}));
    EXPECT_EQ(found.unread[2].rank, 1);
    EXPECT_EQ(found.unread[3].rank, 2);
    const auto said = explain(found.records, found.unread);
    EXPECT_TRUE(said.findings.empty());
    EXPECT_EQ(said.doubts,
              std::vector<std::string>{"the records of ranks {1 (dp=0 tp=1), 2 (dp=1 tp=0)} cannot be read"});
}

TEST_F(Folder, LeavesOutRecordsThatAreOlderThanAnotherRanksWorld) {
    const auto second = [](int seconds) { return std::to_string(1'000'000'000LL * seconds); };
    const auto write = [&](int rank, int started, int written) {
        auto text = job().record(rank);
        text.insert(text.find('{') + 1,
                    "\"started_ns\": " + second(started) + ", \"written_ns\": " + second(written) + ", ");
        std::ofstream(folder_ / ("rank-" + std::to_string(rank) + ".json")) << text;
    };
    write(0, 100, 130);
    write(1, 102, 101);  // the clocks of two hosts, and a world that all ranks begin at about the same time
    write(2, 10, 40);
    write(3, 101, 130);
    const auto found = read_records({folder_.string()});
    ASSERT_EQ(found.records.size(), 3U);
    ASSERT_EQ(found.unread.size(), 1U);
    EXPECT_EQ(found.unread[0].rank, 2);
    EXPECT_EQ(found.unread[0].why,
              "rank-2.json is of an earlier run: it was written 62 s before the world of rank-1.json began");
    write(2, 100, 130);
    EXPECT_EQ(read_records({folder_.string()}).records.size(), 4U);
}

TEST_F(Folder, RefusesAFolderThatIsNotThereOrEmpty) {
    EXPECT_THROW(read_records({folder_.string()}), UsageError);
    EXPECT_THROW(read_records({(folder_ / "none").string()}), UsageError);
}

TEST_F(Folder, SeveralFoldersAndFiles_AreOneJob) {
    const auto all = job();
    all.write(folder_ / "host0", {2, 3});
    all.write(folder_ / "host1", {0, 1, 3});
    std::ofstream(folder_ / "last-3") << all.record(3);
    fs::create_directory(folder_ / "host2");
    const auto host = [&](const char* name) { return (folder_ / name).string(); };
    const auto found = read_records({host("host1"), host("last-3"), host("host0"), host("host2")});
    ASSERT_EQ(found.records.size(), 4U);
    for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(found.records[static_cast<std::size_t>(rank)].rank, rank);
    EXPECT_EQ(found.records[2].file, host("host1") + "/rank-2.json");
    EXPECT_TRUE(found.unread.empty());
    // Two records of a rank are named by their paths.
    const auto twice = read_records({host("host0"), host("host0")});
    EXPECT_EQ(explain(twice.records).doubts.at(1).find(host("host0") + "/rank-0.json is of rank 0 as "), 0U);
    EXPECT_THROW(read_records({host("host0"), host("none")}), UsageError);
    EXPECT_THROW(read_records({host("host2")}), UsageError);
    EXPECT_THROW(read_records({}), UsageError);
}

TEST(Answer, ControlCharactersOfARecord_DoNotReachTheTerminal) {
    const auto record = RecordReader().read(
        R"({"version": "2.10", "rankmesh": 1, "rank": 0, "engine": "\u001b[2Jgloo\n1. rank 7", "host": "\u0007", "reason":)"
        R"( "\u001b", "error": "\u001b\n", "entries": []})",
        "rank-\x1b.json");
    for (const auto& line : lines_of({record}, explain(std::vector{record})))
        for (const auto c : line.text) EXPECT_GE(static_cast<unsigned char>(c), ' ') << line.text;
}

TEST_F(Folder, ALinkThatLeadsNowhereOrToItself_IsAFileThatCannotBeRead) {
    job().write(folder_);
    fs::create_symlink("rank-7.json", folder_ / "rank-7.json");
    fs::create_symlink("none", folder_ / "rank-8.json");
    const auto found = read_records({folder_.string()});
    EXPECT_EQ(found.records.size(), 4U);
    ASSERT_EQ(found.unread.size(), 2U);
    EXPECT_EQ(found.unread[0].why, "rank-7.json is no regular file");
}

TEST_F(Folder, TellsHowManyFilesAreRead) {
    job().write(folder_);
    auto told = std::vector<std::size_t>{};
    read_records({folder_.string()}, [&](std::size_t done, std::size_t all) {
        EXPECT_EQ(all, 4U);
        told.push_back(done);
    });
    EXPECT_EQ(told, (std::vector<std::size_t>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace rankmesh::tests
