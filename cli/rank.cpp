// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>

#include <rankmesh/view/terms.hpp>

#include "framework_output.hpp"
#include "json_stream.hpp"
#include "output.hpp"
#include "subcommand.hpp"
#include "topology.hpp"

namespace rankmesh::cli {

namespace of_rank {

struct Arguments : Common {
    std::string rank;
    std::optional<std::string> on;
    std::string as;
};

AxisSet only(int axis) {
    auto set = AxisSet{};
    set.insert(AxisId{axis});
    return set;
}

std::string brief(const Placement& placement, int rank, int axis) {
    const auto group = placement.group(rank, only(axis));
    return view::brief(view::first_terms(group, view::run_along(placement, only(axis)), 16), group.size());
}

void print_text(const Placement& placement, int rank, const std::optional<Cluster>& cluster, Output& output) {
    const auto& mesh = placement.mesh();
    auto rows = std::vector<std::vector<std::string>>{{"axis", "index", "prev", "next", "group", ""}};
    for (int a = 0; a < mesh.axis_count(); ++a) {
        const auto axis = AxisId{a};
        const auto step = [&](int by) {
            const auto to = placement.neighbor(rank, axis, by);
            return to ? std::to_string(*to) : std::string("-");
        };
        const auto index = placement.index(rank, axis);
        const auto size = mesh.size(axis);
        rows.push_back({std::string(mesh.name(axis)), fmt::format("{} of {}", index, size), step(-1),
                        step(+1), brief(placement, rank, a),
                        size == 1           ? "first and last"
                        : index == 0        ? "first"
                        : index == size - 1 ? "last"
                                            : ""});
    }

    output.print("rank {} of {}\n\n  at    {}\n", rank, to_string(placement),
                 to_string(placement.coord(rank)));
    if (cluster) output.print("  host  {}\n", host_text(*cluster, rank));
    output.print("\n{}", table(rows, 1, 2, 2));
}

void print_json(const Placement& placement, int rank, const std::optional<Cluster>& cluster,
                JsonStream& json) {
    const auto& mesh = placement.mesh();
    const auto for_each_axis = [&](std::string_view key, const auto& add) {
        json.object(key);
        for (int a = 0; a < mesh.axis_count(); ++a) add(mesh.name(AxisId{a}), AxisId{a});
        json.end();
    };
    json.object();
    json.add("mesh", to_string(placement));
    json.add("rank", rank);
    for_each_axis("coord", [&](auto name, AxisId axis) { json.add(name, placement.index(rank, axis)); });
    for_each_axis("groups",
                  [&](auto name, AxisId axis) { json.list(name, placement.group(rank, only(axis.index))); });
    for_each_axis("neighbors", [&](auto name, AxisId axis) {
        const auto step = [&](int by) {
            const auto to = placement.neighbor(rank, axis, by);
            return to ? Json(*to) : Json();
        };
        json.add(name, {{"prev", step(-1)}, {"next", step(+1)}});
    });
    if (cluster) json.add("host", json_of_host(*cluster, rank));
    if (const auto name = cluster ? host_name(*cluster, rank) : std::nullopt) json.add("host_name", *name);
    json.end();
}

/// Returns the mesh of a rank's coordinate: the user's mesh, unless the coordinate has axes that only the
/// framework has.
const Mesh& named_by(const Words& words, std::string_view rank) {
    if (rank.find('=') == std::string_view::npos) return words.mesh;
    const auto coordinate = Coordinate::parse(rank);
    const auto all_in = [&](const Mesh& mesh) {
        for (int i = 0; i < coordinate.size(); ++i)
            if (!mesh.find(coordinate.name(i))) return false;
        return true;
    };
    return !all_in(*words.given) && all_in(words.mesh) ? words.mesh : *words.given;
}

/// Prints the rank in each mesh of its part.
void print(const Job& job, int rank, const std::optional<Cluster>& cluster, bool in_json, Output& output) {
    const auto p = job.part_of(rank);
    const auto& meshes = job.parts[p].meshes;
    if (in_json) {
        auto json = JsonStream(output);
        if (job.single()) return print_json(meshes[0], rank, cluster, json);
        json.object();
        json.add("mesh", to_string(job));
        json.add("rank", rank);
        json.add("part", p + 1);
        json.array("meshes");
        for (const auto& mesh : meshes) print_json(mesh, rank, cluster, json);
        json.end();
        json.end();
        return;
    }
    if (job.parts.size() > 1) output.print("rank {} is in part {} of {}\n\n", rank, p + 1, to_string(job));
    for (const auto& mesh : meshes) {
        output.write(&mesh == &meshes[0] ? "" : "\n");
        print_text(mesh, rank, cluster, output);
    }
}

int run(const Arguments& arguments, Output& output) {
    const auto words = arguments.as.empty()
                           ? std::nullopt
                           : std::optional(in_words(arguments.as, arguments.mesh, arguments.world));
    const auto cluster = cluster_of(arguments.on);
    const auto job = words ? Job{{{{Placement(named_by(*words, arguments.rank))}}}} : arguments.job(cluster);
    const auto rank = rank_of(job, arguments.rank);
    if (cluster) check_device(*cluster, rank);
    if (words)
        print_rank(*words, rank, cluster, arguments.json, output);
    else
        print(job, rank, cluster, arguments.json, output);
    return 0;
}

}  // namespace of_rank

Subcommand rank() {
    const auto arguments = std::make_shared<of_rank::Arguments>();
    return {
        .name = "rank",
        .help = "Show the coordinate, groups and neighbours of a rank.",
        .options = arguments->options(
            {{"R", "a rank number, or a coordinate such as pp=1,dp=0,tp=3", &arguments->rank},
             {"--on", "the cluster, such as 'node:32 gpu:8', or a file", &arguments->on, "CLUSTER"},
             as_option(arguments->as)}),
        .run = [arguments](Output& output) { return of_rank::run(*arguments, output); },
        .examples = {"rankmesh rank 'pp=4 dp=8 tp=8' 67", "rankmesh rank 'pp=4 dp=8 tp=8' pp=1,dp=0,tp=3"}};
}

}  // namespace rankmesh::cli
