// SPDX-License-Identifier: Apache-2.0
// any_rank, the source of a message that any rank of the group may send, and Message, a message that waits to
// be received.
#pragma once

#include <cstddef>

#include <rankmesh/core/export.hpp>

namespace rankmesh {

/// The type of any_rank.
struct AnyRank {};
/// In place of a group rank: a message of any other rank of the group.
inline constexpr AnyRank any_rank = {};

namespace detail {
[[noreturn]] RANKMESH_EXPORT void refuse_length(int from, std::size_t bytes, std::size_t unit);
}  // namespace detail

/// A message that has been sent to this rank and not received.
struct Message {
    int from = 0;           ///< the group rank of the sender
    std::size_t bytes = 0;  ///< the length

    /// Returns the length in elements of type T. Throws UsageError if the message does not hold whole ones.
    template <class T>
    std::size_t count() const {
        if (bytes % sizeof(T) != 0) detail::refuse_length(from, bytes, sizeof(T));
        return bytes / sizeof(T);
    }
};

}  // namespace rankmesh
