// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/frameworks/member.hpp>

#include <rankmesh/core/text.hpp>

namespace rankmesh::frameworks {

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

}  // namespace rankmesh::frameworks
