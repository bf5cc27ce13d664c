// SPDX-License-Identifier: Apache-2.0
// When ranks entered and left calls that have ended.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "explain/evidence.hpp"

namespace rankmesh::detail::explaining {

/// One rank in one call; seconds of the clocks after alignment.
struct Visit {
    int rank = 0;
    const RecordedEntry* entry = nullptr;
    double entered = 0;
    double left = 0;
    std::optional<double> computed = {};  ///< since what the rank called or left before
};

/// A collective that has ended on all members with a record; visits in the order of entering.
struct Meeting {
    const Communicator* communicator = nullptr;
    std::int64_t number = 0;
    std::vector<Visit> visits;

    const Visit& last() const { return visits.back(); }
    /// Returns the time in the call of the rank that waits least.
    double transfer() const;
};

struct Meetings {
    std::vector<Meeting> all;
    double clock_error = 0;
    double noticed = 0;  ///< seconds by which the end of a call may be noticed late

    explicit Meetings(const Evidence& evidence);
    /// Returns the meetings of equal calls: with one number, in groups of one kind.
    std::map<std::pair<std::string, std::int64_t>, std::vector<const Meeting*>> alike() const;

private:
    void align_clocks(const Evidence& evidence);
};

/// Returns the middle element, of two the smaller.
double middle(std::vector<double> values);

}  // namespace rankmesh::detail::explaining
