// SPDX-License-Identifier: Apache-2.0
// Placement, a mesh with an explicit list of ranks.
#pragma once

#include <vector>

#include <rankmesh/core/mesh.hpp>

namespace rankmesh {

/// A mesh with a list of the rank at each position, for layouts that strides cannot express: `a=2 b=2
/// @[3,1,2,0]`.
///
/// a=2 b=2 @[3,1,2,0] | coord(2) -> a=1 b=0
/// a=2 b=2 @[3,1,2,0] | group(3, a) -> {3, 2}
///
/// Positions count row by row; the last axis varies fastest. No other type of the core stores a list of all
/// ranks.
///
/// Law: `placement.rank(placement.coord(r)) == r` for every rank r in the list.
/// Law: with the list 0, 1, 2, ... every query returns what the mesh returns.
/// Law: `Placement::parse(to_string(p)) == p`.
class Placement {
public:
    /// Makes a placement. Throws UsageError unless the mesh is plain and `ranks` has one distinct rank, 0 or
    /// more, for each position.
    Placement(const Mesh& mesh, std::vector<int> ranks);

    /// Reads `a=2 b=2 @[3,1,2,0]`. Throws UsageError for any other text.
    static Placement parse(std::string_view text);

    const Mesh& mesh() const { return mesh_; }
    /// Returns the rank at each position.
    std::span<const int> ranks() const { return ranks_; }
    int size() const { return mesh_.size(); }
    bool contains(Int rank) const { return find(rank) >= 0; }

    /// Returns the position of `rank`. Throws UsageError if the list does not contain `rank`.
    int position(Int rank) const {
        const auto position = find(rank);
        if (position < 0)
            throw UsageError(
                detail::cat("rank ", rank, " has no place in the placement of mesh ", to_string(mesh_)));
        return position;
    }
    Coordinate coord(Int rank) const { return mesh_.coord(position(rank)); }
    int rank(const Coordinate& coordinate) const { return at(mesh_.rank(coordinate)); }
    int index(Int rank, AxisRef auto const& axis) const { return mesh_.index(position(rank), axis); }

    /// Returns the ranks that differ from `rank` only along these axes, in mesh order.
    std::vector<int> group(Int rank, AxisSet axes) const {
        auto ranks = std::vector<int>{};
        for (auto position : mesh_.group(position(rank), axes)) ranks.push_back(at(position));
        return ranks;
    }
    std::vector<int> group(Int rank, AxisRef auto const&... names) const
        requires(sizeof...(names) > 0)
    {
        return group(rank, mesh_.axes(names...));
    }

    /// Returns the rank `by` steps along an axis; nullopt past an open edge.
    std::optional<int> neighbor(Int rank, AxisRef auto const& axis, Int by, Edge edge = Edge::open) const {
        const auto position = mesh_.neighbor(this->position(rank), axis, by, edge);
        return position ? std::optional(at(*position)) : std::nullopt;
    }

    friend bool operator==(const Placement& a, const Placement& b) {
        return a.mesh_ == b.mesh_ && a.ranks_ == b.ranks_;
    }

private:
    int at(int position) const { return ranks_[static_cast<std::size_t>(position)]; }
    int find(int rank) const;

    Mesh mesh_;
    std::vector<int> ranks_;      // the rank at each position
    std::vector<int> positions_;  // positions, sorted by their ranks
};

std::string to_string(const Placement& placement);

inline Placement::Placement(const Mesh& mesh, std::vector<int> ranks)
    : mesh_(mesh), ranks_(std::move(ranks)) {
    if (!mesh_.is_plain())
        throw UsageError(detail::cat("a placement over mesh ", to_string(mesh_),
                                     "; the table gives the ranks, leave out strides and offset"));
    if (ranks_.size() != static_cast<std::size_t>(mesh_.size()))
        throw UsageError(detail::cat("a placement lists ", ranks_.size(), " ranks; mesh ", to_string(mesh_),
                                     " has ", mesh_.size(), " positions"));
    for (int position = 0; position < mesh_.size(); ++position) positions_.push_back(position);
    std::ranges::sort(positions_, {}, [this](int position) { return at(position); });
    for (std::size_t i = 0; i < positions_.size(); ++i) {
        const auto rank = at(positions_[i]);
        if (rank < 0) throw UsageError(detail::cat("a placement lists rank ", rank, "; ranks are 0 or more"));
        if (i > 0 && at(positions_[i - 1]) == rank)
            throw UsageError(detail::cat("a placement lists rank ", rank, " at positions ", positions_[i - 1],
                                         " and ", positions_[i], "; every rank has one place"));
    }
}

inline int Placement::find(int rank) const {
    const auto found =
        std::ranges::lower_bound(positions_, rank, {}, [this](int position) { return at(position); });
    return found != positions_.end() && at(*found) == rank ? *found : -1;
}

namespace detail {

/// Returns the mesh itself, or the mesh of a placement.
inline const Mesh& mesh_of(const Mesh& mesh) { return mesh; }
inline const Mesh& mesh_of(const Placement& placement) { return placement.mesh(); }

/// Returns the highest rank.
inline int last_rank(const Mesh& mesh) { return mesh.extent() - 1; }
inline int last_rank(const Placement& placement) { return std::ranges::max(placement.ranks()); }

}  // namespace detail

// --- placement: a=2 b=2 @[3,1,2,0]

inline std::string to_string(const Placement& placement) {
    auto out = to_string(placement.mesh()) + " @[";
    for (std::size_t i = 0; i < placement.ranks().size(); ++i)
        detail::append(out, detail::cat(i > 0 ? "," : "", placement.ranks()[i]));
    return out + "]";
}

inline Placement Placement::parse(std::string_view text) {
    const auto at = std::min(text.find('@'), text.size());
    const auto mesh = Mesh::parse(text.substr(0, at));
    auto reader = detail::Reader("placement", text, at);
    auto ranks = std::vector<int>{};
    reader.expect("@[");
    do {
        reader.blanks();
        ranks.push_back(reader.number());
        reader.blanks();
    } while (reader.accept(","));
    reader.expect("]");
    reader.end();
    return Placement(mesh, std::move(ranks));
}

inline std::ostream& operator<<(std::ostream& out, const Placement& placement) {
    return out << to_string(placement);
}

}  // namespace rankmesh
