// SPDX-License-Identifier: Apache-2.0
// Reports of NCCL's RAS: JSON as client_support.cc of NCCL 2.29 writes it, and the protocol of its port.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/ranks.hpp>
#include <rankmesh/explain/explain.hpp>
#include <rankmesh/explain/read.hpp>

#include "explain/read/ras.hpp"
#include "formats/text.hpp"

namespace rankmesh::tests {
namespace {

/// What RAS knows of a rank of a communicator; its process is that of `device`.
struct Rank {
    int device = 0;
    int all_reduce = 5;
    int broadcast = 1;
    int async_error = 0;
    bool aborted = false;
    enum class Missing { no, silent, dead, no_member } missing = Missing::no;
};
using Communicator = std::vector<Rank>;

std::string report(const std::vector<Communicator>& communicators) {
    const auto flag = [](bool is) { return is ? "true" : "false"; };
    auto text = std::string(
                    "{\n  \"nccl_version\": \"2.29.1\",\n  \"cuda_runtime_version\": 13000,\n  "
                    "\"cuda_driver_version\": "
                    "13000,\n  \"timestamp\": \"2025-12-19 13:06:53\",\n  \"communicators_count\": ") +
                std::to_string(communicators.size()) + ",\n  \"communicators\": [\n";
    for (std::size_t c = 0; c < communicators.size(); ++c) {
        auto present = std::string{};
        auto missing = std::string{};
        auto count = 0;
        for (std::size_t i = 0; i < communicators[c].size(); ++i) {
            const auto& rank = communicators[c][i];
            const auto is_missing = rank.missing != Rank::Missing::no;
            auto& to = is_missing ? missing : present;
            count += is_missing ? 1 : 0;
            // Two hosts of four devices. Each process sees only its own device.
            to += std::string(to.empty() ? "" : ",\n") + "{\"rank\": " + std::to_string(i) +
                  ", \"host\": \"10.0.0." + std::to_string(rank.device / 4) +
                  "\", \"pid\": " + std::to_string(100 + rank.device) +
                  ", \"cuda_dev\": 0, \"nvml_dev\": " + std::to_string(rank.device % 4) + ", \"status\": ";
            if (is_missing)
                to += std::string("{\"unresponsive\": ") + flag(rank.missing != Rank::Missing::no_member) +
                      ", \"considered_dead\": " + flag(rank.missing == Rank::Missing::dead) + "}}";
            else
                to += "{\"init_state\": 0, \"async_error\": " + std::to_string(rank.async_error) +
                      ", \"finalize_called\": false, \"destroy_flag\": false, \"abort_flag\": " +
                      flag(rank.aborted) +
                      "}, \"collective_counts\": {\"Broadcast\": " + std::to_string(rank.broadcast) +
                      ", \"AllReduce\": " + std::to_string(rank.all_reduce) + "}}";
        }
        const auto size = std::to_string(communicators[c].size());
        text += std::string(c == 0 ? "" : ",\n") + "{\"hash\": \"0xa" + std::to_string(c) +
                "\", \"secondary_hash\": \"0x1:0x2\", \"size\": " + size + ", \"ranks_count\": " +
                std::to_string(communicators[c].size() - static_cast<std::size_t>(count)) +
                ", \"missing_ranks_count\": " + std::to_string(count) + ", \"ranks\": [\n" + present +
                "\n], \"missing_ranks\": [\n" + missing + "\n]}";
    }
    return text +
           "\n  ],\n  \"ras\": {\n    \"collection_time_sec\": 0.001,\n    \"timeouts_count\": 0\n  }\n}\n";
}

Communicator ranks(const std::vector<int>& devices) {
    auto all = Communicator{};
    for (const auto device : devices) all.push_back({device});
    return all;
}

class Ras : public ::testing::Test {
protected:
    void SetUp() override {
        auto name = (std::filesystem::temp_directory_path() / "rankmesh-ras-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        folder_ = name;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    Explanation explained(const std::string& text) {
        std::ofstream(folder_ / "ras.json") << text;
        const auto found = read_records({folder_.string()});
        return explain(found.records, found.unread, {}, found.lines);
    }
    std::filesystem::path folder_;
};

std::string findings_of(const Explanation& said) {
    auto text = std::string{};
    for (const auto& one : said.findings)
        text += std::string(to_string(one.kind)) + " " + ranks_to_string(one.ranks) + "\n";
    return text;
}

TEST_F(Ras, OfEqualCounts_CannotTell) {
    const auto said = explained(report({ranks({0, 1, 2, 3}), ranks({0, 2})}));
    EXPECT_TRUE(said.findings.empty()) << said.findings.front().text;
    EXPECT_FALSE(said.doubts.empty());
    EXPECT_EQ(said.ranks, 4);
}

TEST_F(Ras, ARankWithFewerCalls_IsBehind) {
    auto world = ranks({0, 1, 2, 3, 4, 5});
    world[3].all_reduce = 4;
    auto said = explained(report({world}));
    EXPECT_EQ(findings_of(said), "behind {3}\n");
    EXPECT_NE(said.findings[0].text.find(
                  "rank 3 is behind: 4 of 5 calls made on 'AllReduce of communicator 0xa0' {0..5}"),
              std::string::npos)
        << said.findings[0].text;
    EXPECT_EQ(said.findings[0].hosts, std::vector<std::string>{"10.0.0.0"});
    EXPECT_NE(std::ranges::find_if(said.notes,
                                   [](const auto& note) { return note.starts_with("RAS counts calls"); }),
              said.notes.end());
    // In a smaller communicator its ranks are those of the job.
    auto pair = ranks({1, 4});
    pair[1].broadcast = 0;
    said = explained(report({pair, ranks({0, 1, 2, 3, 4, 5})}));
    EXPECT_EQ(findings_of(said), "behind {4}\n");
    // One waits in a broadcast for the other, which waits in an all-reduce.
    auto crossed = ranks({0, 1});
    crossed[0].broadcast = 2, crossed[1].all_reduce = 6;
    EXPECT_EQ(findings_of(explained(report({crossed}))), "cycle {0, 1}\n");
}

TEST_F(Ras, WhatItSaysOfProcesses_IsEvidence) {
    auto world = ranks({0, 1, 2, 3});
    for (const auto& [missing, text] :
         {std::pair{Rank::Missing::silent,
                    "rank 2 does not answer RAS: process 102 is stopped or cut off (ras.json)"},
          {Rank::Missing::dead,
           "rank 2 is considered dead by RAS: its process 102 cannot be reached (ras.json)"}}) {
        world[2].missing = missing;
        const auto said = explained(report({world}));
        EXPECT_EQ(findings_of(said), "left {2}\n");
        EXPECT_EQ(said.findings[0].text, text);
    }
    world[2].missing = Rank::Missing::no_member;
    EXPECT_EQ(explained(report({world})).findings[0].text,
              "rank 2 reports error: has ended communicator 0xa0, or never made it; process 102 answers "
              "(ras.json)");
    world[2] = {2};
    world[2].async_error = 6;
    EXPECT_EQ(explained(report({world})).findings[0].text,
              "rank 2 reports error: communicator 0xa0: Remote process error (ras.json)");
    world[2] = {2};
    world[2].async_error = 7;  // in progress
    EXPECT_TRUE(explained(report({world})).findings.empty());
    world[2].aborted = true;
    EXPECT_EQ(explained(report({world})).findings[0].text,
              "rank 2 reports error: has aborted communicator 0xa0 (ras.json)");
}

TEST_F(Ras, ACommunicatorOfOtherRanks_IsNamed) {
    const auto said = explained(report({ranks({0, 1, 2}), ranks({6, 7})}));
    EXPECT_NE(std::ranges::find(
                  said.notes,
                  "communicator 0xa1 is left out: its ranks are not those of the largest one (ras.json)"),
              said.notes.end());
}

TEST_F(Ras, WhatIsNoReport_IsRefusedInWords) {
    const auto why = [&](const std::string& communicators) -> std::string {
        std::ofstream(folder_ / "ras.json")
            << "{\"nccl_version\": \"2.29.1\", \"communicators\": [" << communicators << "]}";
        return read_records({folder_.string()}).unread.at(0).why;
    };
    EXPECT_EQ(why(""), "ras.json is a report of NCCL's RAS without a communicator");
    EXPECT_EQ(why("1"), "ras.json has a 'communicators' that is no object");
    EXPECT_EQ(why(R"({"size": 0})"), "ras.json has a 'size' that is no number of ranks");
    EXPECT_EQ(why(R"({"size": 2, "ranks": [{"rank": 2}]})"),
              "ras.json has a 'rank' that is no rank of 0 to 1");
    EXPECT_EQ(why(R"({"size": 2, "ranks": [{}]})"), "ras.json has a 'rank' that is no rank of 0 to 16777215");
}

/// RAS as NCCL's client_support.cc answers: it takes commands in any case, one a line, closes after a report,
/// and says what is wrong with other lines. Before 2.28 there is no format to set.
class FakeRas {
public:
    FakeRas(std::string json, std::string text, bool has_formats)
        : json_(std::move(json)), text_(std::move(text)) {
        listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
        auto address = sockaddr_in{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        auto size = socklen_t{sizeof address};
        EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
        EXPECT_EQ(::listen(listener_, 1), 0);
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
        port = ntohs(address.sin_port);
        thread_ = std::thread([this, has_formats] { serve(has_formats); });
    }
    ~FakeRas() {
        thread_.join();
        ::close(listener_);
    }
    int port = 0;

private:
    void serve(bool has_formats) {
        const auto client = ::accept(listener_, nullptr, nullptr);
        auto is_json = false;
        auto received = std::string{};
        auto has_ended = false;
        while (!has_ended) {
            auto byte = '\0';
            if (::recv(client, &byte, 1, 0) != 1) break;
            if (byte != '\n') {
                received += byte;
                continue;
            }
            const auto command = formats::lower(std::exchange(received, {}));
            auto answer = "ERROR: Unknown command " + command + "\n";
            if (command.starts_with("client protocol ")) answer = "SERVER PROTOCOL 2\n";
            if (has_formats && command.starts_with("set format ")) {
                is_json = command == "set format json";
                answer = "OK\n";
            }
            if (command == "status" || command == "verbose status") {
                answer = is_json ? json_ : text_;
                has_ended = true;
            }
            // The answer comes in pieces.
            for (std::size_t i = 0; i < answer.size(); i += 1000)
                ::send(client, answer.data() + i, std::min<std::size_t>(1000, answer.size() - i),
                       MSG_NOSIGNAL);
        }
        ::close(client);
    }
    std::string json_;
    std::string text_;
    int listener_ = -1;
    std::thread thread_;
};

TEST_F(Ras, AskedAtItsPort_SaysTheSame_InJsonOrText) {
    auto world = ranks({0, 1, 2, 3});
    world[2].all_reduce = 4;
    const auto text = std::string(
        "NCCL version 2.24.3 compiled with CUDA 12.6\n\nJob "
        "summary\n===========\n\nErrors\n======\n\nWarnings\n========\n\n"
        "#0-0 (27a079b828ff1a75) MISMATCH\n  Communicator ranks have different collective operation counts\n"
        "  3 ranks have launched up to operation 5\n"
        "  Rank 2 has launched up to operation 4 -- GPU 2 managed by process 102 on node 10.0.0.0\n");
    for (const auto has_formats : {true, false}) {
        auto fake = FakeRas(report({world}), text, has_formats);
        const auto found = read_records({"ras://127.0.0.1:" + std::to_string(fake.port)});
        ASSERT_TRUE(found.unread.empty()) << found.unread[0].why;
        const auto said = explain(found.records, found.unread, {}, found.lines);
        EXPECT_EQ(findings_of(said), has_formats ? "behind {2}\n" : "failed {2}\n");
    }
}

TEST_F(Ras, APortWithoutRas_IsRefusedInWords) {
    const auto why = [](const std::string& address) -> std::string {
        try {
            of_ras::ask(address, 200);
        } catch (const UsageError& error) {
            return error.what();
        }
        return "asked";
    };
    const auto hint = "; RAS listens at localhost:28028 on hosts of the job, or at NCCL_RAS_ADDR";
    const auto listener = ::socket(AF_INET, SOCK_STREAM, 0);
    auto address = sockaddr_in{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto size = socklen_t{sizeof address};
    ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
    const auto at = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    EXPECT_EQ(why(at), "NCCL's RAS at " + at + " gave no report: Connection refused" + hint);
    ASSERT_EQ(::listen(listener, 4), 0);  // and never answers
    EXPECT_EQ(why(at), "NCCL's RAS at " + at + " gave no report: it does not answer" + hint);
    for (const auto& [answer, said] :
         {std::pair{"HTTP/1.1 400\r\n", "it answers 'HTTP/1.1 400\\r\\n' and is not RAS"},
          {"", "it closed the connection"}}) {
        auto thread = std::thread([&, answer = std::string(answer)] {
            // The connection of the call before is still in the queue, and closed.
            for (auto is_open = true; is_open;) {
                const auto client = ::accept(listener, nullptr, nullptr);
                char command[100];
                is_open = ::recv(client, command, sizeof command, 0) <= 0;
                auto more = char{};
                const auto is_old = !is_open && ::recv(client, &more, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
                if (is_old) is_open = true;
                ::send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
                ::shutdown(client, SHUT_RDWR);
                ::close(client);
            }
        });
        EXPECT_EQ(why(at), "NCCL's RAS at " + at + " gave no report: " + said + hint);
        thread.join();
    }
    ::close(listener);
    EXPECT_NE(why("127.0.0.1:no")
                  .find("NCCL's RAS is asked at ras://HOST:PORT, but '127.0.0.1:no' is not a host and port"),
              std::string::npos);
}

}  // namespace
}  // namespace rankmesh::tests
