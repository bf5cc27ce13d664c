// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace support {

/// A folder that did not exist before and goes with this.
class Folder {
public:
    Folder() {
        auto name = (std::filesystem::temp_directory_path() / "rankmesh-test-XXXXXX").string();
        if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder can be made");
        path_ = name;
    }
    ~Folder() {
        auto error = std::error_code{};
        std::filesystem::remove_all(path_, error);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

/// Starts a program with more variables in its environment; the number of the process.
inline pid_t start(const std::vector<std::string>& words,
                   const std::map<std::string, std::string>& variables) {
    const auto process = fork();
    if (process < 0) throw std::runtime_error("no process can be started");
    if (process > 0) return process;
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    auto arguments = std::vector<char*>{};
    for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execv(arguments.front(), arguments.data());
    _exit(127);
}

/// How a process ended: its exit code, or 128 + the signal that ended it.
inline int end_of(pid_t process) {
    auto status = 0;
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// The ranks of one Gloo job, started one by one by this process, without a launcher.
inline std::vector<pid_t> start_ranks(const std::vector<std::string>& words, int size,
                                      const std::string& store, const std::string& job,
                                      std::map<std::string, std::string> variables = {}) {
    auto processes = std::vector<pid_t>{};
    variables["RANKMESH_ENGINE"] = "gloo";
    variables["RANKMESH_STORE"] = store;
    variables["RANKMESH_JOB"] = job;
    variables["WORLD_SIZE"] = std::to_string(size);
    for (int rank = 0; rank < size; ++rank) {
        variables["RANK"] = std::to_string(rank);
        processes.push_back(start(words, variables));
    }
    return processes;
}

}  // namespace support
