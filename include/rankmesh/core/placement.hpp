// SPDX-License-Identifier: Apache-2.0
// Placement, a mesh that may have a table of its ranks.
#pragma once

#include <vector>

#include <rankmesh/core/mesh.hpp>

namespace rankmesh {

/// The ranks at some positions of a placement, in mesh order. The placement must outlive them.
class PlacedRanks {
public:
    using iterator = detail::IndexIterator<PlacedRanks, int>;

    PlacedRanks(const Group& positions, std::span<const int> table) : positions_(positions), table_(table) {}

    int size() const { return positions_.size(); }
    int operator[](int i) const {
        return table_.empty() ? positions_[i] : table_[static_cast<std::size_t>(positions_[i])];
    }
    iterator begin() const { return {this, 0}; }
    iterator end() const { return {this, size()}; }
    std::vector<int> list() const { return {begin(), end()}; }

private:
    Group positions_;
    std::span<const int> table_;
};

/// Which rank has which coordinate: a mesh, or a mesh with a table of the rank at each position, for layouts
/// that strides cannot express: `a=2 b=2 @[3,1,2,0]`.
///
/// a=2 b=2 @[3,1,2,0] | coord(2) -> a=1 b=0
/// a=2 b=2 @[3,1,2,0] | group(3, a) -> {3, 2}
///
/// Positions count row by row; the last axis varies fastest. No other type of the core stores a list of all
/// ranks.
///
/// Law: `placement.rank(placement.coord(r)) == r` for every rank r in the placement.
/// Law: without a table, and with the table 0, 1, 2, ... every query returns what the mesh returns.
/// Law: `Placement::parse(to_string(p)) == p` for every placement p with a table.
class Placement {
public:
    Placement(const Mesh& mesh) : mesh_(mesh) {}
    /// Throws UsageError unless the mesh is plain and `table` has one distinct rank, 0 or more, for each
    /// position.
    Placement(const Mesh& mesh, std::vector<int> table);

    /// Reads `a=2 b=2 @[3,1,2,0]`. Throws UsageError for any other text.
    static Placement parse(std::string_view text);

    const Mesh& mesh() const { return mesh_; }
    /// Returns the rank at each position; empty if strides give the ranks.
    std::span<const int> table() const { return table_; }
    int size() const { return mesh_.size(); }
    /// Returns the highest rank plus 1.
    int extent() const { return table_.empty() ? mesh_.extent() : table_[at(positions_.back())] + 1; }
    bool contains(Int rank) const { return table_.empty() ? mesh_.contains(rank) : find(rank) >= 0; }
    /// Returns all ranks, in the order of the axes.
    PlacedRanks ranks() const& { return of(mesh_.ranks()); }
    PlacedRanks ranks() const&& = delete;

    /// Returns the rank of the mesh at the place of `rank`: the position, if there is a table. Throws
    /// UsageError if the table does not contain `rank`.
    int position(Int rank) const;
    Coordinate coord(Int rank) const { return mesh_.coord(position(rank)); }
    int rank(const Coordinate& coordinate) const { return placed(mesh_.rank(coordinate)); }
    int index(Int rank, AxisRef auto const& axis) const { return mesh_.index(position(rank), axis); }
    /// Like those of Mesh.
    void indices(Int rank, std::span<int> out) const { mesh_.indices(position(rank), out); }
    int rank_at(std::span<const int> indices) const { return placed(mesh_.rank_at(indices)); }

    /// Returns the ranks that differ from `rank` only along these axes, in mesh order.
    PlacedRanks group(Int rank, AxisSet axes) const& { return of(mesh_.group(position(rank), axes)); }
    PlacedRanks group(Int rank, AxisRef auto const&... names) const&
        requires(sizeof...(names) > 0)
    {
        return group(rank, mesh_.axes(names...));
    }
    PlacedRanks group(Int rank, auto const&... axes) const&& = delete;
    /// Returns the ranks of a group of `mesh()`.
    PlacedRanks of(const Group& group) const& { return {group, table_}; }
    PlacedRanks of(const Group& group) const&& = delete;

    /// Returns the rank `by` steps along an axis; nullopt past an open edge.
    std::optional<int> neighbor(Int rank, AxisRef auto const& axis, Int by, Edge edge = Edge::open) const {
        const auto next = mesh_.neighbor(position(rank), axis, by, edge);
        return next ? std::optional(placed(*next)) : std::nullopt;
    }

