// SPDX-License-Identifier: Apache-2.0
// How ranks know that the process of another one on their host has ended.
#include "engine/hosts/local_processes.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "support/eventually.hpp"

using namespace rankmesh::detail;

namespace {

/// A process that does nothing until it is killed.
class Child {
public:
    Child() {
        auto ends = std::array<int, 2>{};
        if (pipe(ends.data()) != 0) std::abort();
        process_ = fork();
        if (process_ == 0) {
            const auto id = id_of_this_process();
            if (write(ends[1], id.data(), id.size()) < 0) _exit(1);
            close(ends[1]);
            while (true) pause();
        }
        close(ends[1]);
        for (char letter = 0; read(ends[0], &letter, 1) == 1;) id_ += letter;
        close(ends[0]);
    }
    ~Child() {
        kill(process_, SIGKILL);
        wait();
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    const std::string& id() const { return id_; }
    /// It is dead then, and not waited for.
    void end() const {
        kill(process_, SIGKILL);
        auto info = siginfo_t{};
        waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT);
    }
    void wait() const { waitpid(process_, nullptr, 0); }

private:
    pid_t process_ = 0;
    std::string id_;
};

}  // namespace

TEST(LocalProcesses, OneHasEndedOnceItIsDeadAlsoWhereNobodyHasWaitedForIt) {
    const auto child = Child();
    EXPECT_FALSE(process_has_ended(id_of_this_process()));
    EXPECT_FALSE(process_has_ended(child.id())) << child.id();
    child.end();
    EXPECT_TRUE(process_has_ended(child.id())) << child.id();
    child.wait();
    EXPECT_TRUE(process_has_ended(child.id())) << child.id();
}

TEST(LocalProcesses, OneOfTheSameNumberThatStartedAtAnotherTimeIsAnother) {
    const auto id = id_of_this_process();
    EXPECT_TRUE(process_has_ended(id.substr(0, id.rfind('.')) + ".1"));
}

TEST(LocalProcesses, WhatThisProcessCannotSeeHasNotEndedForIt) {
    const auto id = id_of_this_process();
    const auto space = id.substr(0, id.find('.'));
    EXPECT_FALSE(process_has_ended("1" + id)) << "another PID namespace";
    for (const auto* text : {"", "-", ".", "..", ".1.1", "1.1.1", "x.y.z"})
        EXPECT_FALSE(process_has_ended(text)) << text;
    for (const auto* text : {"", ".", ".1", "..", ".0.1", ".-1.1", ".x.1", ".7fffffffffffffff.1", ". 1.1"})
        EXPECT_FALSE(process_has_ended(space + text)) << text;
}

TEST(LocalProcesses, OfAWorldThoseOfThisNetworkAreLookedAt) {
    const auto child = Child();
    const auto line = [](int rank, const std::string& network, const std::string& process) {
        return HostLine{rank, network, "46", process, "host"};
    };
    const auto lines = std::vector{line(0, "1", child.id()), line(1, "1", id_of_this_process()),
                                   line(2, "2", child.id()), line(3, "1", "-"), line(4, "1", child.id())};
    auto all = LocalProcesses(lines, 1);
    auto before = all.among({1, 3, 4});
    EXPECT_EQ(all.ended(), std::vector<int>{});
    child.end();
    EXPECT_TRUE(support::eventually([&] { return !all.ended().empty(); }));
    EXPECT_EQ(all.ended(), (std::vector{0, 4}));
    EXPECT_EQ(all.among({4, 1}).ended(), std::vector{0}) << "also one that has ended by then";
    EXPECT_EQ(before.ended(), std::vector{2});
}

TEST(LocalProcesses, RunningProcessesAreNotBlamedForConnectionsIfAnotherEnded) {
    using Ranks = std::vector<int>;
    const auto ended = Child();
    const auto runs = Child();
    const auto line = [](int rank, const std::string& network, const std::string& process) {
        return HostLine{rank, network, "46", process, "host"};
    };
    const auto own = id_of_this_process();
    const auto all = LocalProcesses({line(0, "1", own), line(1, "1", ended.id()), line(2, "1", runs.id()),
                                     line(3, "2", own), line(4, "1", "-")},
                                    0);
    EXPECT_EQ(all.to_blame({1, 2}, {1, 2, 3}), (Ranks{1, 2})) << "nobody has ended yet";
    ended.end();
    EXPECT_EQ(all.to_blame({1}, {1, 2, 3}), Ranks{1});
    EXPECT_EQ(all.to_blame({1, 2}, {1, 2, 3}), Ranks{1});
    EXPECT_EQ(all.to_blame({2}, {1, 2, 3}), Ranks{1}) << "whose connection was not seen to break";
    EXPECT_EQ(all.to_blame({2, 3}, {1, 2, 3}), (Ranks{1, 3})) << "of other hosts nothing is known";
    EXPECT_EQ(all.to_blame({3}, {1, 2, 3}), Ranks{3});
    EXPECT_EQ(all.to_blame({2, 4}, {1, 2, 4}), (Ranks{1, 4})) << "nor of processes that this one cannot see";
    EXPECT_EQ(all.to_blame({2}, {2, 3}), Ranks{2}) << "one that has said goodbye may end";
}
