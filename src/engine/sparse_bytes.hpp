// SPDX-License-Identifier: Apache-2.0
// The sparse exchange of languages whose elements have a type only when the program runs.
#pragma once

#include <utility>
#include <vector>

#include <rankmesh/engine/sparse.hpp>

namespace rankmesh::detail {

/// Pairs of a sender's group rank and the bytes of its message, ordered by sender.
using SparseBytes = std::vector<std::pair<int, std::vector<char>>>;
/// Like sparse_all_to_all, for elements like those of `like`.
SparseBytes sparse_bytes(Communicator& on, std::span<const SparseMessage> messages,
                         const AnyBuffer<const void>& like);

}  // namespace rankmesh::detail
