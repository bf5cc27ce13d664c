// SPDX-License-Identifier: Apache-2.0
// Where the elements of a strided buffer lie, and the call on strided buffers.
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <span>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/buffer.hpp>
#include <rankmesh/engine/detail/call.hpp>

namespace rankmesh::detail {

/// Elements of equal size at regular distances, in the row-major order of their indices. Without dimensions
/// the elements lie one after the other.
class MemoryLayout {
public:
    struct Dimension {
        std::ptrdiff_t extent;
        std::ptrdiff_t stride;  // in bytes
        friend bool operator==(const Dimension&, const Dimension&) = default;
    };
    /// The most dimensions that remain after dimensions of one element are dropped, and neighbours merged.
    static constexpr std::size_t most = 8;

    MemoryLayout() = default;
    explicit MemoryLayout(std::size_t element_bytes) : run_(element_bytes) {}
    bool is_contiguous() const { return rank_ == 0; }
    std::span<const Dimension> dimensions() const { return {dimensions_.data(), rank_}; }
    /// The bytes that lie together.
    std::size_t run() const { return run_; }
    friend bool operator==(const MemoryLayout& a, const MemoryLayout& b);
    friend void add_dimension(MemoryLayout& to, std::ptrdiff_t extent, std::ptrdiff_t stride);
    friend void end_dimensions(MemoryLayout& of);

private:
    std::size_t run_ = 0;
    std::size_t rank_ = 0;
    std::array<Dimension, most> dimensions_ = {};
};

/// Adds a dimension inside those before it; the stride is in bytes. Throws UsageError for a negative extent,
/// and past MemoryLayout::most dimensions.
RANKMESH_EXPORT void add_dimension(MemoryLayout& to, std::ptrdiff_t extent, std::ptrdiff_t stride);
/// Ends the list of dimensions: innermost elements that lie together become one run.
RANKMESH_EXPORT void end_dimensions(MemoryLayout& of);

/// The layout of a buffer; contiguous unless its traits have strides.
template <Buffer B>
MemoryLayout layout_of(const B& buffer) {
    if constexpr (Laid<B>) {
        const auto bytes = size_of(dtype_in(buffer)) * unit_of<element_t<B>>;
        auto layout = MemoryLayout(bytes);
        const auto strides = traits_of<B>::strides(buffer);
        auto stride = std::begin(strides);
        for (auto extent : traits_of<B>::extents(buffer))
            add_dimension(layout, static_cast<std::ptrdiff_t>(extent),
                          static_cast<std::ptrdiff_t>(*stride++) * static_cast<std::ptrdiff_t>(bytes));
        end_dimensions(layout);
        return layout;
    } else {
        return {};
    }
}

/// A call whose input, output or both are strided. `in` and `out` point to their first elements.
struct StridedCall : Call {
    StridedCall(const Call& call, const MemoryLayout& of_in, const MemoryLayout& of_out)
        : Call(call), in_layout(of_in), out_layout(of_out) {}

    MemoryLayout in_layout;
    MemoryLayout out_layout;
    bool own_part = false;  ///< in place, the shorter buffer is this rank's part of the packed longer one
};

}  // namespace rankmesh::detail
