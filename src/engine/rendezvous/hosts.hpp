// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "engine/rendezvous/interfaces.hpp"

namespace rankmesh::detail {

/// Where the ranks of a world run, and how they reach each other.
///
/// Each rank tells the others one line; those of all make the same decision on each.
class Hosts {
public:
    /// What this process knows of itself. `interface` is what was asked for, "" if nothing was.
    Hosts(int rank, std::string host, std::string interface);

    /// `rank network families host`: a network is one in which all that runs reaches all by loopback; the
    /// families, of 4 and 6, are those by which others can reach this process, or -.
    const std::string& line() const { return line_; }

    /// The ranks whose host has this one's name, in order; `lines` are those of all ranks.
    std::vector<int> local_ranks(const std::string& lines) const;

    /// The address at which this rank listens: of loopback only where all ranks share a network. Throws
    /// UsageError on every rank if one of them has none, or if they have no family in common.
    std::string address(const std::string& lines) const;

private:
    const std::string host_;
    const std::string wanted_;
    const std::vector<Interface> meant_;
    std::string line_;
};

}  // namespace rankmesh::detail
