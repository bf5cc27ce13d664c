// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ranges>
#include <type_traits>

#include <rankmesh/engine/device.hpp>
#include <rankmesh/engine/dtype.hpp>

namespace rankmesh {

namespace detail {
template <class T>
inline constexpr bool is_memory = false;
template <class T>
inline constexpr bool is_memory<Memory<T>> = true;
}  // namespace detail

/// A type that collectives can carry: one that an engine knows, or any other whose bytes are its value.
template <class T>
concept Element = Known<T> ||(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> &&
                              !std::is_empty_v<T> && !detail::is_memory<T>);

namespace detail {

template <class B>
concept ElementRange =
    std::ranges::contiguous_range<B> && std::ranges::sized_range<B> && Element<std::ranges::range_value_t<B>>;
template <class B>
concept OneElement = !std::ranges::range<B> && Element<std::remove_cvref_t<B>>;
template <class B>
concept ElementMemory = is_memory<std::remove_cvref_t<B>> &&
    (std::is_void_v<typename std::remove_cvref_t<B>::value_type> ||
     Element<std::remove_const_t<typename std::remove_cvref_t<B>::value_type>>);

}  // namespace detail

/// What a collective reads: a contiguous range of elements, memory of a device, or one element.
template <class B>
concept Buffer = detail::ElementRange<B> || detail::ElementMemory<B> || detail::OneElement<B>;

namespace detail {

template <class B>
struct element_of {
    using type = std::remove_cvref_t<B>;
};
template <ElementRange B>
struct element_of<B> {
    using type = std::ranges::range_value_t<B>;
};
template <ElementMemory B>
struct element_of<B> {
    using type = std::remove_const_t<typename std::remove_cvref_t<B>::value_type>;
};

}  // namespace detail

/// The type of a buffer's elements; void where it is known only at run time.
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

/// The same of a buffer's elements.
template <Buffer B>
constexpr DType dtype_in(B&& buffer) {
    if constexpr (std::is_void_v<element_t<B>>)
        return buffer.dtype();
    else
        return dtype_for<element_t<B>>();
}

template <Buffer B>
constexpr auto data_of(B&& buffer) {
    if constexpr (ElementRange<B>)
        return std::ranges::data(buffer);
    else if constexpr (ElementMemory<B>)
        return buffer.data();
    else
        return &buffer;
}

/// The elements of `dtype_for` that one element of T is.
template <class T>
inline constexpr std::size_t unit_of = Known<T> ? 1 : sizeof(T);
template <>
inline constexpr std::size_t unit_of<void> = 1;

/// The length in elements of `dtype_for`.
template <Buffer B>
constexpr std::size_t count_of(B&& buffer) {
    if constexpr (ElementRange<B>)
        return std::ranges::size(buffer) * unit_of<element_t<B>>;
    else if constexpr (ElementMemory<B>)
        return buffer.size() * unit_of<element_t<B>>;
    else
        return unit_of<element_t<B>>;
}

template <Buffer B>
constexpr Space space_of(B&& buffer) {
    if constexpr (ElementMemory<B>)
        return buffer.space();
    else
        return Space::host;
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
concept Outlives = std::is_lvalue_reference_v<B> || std::ranges::borrowed_range<B> ||
    detail::is_memory<std::remove_cvref_t<B>>;

}  // namespace rankmesh
