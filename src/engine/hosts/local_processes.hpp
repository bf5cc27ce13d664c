// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rankmesh::detail {

/// What a rank tells of its host and process.
struct HostLine {
    int rank = 0;
    std::string network;   // processes of one network reach each other by loopback
    std::string families;  // of 4 and 6, by which other hosts can reach it; - for none
    std::string process;   // as `id_of_this_process` gives it
    std::string host;

    /// `3 1234 46 effffffc.1a2b.3c4d host-a`, and a newline.
    std::string text() const;
    bool operator==(const HostLine&) const = default;
};

/// Reads the lines of all ranks, and sorts them by rank; throws EngineFailure for any other text.
std::vector<HostLine> read_host_lines(std::string_view text);

/// This process as others of its host know it, `effffffc.1a2b.3c4d`: its PID namespace, its number there, and
/// the time of its start, by which a later process of that number differs. - if the system does not say.
std::string id_of_this_process();
/// True if the process of that id has ended; false if it runs, or this process cannot see it.
bool process_has_ended(const std::string& id);

/// The processes of a world's other ranks on this host, as far as this process sees them.
class LocalProcesses {
public:
    LocalProcesses() = default;
    /// `lines` are the lines of all ranks, in order.
    LocalProcesses(const std::vector<HostLine>& lines, int own_rank);
    /// Those of a world of some of the ranks, in that order.
    LocalProcesses among(const std::vector<int>& ranks) const;

    /// The ranks whose processes have ended. Looks again after 25 ms, or after 5 ms for each process.
    const std::vector<int>& ended();
    /// The ranks to blame for broken connections to the `lost` ranks: ranks among `all` on this host whose
    /// processes have ended, because others cut their connections after that, and the lost ranks on other
    /// hosts. The `lost` ranks if no process has ended within 100 ms. Any thread may ask.
    std::vector<int> to_blame(const std::vector<int>& lost, const std::vector<int>& all) const;

private:
    std::map<int, std::string> ids_;  // by rank
    std::vector<int> ended_;
    std::chrono::steady_clock::time_point next_ = {};
};

}  // namespace rankmesh::detail
