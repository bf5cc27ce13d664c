// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/descriptors.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <rankmesh/core/error.hpp>

namespace rankmesh::detail {
namespace {

std::int64_t open_descriptors() {
    auto error = std::error_code{};
    auto count = std::int64_t{0};
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd", error)) {
        static_cast<void>(each);
        ++count;
    }
    return count;
}

}  // namespace

Descriptors descriptors_of(std::span<const Connected> groups) {
    constexpr auto spare = 16;  // for files that are opened during join
    auto found = Descriptors{.others = open_descriptors() + spare};
    for (const auto& group : groups) found.connections += group.size - 1;
    auto limit = rlimit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        found.limit = static_cast<std::int64_t>(limit.rlim_cur);
    const auto need = found.others + found.connections;
    if (groups.empty() || !found.limit || need <= *found.limit) return found;
    const auto& largest = *std::ranges::max_element(groups, {}, &Connected::size);
    found.shortage = cat("the groups of a rank need ", found.connections, " connections, most of them ",
                         largest.label, " with ", largest.size - 1, "; with ", found.others,
                         " other descriptors that is beyond the limit of ", *found.limit, "; raise it to ",
                         need, " (ulimit -n), or declare fewer or smaller groups");
    return found;
}

}  // namespace rankmesh::detail
