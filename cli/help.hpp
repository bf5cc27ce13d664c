// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "subcommand.hpp"

namespace rankmesh::cli {

inline constexpr auto summary =
    std::string_view("Draw, query, plan and run the process topology of a large parallel job.");

/// A word of a command line and its meaning: `--world N`, `ranks in the world`.
struct Entry {
    std::string name;
    std::string help = {};
};
inline const auto help_flag = Entry{"--help", "print this help; short form -h"};
inline const auto version_flag = Entry{"--version", "print the version and the engines of this build"};

/// Returns the output of `rankmesh --help`, in lines of at most `width` columns except for examples.
std::string help_text(const std::vector<Subcommand>& all, int width);
/// Returns the output of `rankmesh NAME --help`.
std::string help_text(const Subcommand& subcommand, int width);

/// `rankmesh(1)` as troff.
std::string man_page(const std::vector<Subcommand>& all);
/// `rankmesh-NAME(1)`.
std::string man_page(const Subcommand& subcommand);

/// Returns the subcommand of that name. Throws UsageError, which suggests the nearest name, if there is none.
const Subcommand& find_subcommand(const std::vector<Subcommand>& all, std::string_view name);

}  // namespace rankmesh::cli
