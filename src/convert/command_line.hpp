// SPDX-License-Identifier: Apache-2.0
// The command that starts a job: launchers, a program, and the program's own words.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rankmesh::conversion {

/// `torchrun --nproc-per-node 8 train.py --tp 2`, taken apart.
struct CommandLine {
    std::vector<std::string> launcher;  ///< the words of the innermost launcher, without its name
    std::vector<std::string> words;  ///< what the program is given, without the names of models and commands
    std::optional<int> ranks;        ///< that the launcher starts, where it says so
};

/// True for the name of a file with tables of settings: JSON, TOML or YAML.
bool is_configuration(std::string_view name);
/// True for a command whose first word is a launcher or a program that starts ranks, maybe after NAME=VALUE
/// words.
bool is_command(const std::vector<std::string>& words);
/// Takes a command apart. Throws UsageError for a command without a program.
CommandLine taken_apart(const std::vector<std::string>& words);

}  // namespace rankmesh::conversion
