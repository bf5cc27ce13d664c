// SPDX-License-Identifier: Apache-2.0
// Converts settings between frameworks: the subcommand convert as a function. Belongs to the library
// rankmesh::convert.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rankmesh {

/// A framework whose settings `convert` reads and writes.
struct FrameworkInfo {
    std::string_view name;
    std::string_view settings;  ///< where these settings come from
    std::string_view example;   ///< example settings, as shell words
    std::string_view version;   ///< the compared version of the original; empty: none
};

/// Returns all frameworks, in the order of `rankmesh convert --help`.
///
///     known_frameworks().front().name == "rankmesh"
std::vector<FrameworkInfo> known_frameworks();

/// Something that a framework cannot express, and why.
struct Loss {
    std::string what;
    std::string why;
};

/// Returns the losses, grouped by reason.
std::vector<Loss> by_reason(const std::vector<Loss>& lost);

/// The result of `convert`. Names are the keys of `rankmesh convert --json`. `settings`, `text`, `mesh_to`
/// and `moved` are set together or not at all.
struct Conversion {
    /// A call of a function of the other framework.
    struct Call {
        std::string text;
        int moved = 0;  ///< number of ranks that move with this call
    };

    std::string from;
    std::string to;
    int ranks = 0;
    std::optional<std::string> settings;  ///< settings of the other framework as JSON; nullopt: it has none
    std::optional<std::string> text;      ///< the same in the framework's own syntax, for copy and paste
    std::string mesh_from;  ///< the meshes of both, outermost axis first; the experts' mesh follows a `;`
    std::optional<std::string> mesh_to;
    std::optional<int> moved;                      ///< number of ranks that get another number
    std::vector<std::pair<int, int>> first_moves;  ///< the first eight moved ranks: old and new number
    std::vector<Loss> lost;                        ///< what the other framework cannot express
    std::optional<Call> call;                      ///< set if fewer ranks move with it than with `settings`
    std::vector<std::string> notes = {};           ///< what the program must do itself with `settings`
};

/// Converts the settings of one framework to another.
///
/// `words` are the arguments of `rankmesh convert`: key=value, flags, JSON, TOML, or the name of such a file
/// (`-`: standard input). `world` is the number of ranks if the settings do not contain it; the default is
/// the launcher's number. Throws UsageError. Its text names options of the command: `--world` is
/// `world`.
///
///     auto mapping = convert("picotron", "tensorrt-llm", {"tp_size=2", "pp_size=2"});
///     EXPECT_EQ(mapping.text, "Mapping(world_size=4, tp_size=2, pp_size=2, cp_size=1)");
Conversion convert(std::string_view from, std::string_view to, const std::vector<std::string>& words,
                   std::optional<int> world = {});

/// Converts settings that are one text, such as a JSON object. Never takes `text` as the name of a file.
///
///     convert_text("torchtitan", "torch", R"({"tensor_parallel_degree": 2})", 8).moved == 0
Conversion convert_text(std::string_view from, std::string_view to, std::string_view text,
                        std::optional<int> world = {});

}  // namespace rankmesh
