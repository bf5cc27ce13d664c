// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <string_view>
#include <type_traits>

namespace rankmesh {

/// What one element of a buffer is, as engines know it.
enum class DType : std::uint8_t { i32, i64, f32, f64 };

constexpr std::size_t size_of(DType dtype) { return dtype == DType::i32 || dtype == DType::f32 ? 4 : 8; }

constexpr std::string_view to_string(DType dtype) {
    constexpr std::string_view names[] = {"i32", "i64", "f32", "f64"};
    return names[static_cast<std::size_t>(dtype)];
}

/// The DType of T, as `dtype_of<T>::value`: specialise it for a type of your own with the same bytes.
template <class T>
struct dtype_of {};
template <class T>
requires std::signed_integral<T> &&(sizeof(T) == 4) struct dtype_of<T> {
    static constexpr auto value = DType::i32;
};
template <class T>
requires std::signed_integral<T> &&(sizeof(T) == 8) struct dtype_of<T> {
    static constexpr auto value = DType::i64;
};
template <>
struct dtype_of<float> {
    static constexpr auto value = DType::f32;
};
template <>
struct dtype_of<double> {
    static constexpr auto value = DType::f64;
};

/// A type that collectives can carry.
template <class T>
concept Element = requires {
    dtype_of<std::remove_cv_t<T>>::value;
};

/// What a collective reads: a contiguous range of elements, or one element.
template <class B>
concept Buffer = Element<std::remove_cvref_t<B>> ||
    (std::ranges::contiguous_range<B>&& std::ranges::sized_range<B>&& Element<std::ranges::range_value_t<B>>);

namespace detail {

template <class B>
struct element_of {
    using type = std::ranges::range_value_t<B>;
};
template <class B>
requires Element<std::remove_cvref_t<B>>
struct element_of<B> {
    using type = std::remove_cvref_t<B>;
};

}  // namespace detail

/// The type of a buffer's elements.
template <Buffer B>
using element_t = typename detail::element_of<B>::type;

namespace detail {

template <Buffer B>
constexpr auto data_of(B&& buffer) {
    if constexpr (Element<std::remove_cvref_t<B>>)
        return &buffer;
    else
        return std::ranges::data(buffer);
}

template <Buffer B>
constexpr std::size_t count_of(B&& buffer) {
    if constexpr (Element<std::remove_cvref_t<B>>)
        return 1;
    else
        return std::ranges::size(buffer);
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
