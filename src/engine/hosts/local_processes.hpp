// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "engine/hosts/host_lines.hpp"

namespace rankmesh::detail {

/// This process as others of its host know it, `effffffc.1a2b.3c4d`: its PID namespace, its number there and
/// the time of its start, which a later process of that number does not have; - where the system does not
/// say.
std::string id_of_this_process();
/// True where the process of that id has ended; false where it runs, or this one cannot see it.
bool process_has_ended(const std::string& id);

/// The processes of a world's other ranks on this host, as far as this one sees them.
class LocalProcesses {
public:
    LocalProcesses() = default;
    /// `lines` are those of all ranks, in order.
    LocalProcesses(const std::vector<HostLine>& lines, int own_rank);
    /// The same in a world of some of the ranks, in that order.
    LocalProcesses among(const std::vector<int>& ranks) const;

    /// The ranks whose processes have ended. Looks at them again after 25 ms, of many after 5 ms each.
    const std::vector<int>& ended();
    /// The ranks among `all` for which connections to the `lost` are broken: those of this host whose
    /// processes have ended, since others cut their connections because of them, and the lost ones on other
    /// hosts. The lost ones where that tells nothing within 100 ms. Any thread may ask.
    std::vector<int> to_blame(const std::vector<int>& lost, const std::vector<int>& all) const;

private:
    std::map<int, std::string> ids_;  // by rank
    std::vector<int> ended_;
    std::chrono::steady_clock::time_point next_ = {};
};

}  // namespace rankmesh::detail
