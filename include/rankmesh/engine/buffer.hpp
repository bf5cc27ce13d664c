// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ranges>
#include <type_traits>

#include <rankmesh/engine/dtype.hpp>

namespace rankmesh {

/// A type that collectives can carry: one that an engine knows, or any other whose bytes are its value.
template <class T>
concept Element = Known<T> ||
    (std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && !std::is_empty_v<T>);

namespace detail {

template <class B>
concept ElementRange =
    std::ranges::contiguous_range<B> && std::ranges::sized_range<B> && Element<std::ranges::range_value_t<B>>;
template <class B>
concept OneElement = !std::ranges::range<B> && Element<std::remove_cvref_t<B>>;

}  // namespace detail

/// What a collective reads: a contiguous range of elements, or one element.
template <class B>
concept Buffer = detail::ElementRange<B> || detail::OneElement<B>;

namespace detail {

template <class B>
struct element_of {
    using type = std::remove_cvref_t<B>;
};
template <ElementRange B>
struct element_of<B> {
    using type = std::ranges::range_value_t<B>;
};

}  // namespace detail

/// The type of a buffer's elements.
template <Buffer B>
using element_t = typename detail::element_of<B>::type;

namespace detail {

/// What an engine takes the elements of T for: bytes, where it does not know T.
template <class T>
constexpr DType dtype_for() {
    if constexpr (Known<T>)
        return dtype_of<T>::value;
    else
        return DType::byte;
}

template <Buffer B>
constexpr auto data_of(B&& buffer) {
    if constexpr (ElementRange<B>)
        return std::ranges::data(buffer);
    else
        return &buffer;
}

/// The length in elements of `dtype_for`.
template <Buffer B>
constexpr std::size_t count_of(B&& buffer) {
    constexpr auto width = Known<element_t<B>> ? 1 : sizeof(element_t<B>);
    if constexpr (ElementRange<B>)
        return std::ranges::size(buffer) * width;
    else
        return width;
}

}  // namespace detail

/// What a collective writes: a buffer whose elements are not const.
template <class B>
concept OutBuffer = Buffer<B> && requires(B&& buffer) {
    requires !std::is_const_v<std::remove_pointer_t<decltype(detail::data_of(buffer))>>;
};

/// A buffer that outlives the call: a named one, or a span. What `start_` demands, since it returns before
/// the end.
template <class B>
concept Outlives = std::is_lvalue_reference_v<B> || std::ranges::borrowed_range<B>;

}  // namespace rankmesh
