// SPDX-License-Identifier: Apache-2.0
#include "engine/rendezvous/rendezvous.hpp"

#include <rankmesh/core/text.hpp>

#include "engine/hash.hpp"
#include "engine/words.hpp"

namespace rankmesh::detail {

void Rendezvous::throw_timeout(const std::string& phase, std::chrono::nanoseconds timeout,
                               const std::vector<int>& arrived, const std::vector<int>& missing) const {
    throw Timeout(cat("the timeout of ", to_text(timeout), " expired in ", phase, " on rank ", rank(),
                      ": arrived ", ranks_to_string(arrived), ", missing ", ranks_to_string(missing)),
                  arrived, missing);
}

std::string Rendezvous::scope_of_next(const std::vector<int>& ranks) {
    auto scope = std::string("sub");
    for (auto each : ranks) append(scope, cat("-", each));
    // The names of entries have an end: long lists are told apart by their hash.
    if (scope.size() > 64) scope = cat("sub#", hash(scope));
    return cat(scope, ".", subs_[ranks]++, ".");
}

}  // namespace rankmesh::detail
