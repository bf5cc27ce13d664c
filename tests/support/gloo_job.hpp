// SPDX-License-Identifier: Apache-2.0
// Gloo jobs whose ranks are started one by one, and what each of them says.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "support/processes.hpp"

namespace support {

struct Outcome {
    std::vector<std::string> outputs;  // by rank
    std::vector<int> exit_codes;
    std::string all() const {
        auto text = std::string{};
        for (const auto& output : outputs) text += output;
        return text;
    }
};

/// Runs a command on ranks that are started one by one; `come` of them do, of a job of `size`.
inline Outcome gloo_job(const std::string& command, int size = 4, int come = -1,
                        const std::string& store = {}, std::map<std::string, std::string> variables = {},
                        const std::string& name = "a job") {
    const auto folder = Folder();
    auto outcome = Outcome{};
    auto processes = std::vector<pid_t>{};
    for (int rank = 0; rank < (come < 0 ? size : come); ++rank) {
        const auto output = folder.path() + "/" + std::to_string(rank);
        variables["RANKMESH_ENGINE"] = "gloo";
        variables["RANKMESH_STORE"] = store.empty() ? folder.path() + "/store" : store;
        variables["RANKMESH_JOB"] = name;
        variables["WORLD_SIZE"] = std::to_string(size);
        variables["RANK"] = std::to_string(rank);
        processes.push_back(start(
            {"/bin/sh", "-c", "exec timeout -k 5 30 " + command + " > " + output + " 2>&1"}, variables));
    }
    for (std::size_t rank = 0; rank < processes.size(); ++rank) {
        outcome.exit_codes.push_back(end_of(processes[rank]));
        auto text = std::stringstream{};
        text << std::ifstream(folder.path() + "/" + std::to_string(rank)).rdbuf();
        outcome.outputs.push_back(text.str());
    }
    return outcome;
}

inline void expect_says(const Outcome& outcome, std::size_t rank, const std::string& part) {
    EXPECT_NE(outcome.outputs.at(rank).find(part), std::string::npos)
        << "rank " << rank << " does not say: " << part << "\n"
        << outcome.all();
}

}  // namespace support
