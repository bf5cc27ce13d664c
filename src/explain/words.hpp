// SPDX-License-Identifier: Apache-2.0
// Texts of ranks, groups and chains of ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <rankmesh/core/placement.hpp>
#include <rankmesh/explain/order.hpp>
#include <rankmesh/explain/record.hpp>

namespace rankmesh::detail::explaining {

/// The coordinates of ranks, if a mesh is known.
class Places {
public:
    Places() = default;
    explicit Places(Placement where) : where_(std::move(where)) {}

    std::optional<Coordinate> coord(int rank) const;
    /// Returns the axes along which these ranks are one group, `dp,tp`; "" if they are not a group.
    std::string axes_of(const std::vector<int>& ranks) const;
    /// Adds the axes in which the ranks of a list differ.
    void add_axes(const std::vector<int>& ranks, AxisSet& axes) const;
    /// Returns the group through a rank along these axes. Without axes: of a mesh of one axis, all ranks, and
    /// of others none.
    std::vector<int> group_of(int rank, AxisSet axes) const;
    /// Returns the number of ranks of the smallest world with the mesh; 0: no mesh is known.
    int world() const;
    /// Returns the mesh or placement as text; "" if none is known.
    std::string text() const;

    /// Returns `rank 3 (dp=1 tp=1)`.
    std::string rank(int rank) const;
    /// Returns `rank 3 (dp=1 tp=1)`, or `ranks {0, 3}` with coordinates if there are few, else with common
    /// coordinates: `ranks {0..7}, all at dp=0`.
    std::string ranks(const std::vector<int>& ranks) const;
    /// Returns `{0..7}, all at dp=0`, or with coordinates if there are few.
    std::string named(const std::vector<int>& ranks) const;

private:
    std::optional<Placement> where_;
};

/// Returns `{0..7, 9}`; for many terms the first ones and the number of omitted ranks.
std::string few(std::vector<int> ranks);

/// Returns `1 rank waits`, `2 ranks wait`.
std::string ranks_that(std::size_t count, std::string_view one, std::string_view many);

/// Returns `41 ms`, `1.2 s`.
std::string time_text(double seconds);

/// Returns the chain with coordinates.
std::string text_of(const Deadlock& deadlock, const Places& places);

/// Returns an error of a record on one line. Of a longer error than `most` bytes, `…` replaces words in the
/// middle.
std::string error_text(std::string_view error, std::size_t most);

/// Returns when an error stands in a log: its time if it has one, and its line. Of records, all are equal.
std::pair<std::string, std::int64_t> order_of(const FlightRecord& record);

/// Returns the error of a record, and the line of the log that it is from: `exited with code 1 (job.log:45)`.
std::string said_text(const FlightRecord& record);

}  // namespace rankmesh::detail::explaining
