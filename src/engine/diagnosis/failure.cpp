// SPDX-License-Identifier: Apache-2.0
#include "engine/diagnosis/failure.hpp"

#include <utility>

#include <rankmesh/core/ranks.hpp>

namespace rankmesh::detail {

std::exception_ptr Failure::error() const {
    switch (kind) {
        case Kind::timeout:
            return std::make_exception_ptr(Timeout(why, arrived, missing, seen));
        case Kind::gone:
        case Kind::left:
        case Kind::renewed:
            return std::make_exception_ptr(PeerLost(why, lost));
        case Kind::disagreement:
            return std::make_exception_ptr(Disagreement(why, lost));
        case Kind::engine:
            break;
    }
    return std::make_exception_ptr(EngineFailure(why));
}

std::exception_ptr Failure::error(const Label& label) const {
    auto of_group = *this;
    const auto names_lost = kind == Kind::gone || kind == Kind::left || kind == Kind::renewed;
    const auto is_broken = names_lost || kind == Kind::engine;
    auto members = names_lost ? lost : std::vector<int>{};
    if (!members.empty())
        std::erase_if(members, [all = label.ranks.list()](int each) { return !contains(all, each); });
    append(of_group.why,
           cat("; ", is_broken ? label.unusable(members) : cat(label.text(), " cannot be used any more")));
    return of_group.error();
}

std::string numbered(const Call& call, std::uint64_t number, const Ranks* ranks) {
    return cat(to_string(call, ranks),
               is_point_to_point(call.operation) ? ", message number " : ", call number ", number);
}

}  // namespace rankmesh::detail
