// SPDX-License-Identifier: Apache-2.0
// Shell scripts that start a job, read without running anything of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rankmesh::conversion {

/// True for a shell script: it names its shell, sets or expands variables, or has an array of flags.
bool is_script(std::string_view text);
/// Returns the words of the command in a script that starts the job.
///
/// Assignments, arrays, `${X:-1}`, `$((a * b))`, quotes, continuation lines and comments are evaluated. What
/// they leave unknown stands as it is written, such as `$HOME/data` or `$(hostname)`, and so does a variable
/// that a branch or a loop sets. Throws UsageError if no command or several start a job, and for an unknown
/// that may be any number of words.
std::vector<std::string> launch_of(std::string_view text, std::string_view source);

}  // namespace rankmesh::conversion
