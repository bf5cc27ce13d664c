// SPDX-License-Identifier: Apache-2.0
#include "convert/words.hpp"

#include <algorithm>
#include <array>

#include <rankmesh/core/name.hpp>

namespace rankmesh::conversion {

using detail::cat;

std::vector<std::string_view> names_with_words() {
    auto names = std::vector<std::string_view>{};
    for (const auto& converter : converters())
        if (converter.words) names.push_back(converter.name);
    return names;
}

namespace {

const Converter& converter_with_words(std::string_view name) {
    for (const auto& converter : converters())
        if (converter.name == name) {
            if (converter.words) return converter;
            throw UsageError(cat(
                "--as has no group names of ", detail::in_quotes(name),
                ", which is for rankmesh convert only; one of: ", detail::with_commas(names_with_words())));
        }
    throw UsageError(unknown_framework("--as", name, names_with_words()));
}

Arrangement arrangement_of(std::string_view mesh, std::optional<int> world) {
    auto arrangement = arrangement_of(parse_job(mesh, world));
    if (!arrangement.job.parts.empty())
        throw UsageError(
            cat(to_string(arrangement), " has several layouts, but --as takes one; give one of them alone"));
    const auto& dense = arrangement.dense();
    if (world) check_within(to_string(dense), dense.extent() - 1, *world, "--world says");
    return arrangement;
}

}  // namespace

Words in_words(std::string_view name, std::string_view mesh, std::optional<int> world) {
    const auto& converter = converter_with_words(name);
    const auto arrangement = arrangement_of(mesh, world);
    const auto expressed = express(converter, arrangement, true);
    const auto& comparison = expressed.comparison;
    if (const auto lost = by_reason(comparison.lost); !lost.empty())
        throw Error(cat(to_string(arrangement), " has no equivalent in ", name, ": ", lost[0].what, ": ",
                        lost[0].why));
    if (comparison.moved > 0)
        throw Error(cat(name, " lays the same axes out as ", to_string(*expressed.back), ", where ",
                        comparison.moved, " of the ", arrangement.dense().size(), " ranks of ",
                        to_string(arrangement),
                        " stand elsewhere; give the mesh in that order, or see rankmesh convert"));
    auto words = converter.words(in_roles(arrangement), *expressed.document);
    words.framework = name;
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
            throw UsageError(cat(framework, " has no groups ", detail::in_quotes(name), " here; there are ",
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

}  // namespace rankmesh::conversion
