// SPDX-License-Identifier: Apache-2.0
#include "topology.hpp"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <limits>

#include <rankmesh/core/detail/number.hpp>

#include "cluster/read/read.hpp"
#include "convert/words.hpp"
#include "formats/text.hpp"
#include "output.hpp"

namespace rankmesh::cli {

std::vector<Option> Common::options(std::vector<Option> more) {
    auto all = std::vector<Option>{{"MESH", "the mesh, such as 'pp=4 dp=8 tp=8'; one size may be '*'", &mesh},
                                   world_option(world, "number of ranks, for a size '*'"),
                                   {"--json", "print JSON; docs/json.md describes it", &json}};
    std::ranges::move(more, std::back_inserter(all));
    return all;
}

void print_json(const Job& job, const char* key, const Json::Array& list, Output& output) {
    output.print("{}\n", (list.size() == 1 ? list[0] : Json{{"mesh", to_string(job)}, {key, list}}).dump());
}

Option world_option(std::optional<int>& world, std::string help) {
    return {"--world", std::move(help), &world, "N",
            Option::Range{1, std::numeric_limits<int>::max(), false}};
}

Job Common::job(const std::optional<Cluster>& machines) const {
    const auto devices = machines ? std::optional(machines->size()) : std::nullopt;
    auto parsed = conversion::parse_job(mesh, world, devices);
    if (world) conversion::check_within(to_string(parsed), parsed.extent() - 1, *world, world_source);
    return parsed;
}

Placement Common::placement(const std::optional<Cluster>& machines) const {
    const auto all = job(machines);
    if (const auto* only = all.single()) return *only;
    throw UsageError(
        detail::cat(detail::in_quotes(mesh),
                    " has several meshes, but this subcommand takes one; give one of them alone, such as ",
                    detail::in_quotes(to_string(all.parts[0].front())),
                    " (show, draw, diff, rank, groups and check take several)"));
}

std::vector<std::string> axis_names(std::string_view text, std::string_view what) {
    if (text.find_first_of(" \t\n") != std::string_view::npos) {
        const auto words = formats::words_of(text, " \t\n,");
        const auto list = joined({words.begin(), words.end()}, ",");
        throw UsageError(detail::cat(what, " ", detail::in_quotes(text),
                                     " contains a blank; separate axes by commas",
                                     list.empty() ? "" : detail::cat(": ", detail::excerpt(list))));
    }
    auto names = std::vector<std::string>{};
    for (const auto name : formats::split(text, ',')) {
        if (name.empty()) throw UsageError(detail::cat(what, " has an empty name; list axes such as dp,tp"));
        names.emplace_back(name);
    }
    return names;
}

std::optional<Cluster> cluster_of(const std::optional<std::string>& text, std::string_view from) {
    if (!text) return std::nullopt;
    auto note = std::string{};
    auto cluster = cluster_files::read_argument(*text, from, &note);
    if (!note.empty()) std::cerr << folded_if_known("note: " + note) << '\n';
    return cluster;
}

void check_device(const Cluster& cluster, int rank) {
    if (rank >= cluster.size())
        throw UsageError(fmt::format("rank {} has no device: cluster {} has {}, for ranks 0..{}", rank,
                                     to_string(cluster), cluster.size(), cluster.size() - 1));
}

Json json_of_host(const Cluster& cluster, int rank) {
    auto host = Json::object();
    const auto path = cluster.path(rank);
    for (int i = 0; i < path.size(); ++i) host[std::string(path.name(i))] = path[AxisId{i}];
    return host;
}

int number_or_coordinate(const Placement& placement, const std::string& text) {
    if (text.find('=') != std::string::npos) {
        const auto coordinate = Coordinate::parse(text);
        return placement.rank(coordinate);
    }
    const auto rank = detail::number_in(text);
    if (!rank)
        throw UsageError(
            detail::cat(detail::in_quotes(text),
                        " is not a rank; give a number such as 67, or a coordinate such as pp=1,dp=0,tp=3"));
    return *rank;
}

int rank_of(const Placement& placement, const std::string& text) {
    const auto rank = number_or_coordinate(placement, text);
    check_rank(placement, rank);
    return rank;
}

bool has_axes(const Placement& placement, const std::vector<std::string>& names) {
    return std::ranges::all_of(names,
                               [&](const auto& name) { return placement.mesh().find(name).has_value(); });
}

std::vector<Placement> meshes_with(const Job& job, const std::vector<std::string>& names) {
    auto found = job.meshes();
    std::erase_if(found, [&](const auto& mesh) { return !has_axes(mesh, names); });
    if (!found.empty()) return found;
    if (const auto* only = job.single())
        for (const auto& name : names) static_cast<void>(only->mesh().axis(name));  // one throws
    throw UsageError(detail::cat("no mesh of ", to_string(job), " has the axes ", joined(names, ",")));
}

Placement mesh_with(const Job& job, const std::vector<std::string>& names) {
    const auto found = meshes_with(job, names);
    if (found.size() == 1) return found[0];
    throw UsageError(detail::cat("the meshes ", to_string(found[0]), " and ", to_string(found[1]),
                                 " both have the axes ", joined(names, ","), "; give one of them alone"));
}

int rank_of(const Job& job, const std::string& text) {
    if (const auto* only = job.single()) return rank_of(*only, text);
    auto names = std::vector<std::string>{};
    if (text.find('=') == std::string::npos) {
        const auto rank = number_or_coordinate(job.parts[0].front(), text);
        static_cast<void>(job.part_of(rank));
        return rank;
    }
    const auto coordinate = Coordinate::parse(text);
    for (int i = 0; i < coordinate.size(); ++i) names.emplace_back(coordinate.name(i));
    return rank_of(mesh_with(job, names), text);
}

void check_rank(const Placement& placement, int rank) { static_cast<void>(placement.coord(rank)); }

void check_within(const Placement& placement, int world, const std::string& source) {
    conversion::check_within(to_string(placement), placement.extent() - 1, world, source);
}

}  // namespace rankmesh::cli
