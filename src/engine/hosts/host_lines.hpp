// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rankmesh::detail {

/// What a rank tells of its host and process: processes of one network reach each other by loopback; the
/// families, of 4 and 6, are those by which other hosts can reach it, or -; the process is that of
/// `id_of_this_process`.
struct HostLine {
    int rank = 0;
    std::string network;
    std::string families;
    std::string process;
    std::string host;

    /// `3 1234 46 effffffc.1a2b.3c4d host-a`, and the end of the line.
    std::string text() const;
    bool operator==(const HostLine&) const = default;
};

/// The lines of all ranks, by rank; throws EngineFailure for a text that is none.
std::vector<HostLine> read_host_lines(std::string_view text);

}  // namespace rankmesh::detail
