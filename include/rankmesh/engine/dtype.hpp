// SPDX-License-Identifier: Apache-2.0
// DType, the element types that engines know.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <rankmesh/engine/half.hpp>

namespace rankmesh {

/// The element types that engines know.
enum class DType : std::uint8_t {
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
    boolean,
    byte,
    f8e4m3,
    f8e5m2,
    f16,
    bf16,
    f32,
    f64
};

namespace detail {
/// At namespace scope, because a local array would be built on the stack in each call.
inline constexpr std::uint8_t dtype_sizes[] = {1, 2, 4, 8, 1, 2, 4, 8, 1, 1, 1, 1, 2, 2, 4, 8};
}  // namespace detail

constexpr std::size_t size_of(DType dtype) { return detail::dtype_sizes[static_cast<std::size_t>(dtype)]; }

constexpr std::string_view to_string(DType dtype) {
    constexpr std::string_view names[] = {"i8",   "i16",  "i32",    "i64",    "u8",  "u16",  "u32", "u64",
                                          "bool", "byte", "f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64"};
    return names[static_cast<std::size_t>(dtype)];
}

/// Returns true for floating-point types; only they have rankmesh::mean.
constexpr bool is_floating(DType dtype) { return dtype >= DType::f16; }
/// Returns true for signed and unsigned integers.
constexpr bool is_integer(DType dtype) { return dtype <= DType::u64; }

/// The DType of T, `dtype_of<T>::value`. Specialise it for your own type with the same bytes.
///
/// An element type without a DType can be sent as bytes, but not reduced.
template <class T>
struct dtype_of {};

namespace detail {
template <DType D>
struct Constant {
    static constexpr auto value = D;
};

/// The DType of an integer by sign and size; engines do not distinguish `long` and `long long`.
template <class T>
constexpr DType integer_dtype() {
    constexpr auto first = std::signed_integral<T> ? DType::i8 : DType::u8;
    return static_cast<DType>(static_cast<int>(first) + std::countr_zero(sizeof(T)));
}
}  // namespace detail

template <std::integral T>
    requires(sizeof(T) <= 8)
struct dtype_of<T> : detail::Constant<detail::integer_dtype<T>()> {};
template <>
struct dtype_of<bool> : detail::Constant<DType::boolean> {};
template <>
struct dtype_of<std::byte> : detail::Constant<DType::byte> {};
template <>
struct dtype_of<f8e4m3> : detail::Constant<DType::f8e4m3> {};
template <>
struct dtype_of<f8e5m2> : detail::Constant<DType::f8e5m2> {};
template <>
struct dtype_of<f16> : detail::Constant<DType::f16> {};
template <>
struct dtype_of<bf16> : detail::Constant<DType::bf16> {};
template <>
struct dtype_of<float> : detail::Constant<DType::f32> {};
template <>
struct dtype_of<double> : detail::Constant<DType::f64> {};

/// A type that engines know and can reduce.
template <class T>
concept Known = requires { dtype_of<T>::value; };

}  // namespace rankmesh
