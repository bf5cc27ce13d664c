// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "engine/diagnosis/failure.hpp"

namespace rankmesh::detail {

/// A failure as an entry of a store says it.
struct FailureNote {
    int rank = -1;      // the rank that tells it
    std::string where;  // the connections that the rank was making, "" if none
    Failure failure;

    /// `3 2 connections.join 1\n{}\n{0..3}\n{4}\nthe timeout of ...`: rank, kind, where, the failure's lists
    /// and reason.
    std::string text() const;
    /// Reads such a text in a world of `size` ranks; throws EngineFailure for any other.
    static FailureNote from(std::string_view text, int size);
};

}  // namespace rankmesh::detail
