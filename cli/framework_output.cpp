// SPDX-License-Identifier: Apache-2.0
#include "framework_output.hpp"

#include <algorithm>
#include <array>

#include <rankmesh/view/terms.hpp>

#include "json_stream.hpp"
#include "output.hpp"

namespace rankmesh::cli {

using detail::counted;

namespace {

std::string brief(const std::vector<int>& ranks, std::size_t width) {
    return ranks.empty() ? "-" : view::brief(view::first_terms(ranks, 0, width), std::ssize(ranks), width);
}

std::string plain(const Json& value) {
    if (value.is_null()) return "None";
    if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
    if (value.is_string()) return value.get<std::string>();
    if (value.is_object()) return "error: " + value["error"].get<std::string>();
    return value.dump();
}

std::size_t size_of_first(const GroupKind& kind) { return kind.count > 0 ? kind.group(0).size() : 0; }

}  // namespace

Option as_option(std::string& as) {
    auto names = std::vector<std::string>{};
    for (const auto name : conversion::names_with_words()) names.emplace_back(name);
    return {"--as", "use the names and groups of a framework: " + joined(names, ", "), &as, "FRAMEWORK", {},
            names};
}

void print_rank(const Words& words, int rank, const std::optional<Cluster>& cluster, bool json,
                Output& output) {
    const auto answers = words.answers(rank);
    if (json) {
        auto groups = Json::object();
        for (const auto& kind : words.kinds) {
            const auto own = kind.of(rank);
            groups[kind.name] = own.empty() ? Json() : Json(own);
        }
        auto out = Json{{"mesh", to_string(words.mesh)},
                        {"as", words.framework},
                        {"rank", rank},
                        {"answers", answers},
                        {"groups", groups}};
        if (cluster) out["host"] = json_of_host(*cluster, rank);
        if (const auto name = cluster ? host_name(*cluster, rank) : std::nullopt) out["host_name"] = *name;
        output.print("{}\n", out.dump());
        return;
    }
    auto width = std::size_t{0};
    for (const auto& [name, value] : answers.items()) width = std::max(width, name.size());
    for (const auto& kind : words.kinds) width = std::max(width, kind.name.size());
    output.print("rank {} of {}, as {}\n\n", rank, to_string(words.mesh), words.framework);
    if (cluster) output.print("  {:<{}}  {}\n", "host", width, host_text(*cluster, rank));
    for (const auto& [name, value] : answers.items())
        output.print("  {:<{}}  {}\n", name, width, plain(value));
    output.write("\n");
    for (const auto& kind : words.kinds)
        output.print("  {:<{}}  {}\n", kind.name, width, brief(kind.of(rank), 120));
}

void print_groups(const Words& words, const std::vector<GroupKind>& kinds, bool json, Output& output) {
    if (!json) {
        for (const auto& kind : kinds) {
            output.print("# {}: {} of {}\n", kind.name, counted(kind.count, "group"),
                         counted(size_of_first(kind), "rank"));
            for (int i = 0; i < kind.count; ++i) output.print("{}\n", ranks_to_string(kind.group(i)));
        }
        return;
    }
    auto out = JsonStream(output);
    out.object();
    out.add("mesh", to_string(words.mesh));
    out.add("as", words.framework);
    out.array("kinds", ",\n");
    for (const auto& kind : kinds) {
        out.object();
        out.add("name", kind.name);
        out.array("groups");
        for (int i = 0; i < kind.count; ++i) out.list({}, kind.group(i));
        out.end();
        out.end();
    }
    out.end();
    out.end();
}

void print_kinds(const Words& words, int rank, int width, Output& output) {
    auto rows = std::vector<std::vector<std::string>>{
        {words.framework, "groups", "ranks", fmt::format("group of rank {}", rank)}};
    auto widths = std::array<std::size_t, 3>{};
    for (const auto& kind : words.kinds)
        rows.push_back({kind.name, std::to_string(kind.count), std::to_string(size_of_first(kind)), {}});
    for (const auto& row : rows)
        for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    const auto used = static_cast<int>(widths[0] + widths[1] + widths[2]) + 7;
    const auto room = static_cast<std::size_t>(std::max(width - used, 36));
    for (std::size_t i = 1; i < rows.size(); ++i) rows[i][3] = brief(words.kinds[i - 1].of(rank), room);
    output.print("\n{}", table(rows, 1, 1, 1));
}

Json json_of_kinds(const Words& words, int rank) {
    auto kinds = Json::array();
    for (const auto& kind : words.kinds) {
        const auto own = kind.of(rank);
        kinds.push_back({{"name", kind.name},
                         {"groups", kind.count},
                         {"ranks", size_of_first(kind)},
                         {"group", own.empty() ? Json() : Json(brief(own, 120))}});
    }
    return kinds;
}

namespace of_frameworks {

struct Arguments {
    bool json = false;
};

int run(const Arguments& arguments, Output& output) {
    const auto all = known_frameworks();
    if (arguments.json) {
        auto list = Json::array();
        for (const auto& one : all)
            list.push_back({{"name", one.name},
                            {"version", one.version},
                            {"settings", one.settings},
                            {"example", one.example}});
        output.print("{}\n", list.dump());
        return 0;
    }
    auto rows = std::vector<std::vector<std::string>>{};
    for (const auto& one : all)
        rows.push_back({std::string(one.name), one.version.empty() ? "-" : std::string(one.version),
                        std::string(one.settings)});
    output.write(table(rows, 3, 0));
    return 0;
}

}  // namespace of_frameworks

Subcommand frameworks() {
    const auto arguments = std::make_shared<of_frameworks::Arguments>();
    return {.name = "frameworks",
            .help = "List the supported frameworks, their versions and their settings.",
            .options = {{"--json", "print JSON; docs/json.md describes it", &arguments->json}},
            .run = [arguments](Output& output) { return of_frameworks::run(*arguments, output); },
            .group = Group::plan,
            .examples = {"rankmesh frameworks"},
            .notes = "Settings and groups match this version of each framework."};
}

}  // namespace rankmesh::cli
