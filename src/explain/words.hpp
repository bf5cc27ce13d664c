// SPDX-License-Identifier: Apache-2.0
// How texts name ranks, groups and chains of them.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <rankmesh/core/mesh.hpp>
#include <rankmesh/core/placement.hpp>
#include <rankmesh/explain/order.hpp>

namespace rankmesh::detail::explaining {

/// Where ranks stand, if a mesh is known.
class Places {
public:
    Places() = default;
    explicit Places(std::variant<Mesh, Placement> where) : where_(std::move(where)) {}

    std::optional<Coordinate> coord(int rank) const;
    /// The axes along which these ranks are one group, `dp,tp`; empty where they are none.
    std::string axes_of(const std::vector<int>& ranks) const;
    /// The ranks of a world that has all of these places; 0: no mesh is known.
    int world() const;
    /// Nothing, or the mesh or placement as text.
    std::string text() const;

    /// `rank 3 (dp=1 tp=1)`.
    std::string rank(int rank) const;
    /// `rank 3 (dp=1 tp=1)`, `ranks {0, 3}` with coordinates where there are few, else what they have in
    /// common: `ranks {0..7}, all at dp=0`.
    std::string ranks(const std::vector<int>& ranks) const;
    /// `{0..7}, all at dp=0`; with coordinates where there are few.
    std::string named(const std::vector<int>& ranks) const;

private:
    std::optional<std::variant<Mesh, Placement>> where_;
};

/// `{0..7, 9}`; of many runs the first, and how many ranks are left out.
std::string few(std::vector<int> ranks);

/// `1 rank waits`, `2 ranks wait`.
std::string ranks_that(std::size_t count, std::string_view one, std::string_view many);

/// The chain, with coordinates.
std::string text_of(const Deadlock& deadlock, const Places& places);

}  // namespace rankmesh::detail::explaining
