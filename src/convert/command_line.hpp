// SPDX-License-Identifier: Apache-2.0
// The command that starts a job, by itself or in a shell script: launchers, a program, and the program's own
// words.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/error.hpp>

#include "frameworks/rows.hpp"

namespace rankmesh::conversion {

using detail::cat;

/// True for one of words that are written with spaces between.
inline bool is_one_of(std::string_view word, std::string_view words) {
    return frameworks::holds(frameworks::words_of(words), word);
}

/// How jobs of a framework are started; nothing is known of those without rows.
const frameworks::Start& start_of(std::string_view framework);

/// `torchrun --nproc-per-node 8 train.py --tp 2`, taken apart.
struct CommandLine {
    std::string program;                ///< a file, a module or an image; empty: none that is known
    std::vector<std::string> launcher;  ///< the words of the innermost launcher, without its name
    std::vector<std::string> words;  ///< what the program is given, without the names of models and commands
    std::optional<int> ranks;        ///< that the launcher starts, where it says so

    bool operator==(const CommandLine&) const = default;
};

/// The number that one of these flags, by spaces, has; nothing where it is not said or not as one number.
std::optional<int> number_of(const std::vector<std::string>& words, std::string_view flags);
/// True for the name of a file with tables of settings: JSON, TOML or YAML.
bool is_configuration(std::string_view name);
/// True for a command whose first word is a launcher or a program that starts ranks, maybe after NAME=VALUE
/// words.
bool is_command(const std::vector<std::string>& words);
/// True for a program, module or image of a framework: `vllm`, `vllm.entrypoints.openai.api_server`.
bool is_of_framework(std::string_view program, std::string_view framework);
CommandLine taken_apart(const std::vector<std::string>& words);
/// Returns what the commands of all hosts of a job have in common: no launcher, and no rank of a host.
CommandLine without_host(CommandLine command);

/// Returns the words of the command in a script that starts the job, none if there is none: of several
/// commands, the one that starts a program of the framework.
///
/// Assignments, arrays, `${X:-1}`, `$((a * b))`, quotes, continuation lines and comments are evaluated, and
/// so are functions, branches that these decide, and files that `source` names in the folder of `path`. The
/// script itself is given no words. What they leave unknown stands as it is written, such as `$HOME/data` or
/// `$(hostname)`, and so does a variable that another branch or a loop sets. Throws UsageError if several
/// commands start a job, and for an unknown that may be any number of words.
std::vector<std::string> launch_of(std::string_view text, std::string_view source, std::string_view path,
                                   std::string_view framework);

}  // namespace rankmesh::conversion
