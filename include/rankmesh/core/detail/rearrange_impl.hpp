// SPDX-License-Identifier: Apache-2.0
// The definitions behind mesh.hpp that make one mesh of another: digits move, ranks stay. mesh.hpp includes
// this file.
#pragma once

#include <rankmesh/core/detail/layout_parts.hpp>
#include <rankmesh/core/mesh.hpp>

namespace rankmesh {

constexpr Mesh Mesh::slice(const Coordinate& fixed) const {
    auto offset = std::int64_t{offset_};
    for (int i = 0; i < fixed.size(); ++i) {
        const auto a = axis(fixed.name(i)).index;
        const auto index = fixed[AxisId{i}];
        if (index < 0 || index >= sizes_[at(a)]) throw_no_index(a, index);
        offset += axis_offset(a, index);
    }
    if (fixed.size() == axis_count())
        throw UsageError(detail::cat("a slice fixes every axis of mesh ", to_string(*this),
                                     "; leave one, or ask for the rank"));
    auto sliced = Mesh(Unfinished{});
    for (int a = 0; a < axis_count(); ++a)
        if (fixed.find(names_[a]) < 0) sliced.push_axis(names_[a], layout(AxisId{a}));
    return sliced.finish(offset);
}

constexpr Mesh Mesh::flatten(std::span<const std::string_view> names, std::string_view as) const {
    auto joined = AxisSet{};
    for (auto name : names) joined.insert(axis(name));
    if (joined.empty()) throw UsageError("flatten names no axis; name at least one");
    auto digits = Layout{};
    auto first = axis_count();
    for (int a = axis_count() - 1; a >= 0; --a)
        if (joined.contains({a})) first = a;
    for (int a = 0; a < axis_count(); ++a)
        if (joined.contains({a})) {
            const auto own = layout(AxisId{a});
            for (int k = 0; k < own.digit_count(); ++k) digits.append(own.digit(k));
        }
    auto flat = Mesh(Unfinished{});
    for (int a = 0; a < axis_count(); ++a) {
        if (a == first) flat.push_axis(as, digits);
        if (!joined.contains({a})) flat.push_axis(names_[a], layout(AxisId{a}));
    }
    return flat.finish(offset_);
}

constexpr Mesh Mesh::split(std::string_view name, std::span<const Axis> axes) const {
    const auto which = axis(name).index;
    const auto whole = sizes_[at(which)];
    const auto known = detail::checked_product(axes);
    auto rests = 0;
    for (const auto& part : axes) {
        rests += part.size.is_rest() ? 1 : 0;
        if (part.stride != 0)
            throw UsageError(detail::cat("split of '", name, "' gives '", part.name,
                                         "' a stride; strides follow from the split"));
    }
    if (rests > 1)
        throw UsageError(
            detail::cat("split of '", name, "' has ", rests, " sizes '*'; at most one can be inferred"));
    if (axes.empty() || (rests == 0 ? known != whole : whole % known != 0))
        throw UsageError(detail::cat("axis '", name, "' of size ", whole, " does not split into parts of ",
                                     known, rests == 0 ? " ranks" : " ranks times '*'"));
    const auto own = layout(AxisId{which});
    auto parts = detail::LayoutParts(own);
    auto cut = Mesh(Unfinished{});
    for (int a = 0; a < axis_count(); ++a) {
        if (a != which) {
            cut.push_axis(names_[a], layout(AxisId{a}));
            continue;
        }
        for (const auto& part : axes) {
            const auto size = part.size.is_rest() ? whole / known : part.size.size();
            const auto digits = parts.next(size);
            if (!digits)
                throw UsageError(detail::cat("axis '", name, "' is laid out as ", to_string(own),
                                             "; a part of ", size, " does not end between its digits"));
            cut.push_axis(part.name, *digits);
        }
    }
    return cut.finish(offset_);
}

constexpr Mesh Mesh::permuted(std::span<const std::string_view> names) const {
    auto listed = Mesh(Unfinished{});
    for (auto name : names) listed.push_axis(name, layout(axis(name)));
    if (listed.axis_count() != axis_count())
        throw UsageError(detail::cat("a permutation lists ", listed.axis_count(), " axes; mesh ",
                                     to_string(*this), " has ", axis_count(), ", list each once"));
    return listed.finish(offset_);
}

constexpr Mesh Mesh::concatenate(const Mesh& other) const {
    if (other.offset_ != offset_)
        throw UsageError(detail::cat("mesh ", to_string(*this), " starts at rank ", offset_, " and mesh ",
                                     to_string(other), " at rank ", other.offset_,
                                     "; meshes that are concatenated start at the same rank"));
    auto both = *this;
    for (int a = 0; a < other.axis_count(); ++a) both.push_axis(other.names_[a], other.layout(AxisId{a}));
    return both.finish(offset_);
}

constexpr Mesh Mesh::shifted(Int by) const {
    auto moved = *this;
    return moved.finish(std::int64_t{offset_} + by);
}

}  // namespace rankmesh
