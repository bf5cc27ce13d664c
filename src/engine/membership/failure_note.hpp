// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "engine/diagnosis/failure.hpp"

namespace rankmesh::detail {

/// What a rank writes into the store of a rendezvous about a failure.
struct FailureNote {
    int rank = -1;      // that tells it
    std::string where;  // the connections that it was making, "" otherwise
    Failure failure;

    /// `3 2 connections.join 1\n{}\n{0..3}\n{4}\nthe timeout of ...`: the rank that tells, the kind, where,
    /// its lists and its reason.
    std::string text() const;
    /// Reads such a text in a world of `size` ranks; throws EngineFailure for any other.
    static FailureNote from(std::string_view text, int size);
};

}  // namespace rankmesh::detail
