// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rankmesh/engine/detail/memory_layout.hpp>

namespace rankmesh::detail {

/// Copies the elements of a layout, whose first one is at `from`, one after the other.
void pack(const MemoryLayout& layout, const char* from, char* to);
/// Copies elements that lie one after the other to where a layout has them.
void unpack(const MemoryLayout& layout, const char* from, char* to);
/// Copies elements, `bytes` long together, from one place to another where they have the same layout.
void copy(const MemoryLayout& layout, std::size_t bytes, const char* from, char* to);

/// Elements in memory: `count` contiguous bytes, or those of a layout.
struct Place {
    const void* data;
    std::size_t bytes;
    const MemoryLayout& layout;
};
/// True if two places share a byte. Exact, but for layouts of many strides that do not contain each other,
/// where it may be true as well.
bool overlap(const Place& a, const Place& b);
/// True if two elements of a layout may share a byte.
bool overlaps_itself(const MemoryLayout& layout);

}  // namespace rankmesh::detail
