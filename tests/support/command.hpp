// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace support {

/// What a shell command printed, and how it ended.
struct Outcome {
    std::string output;
    int exit_code = 0;  // 128 + the signal, where one ended it
};

/// Runs a command line in the shell; what it prints on both streams comes back unless the line says
/// otherwise.
inline Outcome run(const std::string& command) {
    auto* pipe = popen(("{ " + command + "\n} 2>&1").c_str(), "r");
    if (!pipe) throw std::runtime_error("the shell cannot be started");
    auto outcome = Outcome{};
    auto buffer = std::array<char, 4096>{};
    while (const auto count = std::fread(buffer.data(), 1, buffer.size(), pipe))
        outcome.output.append(buffer.data(), count);
    const auto status = pclose(pipe);
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return outcome;
}

}  // namespace support
