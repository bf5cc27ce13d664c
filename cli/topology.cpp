// SPDX-License-Identifier: Apache-2.0
#include "topology.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/engine/launcher.hpp>

#include "cluster/read/read.hpp"
#include "convert/words.hpp"

namespace rankmesh::cli {

namespace {

Placement parse(const std::string& text, std::optional<int> world, const std::optional<Cluster>& machines) {
    if (text.find("@[") != std::string::npos) return Placement::parse(text);
    if (text.find(';') != std::string::npos)
        throw UsageError(detail::cat("the mesh ", detail::in_quotes(text),
                                     " has a ';'. Here one mesh is needed: give the parts before and after "
                                     "the ';' one after the other; only convert and --as take both"));
    const auto spec = MeshSpec::parse(text);
    if (!spec.has_rest()) return spec.resolve();
    if (!world)
        if (const auto announced = announced_size()) world = announced->value;
    if (!world && machines) world = machines->size();
    if (!world)
        throw UsageError(detail::cat("mesh ", to_string(spec),
                                     " has a size '*', but neither --world nor a launcher gives the number "
                                     "of ranks; add --world N, or replace '*' by a number"));
    return spec.resolve(*world);
}

}  // namespace

std::vector<Option> Common::options(std::vector<Option> more) {
    auto all = std::vector<Option>{{"MESH", "the mesh, such as 'pp=4 dp=8 tp=8'; one size may be '*'", &mesh},
                                   world_option(world, "number of ranks, for a size '*'"),
                                   {"--json", "print JSON; docs/json.md describes it", &json}};
    std::ranges::move(more, std::back_inserter(all));
    return all;
}

Option world_option(std::optional<int>& world, std::string help) {
    return {"--world", std::move(help), &world, "N",
            Option::Range{1, std::numeric_limits<int>::max(), false}};
}

Placement Common::placement(const std::optional<Cluster>& machines) const {
    auto parsed = parse(mesh, world, machines);
    if (world) check_within(parsed, *world, world_source);
    return parsed;
}

namespace {

/// Returns the words of a text with commas between them.
std::string with_commas(std::string_view text) {
    constexpr auto separators = std::string_view(" \t\n,");
    auto list = std::string{};
    for (auto at = text.find_first_not_of(separators); at != std::string_view::npos;
         at = text.find_first_not_of(separators, at)) {
        const auto end = std::min(text.size(), text.find_first_of(separators, at));
        if (!list.empty()) list += ',';
        list += text.substr(at, end - at);
        at = end;
    }
    return list;
}

}  // namespace

std::vector<std::string> axis_names(std::string_view text, std::string_view what) {
    if (text.find_first_of(" \t\n") != std::string_view::npos) {
        const auto list = with_commas(text);
        throw UsageError(detail::cat(what, " ", detail::in_quotes(text),
                                     " contains a blank; separate axes by commas",
                                     list.empty() ? "" : detail::cat(": ", detail::excerpt(list))));
    }
    auto names = std::vector<std::string>{};
    while (true) {
        const auto comma = text.find(',');
        names.emplace_back(text.substr(0, comma));
        if (names.back().empty())
            throw UsageError(detail::cat(what, " has an empty name; list axes such as dp,tp"));
        if (comma == std::string_view::npos) return names;
        text.remove_prefix(comma + 1);
    }
}

std::optional<Cluster> cluster_of(const std::optional<std::string>& text) {
    return text ? std::optional(cluster_files::read_argument(*text)) : std::nullopt;
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

void check_rank(const Placement& placement, int rank) { static_cast<void>(placement.coord(rank)); }

void check_within(const Placement& placement, int world, const std::string& source) {
    conversion::check_within(to_string(placement), placement.extent() - 1, world, source);
}

}  // namespace rankmesh::cli
