// SPDX-License-Identifier: Apache-2.0
#include "engine/failure.hpp"

#include <utility>

#include <rankmesh/core/ranks.hpp>

#include "engine/timeout.hpp"

namespace rankmesh::detail {

std::exception_ptr Failure::error(const Label& label) const {
    switch (kind) {
        case Kind::timeout:
            return std::make_exception_ptr(
                Timeout(cat(why, "; ", label.text(), " cannot be used any more"), arrived, missing, seen));
        case Kind::gone:
        case Kind::left:
            return std::make_exception_ptr(PeerLost(cat(why, "; ", label.unusable(lost)), lost));
        case Kind::disagreement:
            return std::make_exception_ptr(
                Disagreement(cat(why, "; ", label.text(), " cannot be used any more"), lost));
        case Kind::engine:
            break;
    }
    return std::make_exception_ptr(EngineFailure(cat(why, "; ", label.unusable({}))));
}

std::string numbered(const Call& call, std::uint64_t number) {
    return cat(to_string(call), is_point_to_point(call.operation) ? ", message number " : ", call number ",
               number);
}

namespace {

/// `arrived {0..2}, missing 3 [dp=3]`.
std::string came_text(const std::vector<int>& arrived, const std::vector<int>& missing,
                      const std::string& missing_text) {
    if (missing.empty() && !arrived.empty())
        return cat("all of ", ranks_to_string(arrived), " have arrived, and it is not complete");
    return cat("arrived ", ranks_to_string(arrived), ", missing ", missing_text);
}

}  // namespace

Failure expired(Duration timeout, int rank, const std::string& what, const Label& label,
                std::vector<int> arrived, std::vector<int> missing, std::string seen) {
    auto why = cat("the timeout of ", to_text(timeout), " expired on rank ", rank, " in ", what, " on ",
                   label.text(), ", group ", to_string(label.ranks), ": ",
                   came_text(arrived, missing, label.named(missing)));
    return {.kind = Failure::Kind::timeout,
            .why = std::move(why),
            .arrived = std::move(arrived),
            .missing = std::move(missing),
            .seen = std::move(seen)};
}

Timeout expired_in(const std::string& phase, Duration timeout, int rank, const std::vector<int>& arrived,
                   const std::vector<int>& missing, const std::string& missing_text,
                   const std::string& seen) {
    return {cat("the timeout of ", to_text(timeout), " expired in ", phase, " on rank ", rank, ": ",
                came_text(arrived, missing, missing_text)),
            arrived, missing, seen};
}

}  // namespace rankmesh::detail
