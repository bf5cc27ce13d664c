// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <rankmesh/engine/buffer.hpp>

namespace rankmesh {

namespace detail {

/// One buffer of a list, its type erased.
template <class Void>
struct Piece {
    Void* data;
    std::size_t count;  // of dtype
    DType dtype;
    Space space;
    bool known;  // an engine can reduce its type
};

}  // namespace detail

/// A list of buffers of any sizes and types, for operations that pack them into few engine calls. What is
/// written may not overlap.
///
///     auto weights = std::vector<float>(100);
///     auto bias = 0.0;
///     EXPECT_EQ(Buffers(weights, bias).size(), 2U);
template <class Void>
class BufferList {
public:
    BufferList() = default;
    /// Of named buffers, one after the other.
    template <Buffer First, Buffer... Rest>
    requires Outlives<First> &&(Outlives<Rest>&&...) explicit BufferList(First&& first, Rest&&... others) {
        add(first);
        (add(others), ...);
    }
    /// Of a range of buffers.
    template <std::ranges::input_range Range>
    requires(!Buffer<Range> &&
             Buffer<std::ranges::range_reference_t<Range>>) explicit BufferList(Range&& range) {
        for (auto&& buffer : range) add(std::forward<decltype(buffer)>(buffer));
    }
    /// Writable buffers may be read as well.
    template <std::same_as<void> Writable>
    requires std::is_const_v<Void> BufferList(const BufferList<Writable>& writable) {
        for (const auto& piece : writable.pieces())
            pieces_.push_back({piece.data, piece.count, piece.dtype, piece.space, piece.known});
    }

    /// Adds a buffer, which must outlive the operation.
    template <Buffer B>
    requires Outlives<B> &&(std::is_const_v<Void> || OutBuffer<B>)void add(B&& buffer) {
        using T = element_t<B>;
        pieces_.push_back({detail::data_of(buffer), detail::count_of(buffer), detail::dtype_in(buffer),
                           detail::space_of(buffer), Known<T> || std::is_void_v<T>});
    }
    std::size_t size() const { return pieces_.size(); }
    std::span<const detail::Piece<Void>> pieces() const { return pieces_; }

private:
    std::vector<detail::Piece<Void>> pieces_;
};

/// What a list operation writes, or reads and writes.
using Buffers = BufferList<void>;
/// What a list operation only reads.
using ConstBuffers = BufferList<const void>;

/// How a list of buffers is packed.
struct ListOptions {
    /// The most bytes that are copied together on their way into or out of one engine call. A larger buffer,
    /// and any of more than 64 KiB at its larger end, travels by itself, uncopied. A communicator keeps up to
    /// twice as much memory for its next list.
    std::size_t bucket_bytes = std::size_t{25} << 20;
};

}  // namespace rankmesh
