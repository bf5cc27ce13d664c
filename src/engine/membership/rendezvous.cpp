// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/rendezvous.hpp"

#include <thread>
#include <utility>

#include <rankmesh/core/text.hpp>

#include "engine/diagnosis/attendance.hpp"
#include "engine/hash.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

template <class Kind>
struct RelayedError final : Kind, RelayedFailure {
    RelayedError(Kind error, Failure failure) : Kind(std::move(error)), RelayedFailure{std::move(failure)} {}
};

}  // namespace

void RelayedFailure::raise(const Failure& failure, const std::string& step) {
    if (failure.kind == Failure::Kind::timeout)
        throw RelayedError<Timeout>(Timeout(failure.why, failure.arrived, failure.missing), failure);
    throw RelayedError<PeerLost>(PeerLost(cat(failure.why, "; ", step), failure.lost), failure);
}

void Rendezvous::throw_timeout(const std::string& phase, std::chrono::nanoseconds timeout,
                               const std::vector<int>& arrived, const std::vector<int>& missing,
                               const std::string& seen) const {
    throw timeout_error_in(phase, timeout, rank(), arrived, missing, ranks_text(missing), seen);
}

std::optional<Failure> Rendezvous::give_up_for_cause(const std::string& where, const Failure& failure) {
    const auto waits = failure.kind == Failure::Kind::timeout;
    const auto until = from_now(waits ? patience : std::chrono::milliseconds(0));
    give_up(where, failure);
    auto found = cause(where, failure);
    while (!found && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(moment);
        found = cause(where, failure);
    }
    return found;
}

void Rendezvous::start_of_part(const std::vector<int>& ranks) {
    start_ = cat("the start of a world of ranks ", ranks_to_string(ranks));
}

std::string Rendezvous::scope_of_next(const std::vector<int>& ranks) {
    auto scope = std::string("sub");
    for (auto each : ranks) append(scope, cat("-", each));
    // Keys have a maximum length: a long list of ranks is replaced by its hash.
    if (scope.size() > 64) scope = cat("sub#", hash(scope));
    return cat(scope, ".", subs_[ranks]++, ".");
}

}  // namespace rankmesh::detail
