// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <ranges>

#include <rankmesh/view/terms.hpp>

#include "dialect_output.hpp"
#include "json_stream.hpp"
#include "output.hpp"
#include "subcommand.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

namespace of_groups {

constexpr auto axes_help = "axes such as dp,tp, in any order";

struct Arguments : Common {
    std::string axes;
    std::string as;
};

/// Reads `dp,tp`. Throws UsageError for an empty or unknown name.
AxisSet axes_of(const Mesh& mesh, std::string_view text) {
    auto set = AxisSet{};
    for (const auto& name : axis_names(text, "AXES")) set.insert(mesh.axis(name));
    return set;
}

std::vector<std::string> names_of(const Mesh& mesh, AxisSet axes) {
    auto names = std::vector<std::string>{};
    for (int a = 0; a < mesh.axis_count(); ++a)
        if (axes.contains(AxisId{a})) names.emplace_back(mesh.name(AxisId{a}));
    return names;
}

/// Visits the ranks of every group, in the order of the partition.
void for_each_group(const Mesh& mesh, AxisSet axes, const auto& visit) {
    for (const auto& group : mesh.partition(axes)) visit(group, view::run_along(mesh, axes));
}
void for_each_group(const Placement& placement, AxisSet axes, const auto& visit) {
    for (const auto& group : placement.mesh().partition(axes))
        visit(group | std::views::transform([&](int position) {
                  return placement.ranks()[static_cast<std::size_t>(position)];
              }),
              std::ptrdiff_t{0});
}

void print_text(const auto& topology, AxisSet axes, Output& output) {
    const auto partition = mesh_of(topology).partition(axes);
    output.print("# {} {} of {} {} along {} of {}\n", partition.size(),
                 partition.size() == 1 ? "group" : "groups", partition.group_size(),
                 partition.group_size() == 1 ? "rank" : "ranks",
                 joined(names_of(mesh_of(topology), axes), ","), to_string(topology));
    for_each_group(topology, axes, [&](const auto& group, std::ptrdiff_t run) {
        auto separator = "{";
        view::for_each_term(group, run, [&](const view::Term& term) {
            output.print("{}{}", separator, to_string(term));
            separator = ", ";
            return true;
        });
        output.write("}\n");
    });
}

void print_json(const auto& topology, AxisSet axes, Output& output) {
    auto json = JsonStream(output);
    json.object();
    json.add("mesh", to_string(topology));
    json.add("axes", names_of(mesh_of(topology), axes));
    json.array("groups", ",\n");
    for_each_group(topology, axes, [&](const auto& group, std::ptrdiff_t) { json.list({}, group); });
    json.end();
    json.end();
}

int run(const Arguments& arguments, Output& output) {
    if (!arguments.as.empty()) {
        const auto words = in_words(arguments.as, arguments.mesh, arguments.world);
        print_groups(words, words.kinds_named(arguments.axes), arguments.json, output);
        return 0;
    }
    if (arguments.axes.empty())
        throw UsageError(fmt::format("missing argument AXES: {}; see rankmesh groups --help", axes_help));
    std::visit(
        [&](const auto& topology) {
            const auto axes = axes_of(mesh_of(topology), arguments.axes);
            if (arguments.json)
                print_json(topology, axes, output);
            else
                print_text(topology, axes, output);
        },
        arguments.topology());
    return 0;
}

}  // namespace of_groups

Subcommand groups() {
    const auto arguments = std::make_shared<of_groups::Arguments>();
    return {
        .name = "groups",
        .help = "List all groups along a set of axes, one per line.",
        .options = arguments->options(
            {{"AXES", std::string(of_groups::axes_help) + "; with --as, names of groups; default: all groups",
              &arguments->axes},
             as_option(arguments->as)}),
        .run = [arguments](Output& output) { return of_groups::run(*arguments, output); },
        .examples = {"rankmesh groups 'pp=4 dp=8 tp=8' dp,tp",
                     "rankmesh groups 'dp=2 pp=2 cp=2 tp=2' --as picotron cp_dp_group"},
        .optional_positional = "AXES"};
}

}  // namespace rankmesh::cli
