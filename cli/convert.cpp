// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>

#include "frameworks.hpp"
#include "output.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

namespace of_convert {

struct Arguments {
    std::string from;
    std::string to;
    std::vector<std::string> settings;
    std::optional<int> world;
    bool json = false;
    bool quiet = false;
};

std::string moves_of(const Comparison& comparison, int size) {
    if (comparison.moved == 0) return "# no rank moves\n";
    auto text = fmt::format("# {} of {} ranks move: ", comparison.moved, size);
    auto separator = "";
    for (const auto& [from, to] : comparison.first) {
        text += fmt::format("{}{} → {}", separator, from, to);
        separator = ", ";
    }
    const auto more = comparison.moved - static_cast<int>(comparison.first.size());
    return text + (more > 0 ? fmt::format(", … {} more\n", more) : "\n");
}

/// What is to be said of the settings: how ranks move, and what is lost.
std::string notes_of(const Arrangement& from, const Expressed& expressed, std::string_view to) {
    auto text = std::string{};
    if (expressed.back) {
        const auto size = from.dense().size();
        text = fmt::format("# {} → {}\n", to_string(from), to_string(*expressed.back)) +
               moves_of(expressed.comparison, size);
        if (const auto& call = expressed.call)
            text += call->moved == 0
                        ? fmt::format("# no rank would move with {}\n", call->text)
                        : fmt::format("# {} of {} would move with {}\n", call->moved, size, call->text);
    } else {
        text = fmt::format("# {} cannot be said in {}\n", to_string(from), to);
    }
    for (const auto& loss : by_reason(expressed.comparison.lost))
        text += fmt::format("# lost: {}: {}\n", loss.what, loss.why);
    return text;
}

/// The settings go to standard output, and nothing else, so that they can be piped and kept in a file.
void print_text(const Arrangement& from, const Expressed& expressed, std::string_view to, bool quiet,
                Output& output) {
    if (expressed.document) output.print("{}\n", expressed.document->text);
    if (quiet && expressed.document) return;
    output.flush();
    std::cerr << notes_of(from, expressed, to);
}

void print_json(const Arguments& arguments, const Arrangement& from, const Expressed& expressed,
                Output& output) {
    const auto& comparison = expressed.comparison;
    auto out = Json{{"from", arguments.from}, {"to", arguments.to}, {"ranks", from.dense().size()}};
    out["settings"] = expressed.document ? expressed.document->values : Json();
    out["text"] = expressed.document ? Json(expressed.document->text) : Json();
    out["mesh_from"] = to_string(from);
    out["mesh_to"] = expressed.back ? Json(to_string(*expressed.back)) : Json();
    out["moved"] = expressed.back ? Json(comparison.moved) : Json();
    out["first_moves"] = comparison.first;
    out["lost"] = Json::array();
    for (const auto& loss : comparison.lost) out["lost"].push_back({{"what", loss.what}, {"why", loss.why}});
    output.print("{}\n", out.dump());
}

int run(const Arguments& arguments, Output& output) {
    if (arguments.from.empty())
        throw UsageError("rankmesh convert needs --from FRAMEWORK; see rankmesh convert --help");
    if (arguments.to.empty())
        throw UsageError("rankmesh convert needs --to FRAMEWORK; see rankmesh convert --help");
    const auto& from = framework_named(arguments.from, "--from");
    const auto& to = framework_named(arguments.to, "--to");
    const auto given = read_all(from, Settings::read(from.name, arguments.settings), arguments.world);
    const auto expressed = express(to, given);
    if (arguments.json)
        print_json(arguments, given, expressed, output);
    else
        print_text(given, expressed, to.name, arguments.quiet, output);
    return expressed.document && expressed.comparison.lost.empty() ? 0 : 1;
}

std::string footer() {
    auto text = std::string("Frameworks, and settings that each reads:\n");
    for (const auto& framework : frameworks())
        text +=
            fmt::format("  {:<17} {}\n  {:<17} {}\n", framework.name, framework.of, "", framework.example);
    return text +
           "\nSETTINGS are flags behind --, key=value words, JSON or TOML, the name of a file that holds one "
           "of them,\nor - for standard input; behind a file or JSON more words may follow. The other "
           "framework's settings go\nto standard output, how ranks move to standard error. Exit status 1: "
           "something cannot be said in the\nother framework.\n\n"
           "Example:\n  rankmesh convert --from picotron --to torchtitan tp_size=2 pp_size=2 dp_size=2";
}

}  // namespace of_convert

Subcommand convert() {
    const auto arguments = std::make_shared<of_convert::Arguments>();
    return {
        .name = "convert",
        .help = "Say one framework's settings in another's words.",
        .options = {{"SETTINGS", "the framework's own settings, such as tp_size=2 dp_size=4",
                     &arguments->settings},
                    {"--from", "whose settings these are", &arguments->from, "FRAMEWORK"},
                    {"--to", "whose settings to print", &arguments->to, "FRAMEWORK"},
                    world_option(arguments->world, "ranks in the world, where the settings do not say it"),
                    {"--quiet", "print the settings alone, without how ranks move", &arguments->quiet},
                    {"--json", "print JSON, as docs/json.md says", &arguments->json}},
        .run = [arguments](Output& output) { return of_convert::run(*arguments, output); },
        .footer = of_convert::footer(),
        .unknown_option_hint = "; flags of a framework stand behind --"};
}

}  // namespace rankmesh::cli
