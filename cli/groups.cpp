// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <rankmesh/view/terms.hpp>

#include "framework_output.hpp"
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

std::vector<std::string> names_of(const Mesh& mesh, AxisSet axes) {
    auto names = std::vector<std::string>{};
    for (int a = 0; a < mesh.axis_count(); ++a)
        if (axes.contains(AxisId{a})) names.emplace_back(mesh.name(AxisId{a}));
    return names;
}

void print_text(const Placement& placement, AxisSet axes, Output& output) {
    const auto partition = placement.mesh().partition(axes);
    const auto run = view::run_along(placement, axes);
    output.print("# {} of {} along {} of {}\n", detail::counted(partition.size(), "group"),
                 detail::counted(partition.group_size(), "rank"),
                 joined(names_of(placement.mesh(), axes), ","), to_string(placement));
    for (const auto& group : partition) {
        auto separator = "{";
        view::for_each_term(placement.of(group), run, [&](const view::Term& term) {
            output.print("{}{}", separator, to_string(term));
            separator = ", ";
            return true;
        });
        output.write("}\n");
    }
}

void print_json(const Placement& placement, AxisSet axes, Output& output) {
    auto json = JsonStream(output);
    json.object();
    json.add("mesh", to_string(placement));
    json.add("axes", names_of(placement.mesh(), axes));
    json.array("groups", ",\n");
    for (const auto& group : placement.mesh().partition(axes)) json.list({}, placement.of(group));
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
    const auto names = axis_names(arguments.axes, "AXES");
    const auto placement = mesh_with(arguments.job(), names);
    auto axes = AxisSet{};
    for (const auto& name : names) axes.insert(placement.mesh().axis(name));
    if (arguments.json)
        print_json(placement, axes, output);
    else
        print_text(placement, axes, output);
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
