// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace rankmesh::detail
