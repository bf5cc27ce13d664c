// SPDX-License-Identifier: Apache-2.0
// Gloo jobs whose ranks are started one by one, and what each of them says.
#pragma once

#include <sys/wait.h>

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "support/eventually.hpp"
#include "support/processes.hpp"

namespace support {

/// What each rank of a job printed, and how it ended.
struct JobOutcome {
    std::vector<std::string> outputs;
    std::vector<int> exit_codes;
    std::string all() const {
        auto text = std::string{};
        for (const auto& output : outputs) text += output;
        return text;
    }
};

/// The ranks of a Gloo job while they run, started one by one; one that hangs ends after five minutes.
class Job {
public:
    struct Options {
        std::string command = {};  // of the shell
        int size = 4;
        int come = -1;           // so many ranks start; all if less than 0
        int first = 0;           // from this one on
        std::string store = {};  // else a folder of this job
        std::map<std::string, std::string> variables = {};
        std::string name = "a job";
        std::function<std::string(int rank)> before = {};  // words before the command
    };
    explicit Job(const Options& options) {
        auto variables = options.variables;
        variables["RANKMESH_ENGINE"] = "gloo";
        variables["RANKMESH_STORE"] = options.store.empty() ? folder_.path() + "/store" : options.store;
        variables["RANKMESH_JOB"] = options.name;
        variables["WORLD_SIZE"] = std::to_string(options.size);
        variables["RANKMESH_TEST_FOLDER"] = folder_.path();
        for (int rank = 0; rank < (options.come < 0 ? options.size : options.come); ++rank) {
            variables["RANK"] = std::to_string(options.first + rank);
            const auto before = options.before ? options.before(rank) : std::string{};
            processes_.push_back(start({"/bin/sh", "-c",
                                        "exec " + before + " timeout -k 5 300 " + options.command + " > " +
                                            output_of(rank) + " 2>&1"},
                                       variables));
        }
    }
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;
    ~Job() {
        for (auto process : processes_) kill(process, SIGTERM);
        for (auto process : processes_) end_of(process);
    }

    /// The processes of the ranks, or those that watch their time.
    const std::vector<pid_t>& processes() const { return processes_; }
    /// What a rank has printed so far.
    std::string said(int rank) const {
        auto text = std::stringstream{};
        text << std::ifstream(output_of(rank)).rdbuf();
        return text.str();
    }
    /// Waits until every rank has printed `text`; false if that takes too long.
    bool all_say(const std::string& text) const {
        auto rank = 0;
        return eventually([&] {
            while (rank < static_cast<int>(processes_.size()) && said(rank).find(text) != std::string::npos)
                ++rank;
            return rank == static_cast<int>(processes_.size());
        });
    }
    /// Waits until the process of a rank has ended.
    void wait_for_end(int rank) const {
        auto ended = siginfo_t{};
        waitid(P_PID, static_cast<id_t>(processes_.at(static_cast<std::size_t>(rank))), &ended,
               WEXITED | WNOWAIT);
    }
    /// Makes a file that the ranks may wait for.
    void tell(const std::string& name) const { std::ofstream(folder_.path() + "/" + name) << "told"; }
    /// Waits until all ranks have ended.
    JobOutcome end() {
        auto outcome = JobOutcome{};
        for (auto process : processes_) outcome.exit_codes.push_back(end_of(process));
        for (int rank = 0; rank < static_cast<int>(processes_.size()); ++rank)
            outcome.outputs.push_back(said(rank));
        processes_.clear();
        return outcome;
    }

private:
    std::string output_of(int rank) const { return folder_.path() + "/" + std::to_string(rank); }

    const Folder folder_;
    std::vector<pid_t> processes_;
};

/// Runs a command on the ranks of a job of `size`, of which only `come` start.
inline JobOutcome gloo_job(const std::string& command, int size = 4, int come = -1,
                           const std::string& store = {},
                           const std::map<std::string, std::string>& variables = {},
                           const std::string& name = "a job") {
    return Job({.command = command,
                .size = size,
                .come = come,
                .store = store,
                .variables = variables,
                .name = name})
        .end();
}

/// The time at which a rank says something, in milliseconds.
inline long long time_of(const JobOutcome& outcome, std::size_t rank, const std::string& what) {
    auto found = std::smatch{};
    const auto pattern = std::regex(what + " at ([0-9]+) ms");
    return std::regex_search(outcome.outputs.at(rank), found, pattern) ? std::stoll(found[1]) : -1;
}

inline void expect_says(const JobOutcome& outcome, std::size_t rank, const std::string& part) {
    EXPECT_NE(outcome.outputs.at(rank).find(part), std::string::npos)
        << "rank " << rank << " does not say: " << part << "\n"
        << outcome.all();
}

/// Expects that what a rank says to have taken some milliseconds took between these.
inline void expect_took(const JobOutcome& outcome, std::size_t rank, const std::string& what, int least,
                        int most) {
    auto found = std::smatch{};
    const auto pattern =
        std::regex("rank " + std::to_string(rank) + ", " + what + ": [^:]* after ([0-9]+) ms");
    const auto time = std::regex_search(outcome.outputs.at(rank), found, pattern) ? std::stoi(found[1]) : -1;
    EXPECT_GE(time, least) << "rank " << rank << ", " << what << "\n" << outcome.all();
    EXPECT_LE(time, most) << "rank " << rank << ", " << what << "\n" << outcome.all();
}

}  // namespace support
