// SPDX-License-Identifier: Apache-2.0
// The sparse exchange of languages whose elements have a type only when the program runs.
#pragma once

#include <rankmesh/engine/sparse.hpp>
#include <rankmesh/engine/tag.hpp>

namespace rankmesh::detail {

/// The tags of messages of a sparse exchange, above those of a program. One exchange after the other has the
/// next: a rank may still look for messages of the last one when another sends those of the next.
constexpr std::uint64_t sparse_tags = 2;
constexpr std::uint16_t first_sparse_tag = Tag::most + 1;

constexpr bool is_sparse(std::uint16_t tag) { return tag >= first_sparse_tag; }

/// Pairs of a sender's group rank and the bytes of its message, ordered by sender.
using SparseBytes = std::vector<std::pair<int, std::vector<char>>>;
/// Like sparse_all_to_all, for elements like those of `like`.
SparseBytes sparse_bytes(Communicator& on, std::span<const SparseMessage> messages,
                         const AnyBuffer<const void>& like);

}  // namespace rankmesh::detail
