// SPDX-License-Identifier: Apache-2.0
#include "convert/words.hpp"

#include <algorithm>
#include <array>

#include <rankmesh/core/name.hpp>
#include <rankmesh/engine/launcher.hpp>

namespace rankmesh::conversion {

using detail::cat;

std::vector<std::string_view> dialect_names() {
    auto names = std::vector<std::string_view>{};
    for (const auto& framework : frameworks())
        if (framework.words) names.push_back(framework.name);
    return names;
}

namespace {

const Framework& dialect_named(std::string_view name) {
    for (const auto& framework : frameworks())
        if (framework.name == name) {
            if (framework.words) return framework;
            throw UsageError(
                cat("--as has no group names of ", detail::in_quotes(name),
                    ", which is for rankmesh convert only; one of: ", detail::with_commas(dialect_names())));
        }
    throw UsageError(unknown_framework("--as", name, dialect_names()));
}

Arrangement arrangement_of(std::string_view mesh, std::optional<int> world) {
    const auto announced = world ? std::nullopt : announced_size();
    auto arrangement = parse_arrangement(mesh, announced ? announced->value : world);
    const auto& dense = arrangement.dense();
    if (world) check_within(to_string(dense), dense.extent() - 1, *world, "--world says");
    return arrangement;
}

}  // namespace

Words in_words(std::string_view name, std::string_view mesh, std::optional<int> world) {
    const auto& dialect = dialect_named(name);
    const auto arrangement = arrangement_of(mesh, world);
    const auto expressed = express(dialect, arrangement, true);
    const auto& comparison = expressed.comparison;
    if (const auto lost = by_reason(comparison.lost); !lost.empty())
        throw Error(cat(to_string(arrangement), " has no equivalent in ", name, ": ", lost[0].what, ": ",
                        lost[0].why));
    if (comparison.moved > 0)
        throw Error(cat(name, " lays the same axes out as ", to_string(*expressed.back), ", where ",
                        comparison.moved, " of the ", arrangement.dense().size(), " ranks of ",
                        to_string(arrangement),
                        " stand elsewhere; give the mesh in that order, or see rankmesh convert"));
    auto words = dialect.words(in_roles(arrangement), *expressed.document);
    words.dialect = name;
    words.given = arrangement.dense();
    return words;
}

std::vector<GroupKind> Words::kinds_named(const std::string& names) const {
    if (names.empty()) return kinds;
    auto named = std::vector<GroupKind>{};
    auto known = std::vector<std::string_view>{};
    for (const auto& kind : kinds) known.push_back(kind.name);
    for (std::size_t begin = 0; begin != std::string::npos;) {
        const auto end = names.find(',', begin);
        const auto name = names.substr(begin, end - begin);
        const auto found = std::ranges::find(kinds, name, &GroupKind::name);
        if (found == kinds.end())
            throw UsageError(cat(dialect, " has no groups ", detail::in_quotes(name), " here; there are ",
                                 detail::with_commas(known), did_you_mean(name, known)));
        named.push_back(*found);
        begin = end == std::string::npos ? end : end + 1;
    }
    return named;
}

void check_within(const std::string& topology, int last_rank, int world, const std::string& source) {
    if (last_rank >= world)
        throw UsageError(cat("mesh ", topology, " reaches rank ", last_rank, ", but ", source, " ", world,
                             world == 1 ? " rank" : " ranks"));
}

GroupKind kind_along(std::string name, const Mesh& mesh, AxisSet axes) {
    const auto groups = mesh.partition(axes);
    return {.name = std::move(name),
            .count = groups.size(),
            .group = [groups](int i) { return list_of(groups[i]); },
            .of = [mesh, axes](int rank) { return list_of(mesh.group(rank, axes)); }};
}

GroupKind kind_picked(std::string name, const Mesh& mesh, AxisSet axes, std::vector<int> positions) {
    const auto groups = mesh.partition(axes);
    return {.name = std::move(name),
            .count = groups.size(),
            .group = [groups, positions](int i) { return list_of(groups[i].pick(positions)); },
            .of =
                [mesh, axes, positions](int rank) {
                    const auto picked = mesh.group(rank, axes).pick(positions);
                    return picked.contains(rank) ? list_of(picked) : std::vector<int>{};
                }};
}

}  // namespace rankmesh::conversion
