// SPDX-License-Identifier: Apache-2.0
#include "frameworks/kinds.hpp"

#include <functional>

#include <rankmesh/core/detail/layout_parts.hpp>
#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/name.hpp>

namespace rankmesh::frameworks {

/// The ranks of a period from its first; `sorted`: ascending.
Layout Kind::along(bool sorted) const {
    auto digits = std::vector<Digit>{};
    for (int k = inside; k < listed.digit_count(); ++k) digits.push_back(listed.digit(k));
    if (sorted) std::ranges::sort(digits, std::greater(), &Digit::stride);
    auto along = Layout{};
    for (const auto& digit : digits) along.append(digit);
    return along;
}
/// The ranks of a group from its first, where the group ends between digits.
std::optional<Layout> Kind::run() const {
    if (has_shorter()) return std::nullopt;
    auto parts = detail::LayoutParts(listed);
    return parts.next(listed.size() / size) ? parts.next(size) : std::nullopt;
}
/// A group as the ranks are listed, every `step`th of them.
GroupPart Kind::listed_group(int number) const {
    return {Group(base, listed), number / step * size * step + number % step, step, size, placed};
}
GroupPart Kind::group(int number) const {
    if (step > 1) return listed_group(number);
    const auto first = number % parts() * size;
    const auto begin = number / parts() * period;
    const auto run = size == period ? std::nullopt : this->run();
    if (size != period && !run)
        return {Group(base + listed.offset_of(begin), along()), first, 1, std::min(size, period - first),
                placed};
    const auto group = Group(base + listed.offset_of(begin + first), run ? *run : along());
    if (at.empty()) return {group, 0, 1, size, placed};
    const auto picked = group.pick(at);
    return {picked, 0, 1, picked.size(), placed};
}

std::optional<GroupPart> Kind::listed_of(int rank) const {
    const auto own = rank_on(placed, rank);
    const auto position = own ? listed.index_of(std::int64_t{*own} - base) : std::nullopt;
    if (!position) return std::nullopt;
    if (step > 1) return group(*position / (size * step) * step + *position % step);
    return group(*position / period * parts() + *position % period / size);
}
std::optional<GroupPart> Kind::of(int rank) const {
    auto own = listed_of(rank);
    if (!own || (!at.empty() && !own->contains(rank))) return std::nullopt;
    if (row->sorted) own = GroupPart(Group(own->front(), along(true)), 0, 1, size, placed);
    return own;
}

/// All ranks on one axis `whole`, those of a group ascending where a group has them so.
Mesh Kind::whole() const {
    auto digits = Layout{};
    for (int k = 0; k < inside; ++k) digits.push_back(listed.digit(k));
    const auto along = this->along(row->sorted);
    for (int k = 0; k < along.digit_count(); ++k) digits.push_back(along.digit(k));
    auto names = std::vector<std::string>{"first"};
    for (int k = 0; k < digits.digit_count(); ++k) names.push_back(cat("d", k));
    auto axes = std::vector<Axis>{{names[0], 1}};
    for (int k = 0; k < digits.digit_count(); ++k)
        axes.push_back({names[axes.size()], digits.digit(k).size, digits.digit(k).stride});
    const auto all = std::vector<std::string_view>(names.begin(), names.end());
    return Mesh(std::span<const Axis>(axes)).shifted(base).flatten(all, "whole");
}
Declaration Kind::declaration() const {
    auto declared = Declaration{.name = std::string(brief), .partial = partial};
    const auto ranks = row->apart || !at.empty() ? "ranks" : "group";
    auto parts = std::vector<Axis>{{"groups", count() / step}, {ranks, size}};
    if (step > 1) parts.push_back({"between", step});
    auto is_listed = placed || row->rising;
    try {
        if (!is_listed) declared.mesh = whole().split("whole", parts);
    } catch (const UsageError&) {  // a group does not end between the digits of the axes
        is_listed = true;
    }
    if (is_listed) {
        declared.mesh = Mesh{{"groups", count()}, {ranks, size}};
        for (int number = 0; number < count(); ++number) {
            const auto group = listed_group(number);
            declared.placed.insert(declared.placed.end(), group.begin(), group.end());
            if (row->rising) std::sort(declared.placed.end() - size, declared.placed.end());
        }
    }
    declared.axes = std::vector<std::string>{};
    if (!at.empty())
        declared.picks.push_back({ranks, at, "group"});
    else if (row->apart)
        declared.over.push_back(Axes(ranks).separate("group"));
    else
        declared.axes->emplace_back(ranks);
    return declared;
}

Kind kind_of(const KindRow& row, const Given& given, const Meshes& meshes) {
    auto text = std::string_view(row.groups);
    const auto* mesh = &meshes.front().second;
    if (const auto colon = text.find(':'); colon != std::string_view::npos) {
        for (const auto& [name, one] : meshes)
            if (name == text.substr(0, colon)) mesh = &one;
        text.remove_prefix(colon + 1);
    }
    const auto slash = std::min(text.find('/'), text.size());
    const auto axes = text.substr(0, slash);
    const auto has_rest = axes.find('*') != std::string_view::npos;
    auto named = AxisSet{}, along = AxisSet{}, seen = AxisSet{};
    const auto axis_of = [&](std::string_view word) {  // throws for an unknown one
        return has_rest ? mesh->find(word) : std::optional(mesh->axis(word));
    };
    each_word(axes, [&](std::string_view word) {
        if (has_rest && word != "*" && word != "|")
            if (const auto axis = axis_of(word)) named.insert(*axis);
    });
    auto kind = Kind{.row = &row,
                     .name = row.name,
                     .brief = row.brief.empty() ? row.name : row.brief,
                     .device = row.name,
                     .base = mesh->offset()};
    const auto list = [&](AxisId axis) {
        if (seen.contains(axis))
            throw UsageError(cat("groups '", row.name, "' list an axis twice: ", row.groups));
        seen.insert(axis);
        if (mesh->size(axis) == 1) return;
        const auto digits = mesh->layout(axis);
        for (int d = 0; d < digits.digit_count(); ++d) kind.listed.push_back(digits.digit(d));
    };
    const auto list_those = [&](auto is_one) {
        for (int a = 0; a < mesh->axis_count(); ++a)
            if (is_one(AxisId{a})) list(AxisId{a});
    };
    auto groups = 1;
    auto is_inside = false, in_mesh_order = false;
    each_word(axes, [&](std::string_view word) {
        if (word == "|") {
            is_inside = true;
            kind.inside = kind.listed.digit_count();
            groups = kind.listed.size();
        } else if (word == "*") {
            in_mesh_order = !is_inside;
            list_those([&](AxisId axis) { return !named.contains(axis); });
        } else if (const auto axis = axis_of(word)) {
            if (is_inside && in_mesh_order)
                along.insert(*axis);
            else
                list(*axis);
        }
    });
    list_those([&](AxisId axis) { return along.contains(axis); });
    const auto total = kind.listed.size();
    if (total != mesh->size())
        throw UsageError(cat("groups '", row.name, "' leave out axes of their mesh: ", row.groups));
    kind.size = kind.period = total / groups;
    if (slash < text.size()) {
        const auto counts = words_of(text.substr(slash + 1));
        kind.size = detail::number_in(counts.at(0)).value_or(0);
        if (kind.size == 0) kind.size = given.number(counts[0]);
        if (counts.size() > 1) kind.step = detail::number_in(counts[1]).value_or(1);
    }
    refuse_if(kind.size < 1 || (!is_inside && total % kind.size != 0), Fault::sizes, "the ", total,
              " ranks are not divided by groups '", row.name, "' of ", kind.size);
    each_word(row.at, [&](std::string_view word) {
        if (const auto position = detail::number_in(word))
            kind.at.push_back(*position);
        else
            kind.at = given.numbers(word);
    });
    return kind;
}

const Kind& Groups::Made::at(std::string_view name) const {
    if (const auto* kind = find(name)) return *kind;
    const auto row = std::ranges::find(framework->kinds, name, &KindRow::name);
    if (row == framework->kinds.end())
        throw Error(Fault::unknown, framework->name, " has no groups ", detail::in_quotes(name),
                    did_you_mean(name, known_names(framework->kinds)));
    throw Error(Fault::not_initialised, row->missing.empty()
                                            ? cat("these settings give no groups ", detail::in_quotes(name))
                                            : row->missing);
}
}  // namespace rankmesh::frameworks
