// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/export.hpp>

namespace rankmesh::frameworks {

/// The kind of an error in a framework's vocabulary, for programs; the text is for people.
enum class Fault : std::uint8_t {
    sizes,            ///< sizes that do not fit each other or the world
    exists,           ///< made already
    unknown,          ///< no such axis, name or token
    not_initialised,  ///< asked before it was made
    out_of_range,     ///< a rank, stage or index that does not exist
    missing,          ///< something that is needed was not given
    exclusive,        ///< two things that do not go together
    not_member,       ///< this rank has no such group
    argument          ///< any other argument that makes no sense
};

constexpr std::string_view to_string(Fault fault) {
    constexpr std::string_view names[] = {"sizes",           "exists",       "unknown",
                                          "not initialised", "out of range", "missing",
                                          "exclusive",       "not a member", "argument"};
    return names[static_cast<std::size_t>(fault)];
}

/// What a framework throws: where the original raises an error, and in the words that it uses.
class RANKMESH_EXPORT Error : public UsageError {
public:
    Error(Fault kind, const auto&... parts) : UsageError(rankmesh::detail::cat(parts...)), fault(kind) {}
    Fault fault;
};

/// What a framework throws where the original silently does something wrong; `rule` names the line of
/// docs/frameworks.md that says why.
class RANKMESH_EXPORT Refusal : public Error {
public:
    Refusal(Fault kind, std::string_view line, const auto&... parts) : Error(kind, parts...), rule(line) {}
    std::string rule;
};

/// Throws Error for a rank that a world of this size does not have.
inline void check_rank(int rank, int world_size) {
    if (rank < 0 || rank >= world_size)
        throw Error(Fault::out_of_range, rankmesh::detail::cat("rank ", rank, " of a world of ", world_size,
                                                               "; ranks are 0..", world_size - 1));
}

}  // namespace rankmesh::frameworks
