// SPDX-License-Identifier: Apache-2.0
// A subcommand as data. The command line, the help, the man pages and completion come from this table. Only
// main.cpp includes the library that parses the command line.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace rankmesh::cli {

class Output;

/// The value of an option in bytes, such as `64MiB`.
struct Bytes {
    std::size_t count = 0;
};

/// One argument: `--world N`, or a positional argument such as `MESH`.
struct Option {
    /// Where to store the value. A bool makes a flag. A list takes one value each time the option is given; a
    /// positional list takes all words.
    using Target = std::variant<bool*, std::string*, std::optional<std::string>*, std::optional<int>*,
                                std::size_t*, double*, Bytes*, std::vector<std::string>*>;
    /// The allowed numbers, both ends included.
    struct Range {
        double least = 0;
        double most = 0;
        bool shown = true;  ///< shown in the help
    };

    std::string name;
    std::string help;
    Target target;
    std::string type = {};  ///< the name of the value in the help: `N`; empty: from the type of the target
    std::optional<Range> range = {};
    std::vector<std::string> values = {};  ///< candidates for completion; empty: files
    bool takes_only_values = false;        ///< any other one is an error

    bool has_dashes() const { return name.starts_with('-'); }
    bool is_flag() const { return std::holds_alternative<bool*>(target); }
    /// Returns true if the argument takes all remaining words, also those after `--`.
    bool is_list() const {
        return !has_dashes() && std::holds_alternative<std::vector<std::string>*>(target);
    }
};

/// Returns the names of what has one.
std::vector<std::string> names_of(const auto& all) {
    auto names = std::vector<std::string>{};
    for (const auto& one : all) names.emplace_back(one.name);
    return names;
}

/// Returns an option with candidates for completion.
inline Option with_values(std::vector<std::string> values, Option option) {
    option.values = std::move(values);
    return option;
}
/// Returns an option that takes only these values.
inline Option one_of(std::vector<std::string> values, Option option) {
    option.takes_only_values = true;
    return with_values(std::move(values), std::move(option));
}

/// The group of a subcommand in the help.
enum class Group { look, plan, run, command };

/// One subcommand: its arguments and its function.
struct Subcommand {
    std::string name;
    std::string help;
    std::vector<Option> options;      ///< in the order of the help
    std::function<int(Output&)> run;  ///< 0 yes, 1 no; throws UsageError
    Group group = Group::look;
    std::vector<std::string> examples = {};  ///< the first is in the list of subcommands
    std::string notes = {};  ///< paragraphs, one per line; a line that begins with a blank is not wrapped
    std::string unknown_option_hint = {};  ///< what an error about an unknown option adds
    std::string optional_positional = {};  ///< the positional argument that is optional
};

/// Returns all subcommands, in the order of the help.
std::vector<Subcommand> subcommands();

}  // namespace rankmesh::cli
