// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/frameworks/live.hpp>

#include <rankmesh/core/ranks.hpp>
#include <rankmesh/core/text.hpp>

#include "frameworks/kinds.hpp"

namespace rankmesh::frameworks {

namespace {

/// What `ask` returns; names `plan`, the call whose result to join with, in its errors.
auto asked(std::string_view plan, const auto& ask) {
    try {
        return ask();
    } catch (const UsageError& error) {
        throw UsageError(cat(error.what(), "; or join with ", plan, ", which has it"));
    }
}

}  // namespace

Live::Live(const Member& member, const State& state, std::string_view name) {
    const auto& groups = state.groups();
    const auto& kinds = Access::made(groups).kinds;
    const auto& framework = Access::framework(state);
    const auto joined_with = framework.settings.empty() ? cat("state.plan(", name.empty() ? ")" : "name)")
                                                        : cat(framework.name, "::plan(settings, world_size",
                                                              name.empty() ? ")" : ", name)");
    if (member.rank() != state.rank())
        throw UsageError(cat("the state is of rank ", state.rank(), ", and the member of rank ",
                             member.rank(), "; give the state of this rank"));
    for (const auto& declared : groups.plan()) {
        const auto joined = asked(joined_with, [&] { return member[name_in_plan(name, declared.name)]; });
        const auto in_plan = [&](const Kind& kind) {
            return !kind.row->on_host && kind.brief == declared.name;
        };
        const auto kind = std::ranges::find_if(kinds, in_plan);
        if (kind == kinds.end()) {  // all ranks
            groups_.emplace("*", asked(joined_with, [&] { return joined.on("world"); }));
            continue;
        }
        if (const auto mesh = declared.mesh.resolve(); joined.mesh() != mesh)
            throw UsageError(cat("the member was joined with mesh ", to_string(joined.mesh()), ", not ",
                                 to_string(mesh), "; join with ", joined_with));
        const auto own = kind->of(member.rank());
        auto ranks = own ? std::vector<int>(own->begin(), own->end()) : std::vector<int>();
        if (kind->row->rising) std::ranges::sort(ranks);
        auto found = joined.find("group");
        if (found ? !own || found->world_ranks() != ranks : own.has_value())
            throw UsageError(cat("the member's group '", declared.name, "' ",
                                 found ? cat("is ", ranks_to_string(found->world_ranks()))
                                       : std::string("leaves this rank out"),
                                 ", where it must be ",
                                 own ? ranks_to_string(ranks) : std::string("of other ranks"), "; join with ",
                                 joined_with));
        if (found) groups_.emplace(kind->name, std::move(*found));
    }
    for (const auto& kind : kinds)
        if (kind.row->on_host)
            if (const auto device = groups_.find(kind.device); device != groups_.end())
                groups_.emplace(kind.name, device->second.host());
}

Communicator* Live::find(const State& state, std::string_view accessor, const Values& options) {
    if (!state.group(accessor, options)) return nullptr;
    return &of_kind(state.kind(accessor, options));
}

std::vector<Communicator*> Live::all(const State& state, std::string_view accessor, const Values& options) {
    auto found = std::vector<Communicator*>{};
    const auto kinds = state.ask(accessor, options);
    for (const auto& kind : std::get<std::vector<std::string>>(kinds)) found.push_back(&of_kind(kind));
    return found;
}

Communicator& Live::of_kind(const std::string& kind) {
    const auto found = groups_.find(kind);
    refuse_if(found == groups_.end(), Fault::not_member, "the last group of ", kind,
              " is shorter, which no plan declares; make it with World::sub");
    return found->second;
}

}  // namespace rankmesh::frameworks
