// SPDX-License-Identifier: Apache-2.0
// Random meshes and splits.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <rankmesh/core/sharding.hpp>

namespace rankmesh::tests {

/// A number of `least` to `end` - 1, all as likely in the first cases as in the last.
template <class Number>
Number any_in(Number least, Number end) {
    return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(least, end));
}

/// A mesh of at most three axes of at most `most` each, in any order of strides, some ranks on; with `gaps`
/// between its ranks sometimes, of strides that do not divide one another.
inline Mesh any_mesh(int most, int offset, bool gaps = false) {
    const auto names = std::vector<std::string_view>{"a", "b", "c"};
    auto axes = std::vector<Axis>{};
    auto sizes = std::vector<int>{};
    const auto count = any_in(1, 4);
    auto order = std::vector<std::string_view>{};
    for (int i = 0; i < count; ++i) {
        sizes.push_back(any_in(1, most + 1));
        axes.push_back({names[static_cast<std::size_t>(i)], sizes.back()});
        order.insert(order.begin() + any_in(0, i + 1), axes.back().name);
    }
    if (!gaps || *rc::gen::arbitrary<bool>()) return Mesh(axes).permuted(order).shifted(offset);
    auto text = detail::cat("@", offset);
    auto reach = 0;  // of the ranks so far
    for (std::size_t i = 0; i < axes.size(); ++i) {
        const auto stride = reach + 1 + any_in(0, 3);
        text = detail::cat(names[i], "=", sizes[i], ":", stride, " ", text);
        reach += (sizes[i] - 1) * stride;
    }
    return Mesh::parse(text).permuted(order);
}

/// A split of `dimensions` dimensions in which each axis of the mesh cuts any of them, sums, or replicates.
inline Split any_split(const Mesh& mesh, std::size_t dimensions) {
    auto split = Split{};
    split.dimensions.resize(dimensions);
    auto order = std::vector<int>(static_cast<std::size_t>(mesh.axis_count()));
    std::iota(order.begin(), order.end(), 0);
    if (*rc::gen::arbitrary<bool>()) std::reverse(order.begin(), order.end());
    for (auto a : order) {
        const auto name = std::string(mesh.name(AxisId{a}));
        const auto what = any_in<std::size_t>(0, dimensions + 2);
        if (what < dimensions)
            split.dimensions[what].axes.push_back(name);
        else if (what == dimensions)
            split.sums.push_back(name);
    }
    for (auto& dimension : split.dimensions)
        if (!dimension.axes.empty()) dimension.padded = *rc::gen::element(0, 0, 1, 2, 3);
    while (!split.dimensions.empty() && split.dimensions.back().axes.empty()) split.dimensions.pop_back();
    return split;
}

inline std::vector<std::int64_t> any_shape() {
    auto shape = std::vector<std::int64_t>{};
    const auto dimensions = any_in(0, 4);
    for (int d = 0; d < dimensions; ++d) shape.push_back(any_in<std::int64_t>(0, 10));
    return shape;
}

/// The ranks of a mesh, as they are numbered.
inline std::vector<int> ranks_of(const Mesh& mesh) {
    const auto ranks = mesh.ranks();
    return {ranks.begin(), ranks.end()};
}

/// The elements of a slice of an array, each by its number row by row.
inline std::vector<std::int64_t> elements_of(const Slice& slice, std::span<const std::int64_t> shape) {
    auto numbers = std::vector<std::int64_t>{0};
    for (std::size_t d = 0; d < shape.size(); ++d) {
        auto further = std::vector<std::int64_t>{};
        for (auto number : numbers)
            for (auto i = slice.ranges[d].begin; i < slice.ranges[d].end; ++i)
                further.push_back(number * shape[d] + i);
        numbers = std::move(further);
    }
    return numbers;
}

}  // namespace rankmesh::tests
