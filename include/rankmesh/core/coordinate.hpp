// SPDX-License-Identifier: Apache-2.0
// A coordinate: the index of a rank on every axis of a mesh.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include <rankmesh/core/axis.hpp>
#include <rankmesh/core/name.hpp>

namespace rankmesh {

/// One entry of a coordinate: `{"pp", 1}`.
struct AxisIndex {
    std::string_view axis;
    int index = 0;
};

/// The index of a rank on every axis, by name: `pp=1 dp=0 tp=3`.
///
/// Law: `Coordinate::parse(to_string(c)) == c`.
class Coordinate {
public:
    /// Makes a coordinate from its entries. Throws UsageError if a name is invalid or repeated.
    constexpr Coordinate(std::initializer_list<AxisIndex> entries) {
        for (const auto& entry : entries) push_back(entry.axis, entry.index);
    }

    /// Reads `pp=1 dp=0 tp=3` or `pp=1,dp=0,tp=3`. Throws UsageError for any other text.
    static constexpr Coordinate parse(std::string_view text);

    constexpr int size() const { return names_.size(); }
    constexpr std::string_view name(int i) const { return names_[i]; }
    constexpr int operator[](AxisId axis) const { return index_[static_cast<std::size_t>(axis.index)]; }

    /// Returns the index on the axis `name`. Throws UsageError if the coordinate does not have that axis.
    constexpr int operator[](std::string_view name) const {
        const auto i = names_.find(name);
        if (i < 0)
            throw UsageError(detail::cat("the coordinate has no axis ", detail::in_quotes(name),
                                         did_you_mean(name, all_names())));
        return (*this)[AxisId{i}];
    }
    constexpr int find(std::string_view name) const { return names_.find(name); }

    constexpr void push_back(std::string_view name, int index) {
        names_.push_back(name);
        index_[static_cast<std::size_t>(names_.size() - 1)] = index;
    }

    friend constexpr bool operator==(const Coordinate&, const Coordinate&) = default;

private:
    friend class Mesh;
    constexpr explicit Coordinate(const Names& names) : names_(names) {}

    std::vector<std::string_view> all_names() const {
        auto names = std::vector<std::string_view>{};
        for (int i = 0; i < size(); ++i) names.push_back(name(i));
        return names;
    }

    Names names_;
    std::array<int, max_axes> index_{};
};

}  // namespace rankmesh
