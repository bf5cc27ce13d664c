// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/frameworks/live.hpp>

#include <algorithm>

#include <rankmesh/core/ranks.hpp>
#include <rankmesh/dialect/member.hpp>

#include "frameworks/rows.hpp"

namespace rankmesh::frameworks {

using detail::cat;

Live::Live(const Member& member, const State& state, std::string_view name) {
    const auto& groups = state.groups();
    const auto joined_with =
        cat(Access::framework(state).name, "::plan(settings, world_size", name.empty() ? ")" : ", name)");
    for (const auto& declared : groups.plan()) {
        const auto place = dialect::place(member, name_in_plan(name, declared.name), joined_with);
        if (!groups.has(declared.name)) {  // all ranks
            groups_.emplace("*", dialect::communicator(place, {"world"}, joined_with));
            continue;
        }
        dialect::check_mesh(place, declared.mesh.resolve(), joined_with);
        const auto own = groups.of(declared.name, member.rank());
        auto found = place.find("group");
        if (found ? !own || !std::ranges::equal(found->world_ranks(), *own) : own.has_value())
            throw UsageError(cat("the member's group '", declared.name, "' ",
                                 found ? cat("is ", ranks_to_string(found->world_ranks()))
                                       : std::string("leaves this rank out"),
                                 ", where it must be ",
                                 own ? ranks_to_string(std::vector<int>(own->begin(), own->end()))
                                     : std::string("of other ranks"),
                                 "; join with ", joined_with));
        if (found)
            groups_.emplace(declared.name,
                            groups.is_on_host(declared.name) ? found->host() : std::move(*found));
    }
}

Communicator* Live::find(const State& state, std::string_view accessor, const Values& options) {
    if (!state.group(accessor, options)) return nullptr;
    return &groups_.at(state.kind(accessor, options));
}

}  // namespace rankmesh::frameworks
