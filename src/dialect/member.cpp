// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/member.hpp>

#include <algorithm>

#include <rankmesh/core/ranks.hpp>
#include <rankmesh/core/text.hpp>

namespace rankmesh::dialect {

using detail::cat;

void check_mesh(const Member& member, const Mesh& mesh, std::string_view plan) {
    if (member.mesh() != mesh)
        throw UsageError(cat("the member was joined with mesh ", to_string(member.mesh()), ", not ",
                             to_string(mesh), "; join with ", plan));
}

Member place(const Member& member, std::string_view mesh, std::string_view plan) {
    try {
        return member[mesh];
    } catch (const UsageError& error) {
        throw UsageError(cat(error.what(), "; or join with ", plan, ", which has it"));
    }
}

Communicator communicator(const Member& member, std::span<const std::string_view> names,
                          std::string_view plan) {
    try {
        return member.on(names);
    } catch (const UsageError& error) {
        throw UsageError(cat(error.what(), "; or join with ", plan, ", which has it"));
    }
}

std::optional<Communicator> pick(const Member& member, std::string_view name, const Group& group,
                                 std::string_view plan) {
    auto found = std::optional<Communicator>{};
    try {
        found = member.find(name);
    } catch (const UsageError& error) {
        throw UsageError(cat(error.what(), "; or join with ", plan, ", which has it"));
    }
    if (found ? !std::ranges::equal(found->world_ranks(), group) : group.contains(member.rank()))
        throw UsageError(
            cat("the member's pick '", name, "' ",
                found ? cat("is ", ranks_to_string(found->world_ranks())) : "leaves this rank out",
                ", where it must be ", to_string(group), "; join with ", plan));
    return found;
}

}  // namespace rankmesh::dialect
