// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/member.hpp>

#include <algorithm>

#include <rankmesh/core/ranks.hpp>
#include <rankmesh/core/text.hpp>

namespace rankmesh::dialect {

using detail::cat;

namespace {

/// What `ask` returns; names `plan` in its errors.
auto asked(std::string_view plan, const auto& ask) {
    try {
        return ask();
    } catch (const UsageError& error) {
        throw UsageError(cat(error.what(), "; or join with ", plan, ", which has it"));
    }
}

}  // namespace

void check_mesh(const Member& member, const Mesh& mesh, std::string_view plan) {
    if (member.mesh() != mesh)
        throw UsageError(cat("the member was joined with mesh ", to_string(member.mesh()), ", not ",
                             to_string(mesh), "; join with ", plan));
}

Member place(const Member& member, std::string_view mesh, std::string_view plan) {
    return asked(plan, [&] { return member[mesh]; });
}

Communicator communicator(const Member& member, std::span<const std::string_view> names,
                          std::string_view plan) {
    return asked(plan, [&] { return member.on(names); });
}

std::optional<Communicator> pick(const Member& member, std::string_view name, const Group& group,
                                 std::string_view plan) {
    auto found = asked(plan, [&] { return member.find(name); });
    if (found ? !std::ranges::equal(found->world_ranks(), group) : group.contains(member.rank()))
        throw UsageError(
            cat("the member's pick '", name, "' ",
                found ? cat("is ", ranks_to_string(found->world_ranks())) : "leaves this rank out",
                ", where it must be ", to_string(group), "; join with ", plan));
    return found;
}

}  // namespace rankmesh::dialect