    friend bool operator==(const Placement& a, const Placement& b) {
        return a.mesh_ == b.mesh_ && a.table_ == b.table_;
    }

private:
    static std::size_t at(int position) { return static_cast<std::size_t>(position); }
    int placed(int rank) const { return table_.empty() ? rank : table_[at(rank)]; }
    int find(int rank) const;

    Mesh mesh_;
    std::vector<int> table_;      // the rank at each position
    std::vector<int> positions_;  // positions, sorted by their ranks
};

std::string to_string(const Placement& placement);

/// Returns the same ranks at the same positions without a table, if strides can give them.
///
/// a=2 b=2 @[0,2,1,3] | shortest -> a=2:1 b=2:2
Placement shortest(const Placement& placement);

inline Placement::Placement(const Mesh& mesh, std::vector<int> table)
    : mesh_(mesh), table_(std::move(table)) {
    if (!mesh_.is_plain())
        throw UsageError(detail::cat("a placement over mesh ", to_string(mesh_),
                                     "; the table gives the ranks, leave out strides and offset"));
    if (table_.size() != at(mesh_.size()))
        throw UsageError(detail::cat("a placement lists ", table_.size(), " ranks; mesh ", to_string(mesh_),
                                     " has ", mesh_.size(), " positions"));
    for (int position = 0; position < mesh_.size(); ++position) positions_.push_back(position);
    std::ranges::sort(positions_, {}, [this](int position) { return table_[at(position)]; });
    for (std::size_t i = 0; i < positions_.size(); ++i) {
        const auto rank = table_[at(positions_[i])];
        if (rank < 0) throw UsageError(detail::cat("a placement lists rank ", rank, "; ranks are 0 or more"));
        if (i > 0 && table_[at(positions_[i - 1])] == rank)
            throw UsageError(detail::cat("a placement lists rank ", rank, " at positions ", positions_[i - 1],
                                         " and ", positions_[i], "; every rank has one place"));
    }
}

inline int Placement::position(Int rank) const {
    if (table_.empty()) return rank;
    const auto position = find(rank);
    if (position < 0)
        throw UsageError(
            detail::cat("rank ", rank, " has no place in the placement of mesh ", to_string(mesh_)));
    return position;
}

inline int Placement::find(int rank) const {
    const auto found =
        std::ranges::lower_bound(positions_, rank, {}, [this](int position) { return table_[at(position)]; });
    return found != positions_.end() && table_[at(*found)] == rank ? *found : -1;
}

inline Placement shortest(const Placement& placement) {
    const auto& mesh = placement.mesh();
    const auto table = placement.table();
    auto digits = Layout{};
    auto axes = std::string{};
    auto ranks = std::vector<std::int64_t>(table.size(), table.empty() ? 0 : table.front());
    auto inner = mesh.size();  // positions in a step along the axis
    auto reach = std::int64_t{0};
    for (int a = 0; a < mesh.axis_count() && !table.empty(); ++a) {
        const auto size = mesh.size(AxisId{a});
        inner /= size;
        const auto at = [&](int i) -> std::int64_t {
            return std::int64_t{table[static_cast<std::size_t>(i * inner)]} - table.front();
        };
        auto sizes = std::string{};
        auto strides = std::string{};
        for (int step = 1; step < size;) {
            const auto stride = at(step);
            auto count = 2;
            while (step * count < size && at(step * count) == count * stride) ++count;
            reach += (count - 1) * stride;
            if (stride <= 0 || size % (step * count) != 0 || reach > table.back()) return placement;
            sizes = detail::cat(count, step > 1 ? "," : "", sizes);
            strides = detail::cat(stride, step > 1 ? "," : "", strides);
            step *= count;
            digits.push_back({count, static_cast<int>(stride)});
            for (int i = 0; i < mesh.size(); ++i)
                ranks[static_cast<std::size_t>(i)] += i / inner % size / (step / count) % count * stride;
        }
        detail::append(axes, detail::cat(a > 0 ? " " : "", mesh.name(AxisId{a}), "="));
        detail::append(axes, size == 1 ? std::string("1") : detail::cat("(", sizes, "):(", strides, ")"));
    }
    if (table.empty() || !digits.nests() || !std::ranges::equal(ranks, table)) return placement;
    return Mesh::parse(detail::cat(axes, " @", table.front()));
}

// --- placement: a=2 b=2 @[3,1,2,0]

inline std::string to_string(const Placement& placement) {
    auto out = to_string(placement.mesh());
    for (const auto& rank : placement.table())
        detail::append(out, detail::cat(&rank == placement.table().data() ? " @[" : ",", rank));
    return placement.table().empty() ? out : out + "]";
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
