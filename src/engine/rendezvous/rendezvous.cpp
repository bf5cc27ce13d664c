// SPDX-License-Identifier: Apache-2.0
#include "engine/rendezvous/rendezvous.hpp"

#include <rankmesh/core/text.hpp>

#include "engine/failure.hpp"
#include "engine/hash.hpp"

namespace rankmesh::detail {

void Rendezvous::throw_timeout(const std::string& phase, std::chrono::nanoseconds timeout,
                               const std::vector<int>& arrived, const std::vector<int>& missing) const {
    throw expired_in(phase, timeout, rank(), arrived, missing, ranks_to_string(missing));
}

std::string Rendezvous::scope_of_next(const std::vector<int>& ranks) {
    auto scope = std::string("sub");
    for (auto each : ranks) append(scope, cat("-", each));
    // Keys have a maximum length: a long list of ranks is replaced by its hash.
    if (scope.size() > 64) scope = cat("sub#", hash(scope));
    return cat(scope, ".", subs_[ranks]++, ".");
}

}  // namespace rankmesh::detail
