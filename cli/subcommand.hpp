// SPDX-License-Identifier: Apache-2.0
// A subcommand as data: the one table that the command line, the help, the man pages and completion are made
// of. main.cpp alone knows the library that reads a command line.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bytes.hpp"

namespace rankmesh::cli {

class Output;

/// One argument: `--world N`, or `MESH` where the name has no dashes.
struct Option {
    /// Where its value goes. A bool makes it a flag; a list takes one value each time that it is given, and
    /// without dashes all the words.
    using Target = std::variant<bool*, std::string*, std::optional<std::string>*, std::optional<int>*,
                                std::size_t*, double*, Bytes*, std::vector<std::string>*>;
    /// The numbers that are allowed, both ends too.
    struct Range {
        double least = 0;
        double most = 0;
        bool shown = true;  ///< in the help
    };

    std::string name;
    std::string help;
    Target target;
    std::string type = {};  ///< what the help calls the value: `N`; empty: the type of the target
    std::optional<Range> range = {};
    std::vector<std::string> values = {};  ///< what completion offers; else files

    bool has_dashes() const { return name.starts_with('-'); }
    bool is_flag() const { return std::holds_alternative<bool*>(target); }
    /// Whether it takes all the words that are left, those behind `--` too.
    bool is_list() const {
        return !has_dashes() && std::holds_alternative<std::vector<std::string>*>(target);
    }
};

/// What a subcommand is for; the help lists those of one group together.
enum class Group { look, plan, run, command };

/// One subcommand: its arguments, and what it does with them.
struct Subcommand {
    std::string name;
    std::string help;
    std::vector<Option> options;      ///< in the order of the help
    std::function<int(Output&)> run;  ///< 0 yes, 1 no; throws UsageError
    Group group = Group::look;
    std::vector<std::string> examples = {};  ///< the first stands in the list of subcommands
    std::string notes = {};  ///< paragraphs, one a line; a line that begins with a blank is kept
    std::string unknown_option_hint = {};  ///< what an error about an unknown option adds
    std::string optional_positional = {};  ///< the argument without dashes that may be left out
};

/// All of them, in the order in which the help lists them.
std::vector<Subcommand> subcommands();

}  // namespace rankmesh::cli
