// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

namespace rankmesh::cli {

class Output;

/// One subcommand of the command: its arguments, and what it does with them.
///
/// A new subcommand is one file that defines its `add_...`, a line below, and a line in the list of main.cpp.
struct Subcommand {
    CLI::App* app = nullptr;
    std::function<int(Output&)> run = {};  ///< 0 yes, 1 no; throws UsageError
    std::string hint = {};                 ///< what an error about an unknown option adds
    std::string optional = {};             ///< the argument without dashes that may be left out
};

Subcommand add_show(CLI::App& command);
Subcommand add_rank(CLI::App& command);
Subcommand add_groups(CLI::App& command);
Subcommand add_check(CLI::App& command);
Subcommand add_convert(CLI::App& command);
Subcommand add_env(CLI::App& command);
Subcommand add_run(CLI::App& command);

}  // namespace rankmesh::cli
