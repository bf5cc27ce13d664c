// SPDX-License-Identifier: Apache-2.0
#include "engine/hosts/host_lines.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/fields.hpp"

namespace rankmesh::detail {

std::string HostLine::text() const {
    return cat(rank, " ", network, " ", families, " ", process, " ", host, "\n");
}

std::vector<HostLine> read_host_lines(std::string_view text) {
    auto lines = std::vector<HostLine>{};
    for (auto fields = Fields(text, "what another rank tells of its host"); !fields.at_end();) {
        const auto rank = fields.number();
        if (std::cmp_greater(rank, std::numeric_limits<int>::max())) fields.throw_unreadable();
        auto network = fields.until(' ');
        auto families = fields.until(' ');
        auto process = fields.until(' ');
        lines.push_back({static_cast<int>(rank), std::move(network), std::move(families), std::move(process),
                         fields.line()});
    }
    std::ranges::stable_sort(lines, {}, &HostLine::rank);
    return lines;
}

}  // namespace rankmesh::detail
