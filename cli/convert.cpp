// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>

#include <rankmesh/convert/convert.hpp>
#include <rankmesh/core/name.hpp>

#include "output.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

namespace of_convert {

struct Arguments {
    std::string from;
    std::string to;
    std::vector<std::string> settings;
    std::string script;
    std::optional<int> world;
    bool json = false;
    bool quiet = false;
};

std::string moves_of(const Conversion& conversion) {
    const auto moved = *conversion.moved;
    if (moved == 0) return "# no rank moves\n";
    auto moves = std::vector<std::string>{};
    for (const auto& [from, to] : conversion.first_moves) moves.push_back(fmt::format("{} → {}", from, to));
    if (const auto more = moved - std::ssize(moves); more > 0)
        moves.push_back(fmt::format("… {} more", more));
    return fmt::format("# {} of {} ranks move: {}\n", moved, conversion.ranks, joined(moves, ", "));
}

/// Returns the notes on a conversion: how ranks move, and what is lost.
std::string notes_of(const Conversion& conversion) {
    auto text = std::string{};
    if (conversion.mesh_to) {
        text = fmt::format("# {} → {}\n", conversion.mesh_from, *conversion.mesh_to) + moves_of(conversion);
        if (const auto& call = conversion.call)
            text += call->moved == 0 ? fmt::format("# no rank would move with {}\n", call->text)
                                     : fmt::format("# {} of {} would move with {}\n", call->moved,
                                                   conversion.ranks, call->text);
    } else {
        text = fmt::format("# {} has no equivalent in {}\n", conversion.mesh_from, conversion.to);
    }
    for (const auto& note : conversion.notes) text += fmt::format("# note: {}\n", note);
    for (const auto& loss : by_reason(conversion.lost))
        text += fmt::format("# lost: {}: {}\n", loss.what, loss.why);
    return text;
}

/// Prints only the settings to standard output, because users pipe them or store them in a file.
void print_text(const Conversion& conversion, bool quiet, Output& output) {
    if (conversion.text) output.print("{}\n", *conversion.text);
    if (quiet && conversion.text) return;
    output.flush();
    std::cerr << notes_of(conversion);
}

void print_json(const Conversion& conversion, Output& output) {
    auto out = Json{{"from", conversion.from}, {"to", conversion.to}, {"ranks", conversion.ranks}};
    out["settings"] = conversion.settings ? Json::parse(*conversion.settings) : Json();
    out["text"] = conversion.text ? Json(*conversion.text) : Json();
    out["mesh_from"] = conversion.mesh_from;
    out["mesh_to"] = conversion.mesh_to ? Json(*conversion.mesh_to) : Json();
    out["moved"] = conversion.moved ? Json(*conversion.moved) : Json();
    out["first_moves"] = conversion.first_moves;
    out["lost"] = Json::array();
    for (const auto& loss : conversion.lost) out["lost"].push_back({{"what", loss.what}, {"why", loss.why}});
    out["notes"] = conversion.notes;
    out["call"] =
        conversion.call ? Json{{"text", conversion.call->text}, {"moved", conversion.call->moved}} : Json();
    output.print("{}\n", out.dump());
}

/// Throws UsageError for an option of convert among the framework's flags, which would be ignored.
void check_flags(const std::vector<std::string>& settings) {
    for (const auto& word : settings) {
        const auto flag = std::string_view(word).substr(0, word.find('='));
        for (const auto option : {"--from", "--to", "--world", "--quiet", "--json"})
            if (flag == option ||
                (flag.starts_with("--") && flag.size() > 4 && edit_distance(flag, option) == 1))
                throw UsageError(fmt::format(
                    "{} follows --, so it is a flag of the framework{}; put options of convert before --",
                    detail::in_quotes(flag),
                    flag == option ? "" : fmt::format(", which is near {}", option)));
    }
}

constexpr auto help_of_settings = "settings of the framework --from, such as tp_size=2 dp_size=4";

int run(const Arguments& arguments, Output& output) {
    if (arguments.settings.empty() && arguments.script.empty())
        throw UsageError(
            fmt::format("missing argument SETTINGS: {}; see rankmesh convert --help", help_of_settings));
    check_flags(arguments.settings);
    if (arguments.from.empty())
        throw UsageError("missing option --from FRAMEWORK; see rankmesh convert --help");
    if (arguments.to.empty()) throw UsageError("missing option --to FRAMEWORK; see rankmesh convert --help");
    auto settings = arguments.settings;  // those behind a script win
    if (!arguments.script.empty()) settings.insert(settings.begin(), arguments.script);
    const auto conversion = rankmesh::convert(arguments.from, arguments.to, settings, arguments.world);
    if (arguments.json)
        print_json(conversion, output);
    else
        print_text(conversion, arguments.quiet, output);
    return conversion.text && conversion.lost.empty() ? 0 : 1;
}

std::string notes() {
    auto text = std::string("Frameworks, and the settings of each:\n");
    for (const auto& framework : known_frameworks())
        text += fmt::format("  {:<17} {}\n  {:<17} {}\n", framework.name, framework.settings, "",
                            framework.example);
    return text +
           "SETTINGS are flags after --, key=value words, JSON, TOML, YAML, the command that starts the job, "
           "the name of a file that holds one of them, or - for standard input. More words may follow a file "
           "or JSON, and win.\n"
           "Standard output has the converted settings. Standard error has notes: the ranks that move, what "
           "the program must do itself, and the settings that are lost.\n"
           "Exit status 1: the framework --to has no equivalent for a setting.";
}

}  // namespace of_convert

Subcommand convert() {
    const auto arguments = std::make_shared<of_convert::Arguments>();
    return {
        .name = "convert",
        .help = "Convert settings between frameworks.",
        .options = {{"SETTINGS", of_convert::help_of_settings, &arguments->settings},
                    with_values(names_of(known_frameworks()),
                                {"--from", "the framework of SETTINGS", &arguments->from, "FRAMEWORK"}),
                    with_values(names_of(known_frameworks()),
                                {"--to", "the framework to convert to", &arguments->to, "FRAMEWORK"}),
                    {"--script", "a script that starts the job, of which nothing is run", &arguments->script,
                     "FILE"},
                    world_option(arguments->world, "number of ranks, if the settings do not say it"),
                    {"--quiet", "print only the settings, without notes on what changes", &arguments->quiet},
                    {"--json", "print JSON; docs/json.md describes it", &arguments->json}},
        .run = [arguments](Output& output) { return of_convert::run(*arguments, output); },
        .group = Group::plan,
        .examples =
            {"rankmesh convert --from picotron --to torchtitan tp_size=2 pp_size=2 dp_size=2",
             "rankmesh convert --from megatron --to torch --world 8 -- --tensor-model-parallel-size 2"},
        .notes = of_convert::notes(),
        .unknown_option_hint = "; put a framework's flags after --",
        .optional_positional = "SETTINGS"};
}

}  // namespace rankmesh::cli
