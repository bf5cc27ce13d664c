// SPDX-License-Identifier: Apache-2.0
#include "convert/words.hpp"

#include <algorithm>

#include <rankmesh/core/name.hpp>

#include "convert/rows.hpp"
#include "formats/text.hpp"

namespace rankmesh::conversion {

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
    const auto known = frameworks::known_names(kinds);
    for (const auto name : formats::split(names, ',')) {
        const auto found = std::ranges::find(kinds, name, &GroupKind::name);
        if (found == kinds.end())
            throw UsageError(cat(framework, " has no groups ", detail::in_quotes(name), " here; there are ",
                                 detail::with_commas(known), did_you_mean(name, known)));
        named.push_back(*found);
    }
    return named;
}

void check_within(const std::string& topology, int last_rank, int world, const std::string& source) {
    if (last_rank >= world)
        throw UsageError(cat("mesh ", topology, " reaches rank ", last_rank, ", but ", source, " ", world,
                             world == 1 ? " rank" : " ranks"));
}

namespace {

/// A part of a mesh as its dimensions and its ranks: `dp=2 cp=2 {0, 2, 4, 6}`.
std::string described(const frameworks::DeviceMesh& part) {
    const auto names = part.mesh_dim_names().value_or(std::vector<std::string>{});
    const auto shape = part.shape();
    auto text = std::string{};
    for (std::size_t i = 0; i < names.size(); ++i) text += cat(names[i], "=", shape[i], " ");
    return text + to_string(part.mesh());
}

/// True for what is one value of a rank, and no variable that repeats a function's.
bool is_answer(const frameworks::AccessorRow& row) {
    if (row.name.starts_with('_') && row.name != "__str__") return false;
    const auto others = {frameworks::Quantity::group, frameworks::Quantity::group_list,
                         frameworks::Quantity::ranks, frameworks::Quantity::matrix,
                         frameworks::Quantity::mesh,  frameworks::Quantity::action};
    return std::ranges::find(others, row.quantity) == others.end() &&
           (row.quantity != frameworks::Quantity::device_mesh || row.options.empty()) &&
           std::ranges::none_of(row.options, &frameworks::Setting::needed);
}

}  // namespace

Json json_of(const frameworks::Value& value) {
    return std::visit(
        [](const auto& each) {
            using Each = std::decay_t<decltype(each)>;
            if constexpr (std::is_same_v<Each, std::monostate>) {
                return Json();
            } else if constexpr (std::is_same_v<Each, std::vector<frameworks::DeviceMesh>>) {
                auto texts = std::vector<std::string>{};
                for (const auto& mesh : each) texts.push_back(described(mesh));
                return texts.size() == 1 ? Json(texts.front()) : Json(texts);
            } else {
                return Json(each);
            }
        },
        value);
}

Words words_of(const frameworks::Groups& groups) {
    const auto& rows = frameworks::Access::framework(groups);
    auto calls = std::vector<frameworks::Call>{};
    for (const auto& row : rows.accessors)
        if (is_answer(row))
            calls.push_back({row.name == "__str__" ? cat("str(", rows.variable, ")")
                             : row.called          ? row.name + "()"
                                                   : row.name,
                             row.name,
                             {}});
    if (rows.calls)
        for (auto& call : rows.calls(frameworks::Access::given(groups))) calls.push_back(std::move(call));
    const auto answers = [groups, calls](int rank) {
        const auto state = frameworks::State(groups, rank);
        auto said = Json::object();
        for (const auto& call : calls) {
            try {
                said[call.text] = json_of(state.ask(call.accessor, call.options));
            } catch (const UsageError& error) {
                said[call.text] = {{"error", error.what()}};
            }
        }
        return said;
    };
    auto in_words = Words{.mesh = groups.mesh(), .kinds = {}, .answers = answers};
    for (const auto& kind : groups.kinds()) {
        if (groups.is_on_host(kind)) continue;
        const auto row = std::ranges::find(rows.kinds, kind, &frameworks::KindRow::name);
        in_words.kinds.push_back({.name = row == rows.kinds.end() || row->shown.empty() ? kind : row->shown,
                                  .count = groups.count(kind),
                                  .group = [groups, kind](int i) { return list_of(groups.group(kind, i)); },
                                  .of = [groups, kind](int rank) { return list_of(groups.of(kind, rank)); }});
    }
    return in_words;
}

}  // namespace rankmesh::conversion
