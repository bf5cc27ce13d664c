// SPDX-License-Identifier: Apache-2.0
// One framework's settings in another's words: the subcommand convert as a function, in rankmesh::convert.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rankmesh {

/// A framework whose settings are read and written.
struct FrameworkInfo {
    std::string_view name;
    std::string_view settings;  ///< whose settings these are
    std::string_view example;   ///< what a shell would take for them
    std::string_view version;   ///< of the original that was compared; empty where there is none
};

/// All of them, in the order of `rankmesh convert --help`.
///
///     known_frameworks().front().name == "rankmesh"
std::vector<FrameworkInfo> known_frameworks();

/// Something that a framework cannot say, and why.
struct Loss {
    std::string what;
    std::string why;
};

/// The same with what is lost for one reason together.
std::vector<Loss> by_reason(const std::vector<Loss>& lost);

/// What `convert` returns, under the names that `rankmesh convert --json` has for it; `settings`, `text`,
/// `mesh_to` and `moved` are there or absent together.
struct Conversion {
    /// A call of the other framework's function.
    struct Call {
        std::string text;
        int moved = 0;  ///< how many ranks move with it
    };

    std::string from;
    std::string to;
    int ranks = 0;
    std::optional<std::string> settings;  ///< the other framework's, as a JSON object; absent: it has none
    std::optional<std::string> text;      ///< the same in its own syntax, to be pasted
    std::string mesh_from;                ///< the meshes of both, outermost axis first; the experts' after ;
    std::optional<std::string> mesh_to;
    std::optional<int> moved;                      ///< how many ranks get another number
    std::vector<std::pair<int, int>> first_moves;  ///< the first eight of them, from one rank to another
    std::vector<Loss> lost;                        ///< what the other framework cannot say
    std::optional<Call> call;                      ///< where fewer ranks move with it than with `settings`
};

/// Says the settings of one framework in another's words.
///
/// `words` are those behind `rankmesh convert`: key=value, flags, JSON or TOML, or the name of a file that
/// holds them, `-` for standard input. `world` is how many ranks there are, where the settings do not say it;
/// else a launcher may. Throws UsageError in the words of the command, whose --world is `world`.
///
///     auto mapping = convert("picotron", "tensorrt-llm", {"tp_size=2", "pp_size=2"});
///     EXPECT_EQ(mapping.text, "Mapping(world_size=4, tp_size=2, pp_size=2, cp_size=1)");
Conversion convert(std::string_view from, std::string_view to, const std::vector<std::string>& words,
                   std::optional<int> world = {});

/// The same with settings that are one text, such as a JSON object, and never the name of a file.
///
///     convert_text("torchtitan", "torch", R"({"tensor_parallel_degree": 2})", 8).moved == 0
Conversion convert_text(std::string_view from, std::string_view to, std::string_view text,
                        std::optional<int> world = {});

}  // namespace rankmesh
