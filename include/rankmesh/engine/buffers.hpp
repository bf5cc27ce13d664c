// SPDX-License-Identifier: Apache-2.0
// Lists of buffers, for operations that pack many buffers into few engine calls.
#pragma once

#include <concepts>
#include <cstddef>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/detail/accept.hpp>

namespace rankmesh {

template <class Void>
class BufferList;

namespace detail {

struct ListAccess;

template <class Void>
inline constexpr bool is_list<BufferList<Void>> = true;

/// `buffer 3 of a list`.
RANKMESH_EXPORT std::string buffer_of_list(std::size_t number);

template <class T, class Void>
concept WritableOf = std::is_void_v<T> && !std::is_const_v<T> && std::is_const_v<Void>;
/// A range of buffers.
template <class Range>
concept RangeOfBuffers =
    std::ranges::input_range<Range> && !Buffer<Range> && Buffer<std::ranges::range_reference_t<Range>>;
/// A view that does not own its elements. A view of a temporary container owns it and cannot be copied.
template <class Range>
concept ViewOfOthers = std::ranges::view<Range> && std::copyable<Range>;
/// The type of one buffer of the Range; an rvalue if a temporary Range owns its elements.
template <class Range>
using each_of_t =
    std::conditional_t<std::is_lvalue_reference_v<Range> || ViewOfOthers<std::remove_cvref_t<Range>> ||
                           !std::is_lvalue_reference_v<std::ranges::range_reference_t<Range>>,
                       std::ranges::range_reference_t<Range>,
                       std::remove_reference_t<std::ranges::range_reference_t<Range>>>;

}  // namespace detail

/// A list of buffers of any sizes and types. List operations pack the buffers into few engine calls. Output
/// buffers must not overlap.
///
///     auto weights = std::vector<float>(100);
///     auto bias = 0.0;
///     EXPECT_EQ(Buffers(weights, bias).size(), 2U);
template <class Void>
class BufferList {
public:
    BufferList() = default;
    /// Makes a list of the arguments, in order. Each argument is a buffer or a range of buffers.
    template <detail::BufferArgument First, detail::BufferArgument... Rest>
    explicit BufferList(First&& first, Rest&&... others) {
        add(std::forward<First>(first));
        (add(std::forward<Rest>(others)), ...);
    }
    /// Converts a list of writable buffers to a list of read-only buffers.
    template <detail::WritableOf<Void> Writable>
    BufferList(const BufferList<Writable>& writable) {
        pieces_.assign(writable.pieces_.begin(), writable.pieces_.end());
    }

    /// Adds a buffer or a range of buffers, which must outlive the operation. Throws UsageError if
    /// buffer_traits refuse a buffer.
    template <class B>
    void add(B&& buffer) {
        if constexpr (detail::RangeOfBuffers<B>)
            for (auto&& each : buffer) add_one<detail::each_of_t<B>>(each);
        else
            add_one<B>(buffer);
    }
    std::size_t size() const { return pieces_.size(); }

private:
    template <class>
    friend class BufferList;
    friend struct detail::ListAccess;

    template <class B>
    void add_one(std::remove_reference_t<B>& buffer) {
        constexpr auto fault = detail::Laid<B>         ? detail::Fault::strided_in_list
                               : std::is_const_v<Void> ? detail::fault_of_in<B>()
                                                       : detail::fault_of_out<B>();
        if constexpr (detail::accept<fault>()) {
            const auto what = [&] { return detail::buffer_of_list(pieces_.size()); };
            pieces_.push_back(detail::any_buffer<Void>(buffer, what));
        }
    }

    std::vector<detail::AnyBuffer<Void>> pieces_;
};

/// The outputs of a list operation, or its in-place buffers.
using Buffers = BufferList<void>;
/// The inputs of a list operation.
using ConstBuffers = BufferList<const void>;

/// How list operations pack buffers.
struct ListOptions {
    /// The most bytes to pack into one engine call. Buffers larger than this, and buffers whose input or
    /// output exceeds 64 KiB, get their own call without a copy. A communicator keeps up to twice this memory
    /// for the next list.
    std::size_t bucket_bytes = std::size_t{25} << 20;
};

}  // namespace rankmesh
