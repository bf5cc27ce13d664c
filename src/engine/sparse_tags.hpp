// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <rankmesh/engine/tag.hpp>

namespace rankmesh::detail {

/// The tags of messages of a sparse exchange, above those of a program. One exchange after the other has the
/// next: a rank may still look for messages of the last one when another sends those of the next.
constexpr std::uint64_t sparse_tags = 2;
constexpr std::uint16_t first_sparse_tag = Tag::most + 1;

constexpr bool is_sparse(std::uint16_t tag) { return tag >= first_sparse_tag; }

}  // namespace rankmesh::detail
