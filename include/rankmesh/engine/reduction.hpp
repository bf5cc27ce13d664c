// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <rankmesh/engine/element.hpp>

namespace rankmesh {

/// How a reduction combines elements; floating-point results are rounded as by the engine.
///
/// Integer sums and products that overflow depend on the engine: they wrap around on threads, while Open MPI
/// 4.1 saturates sums of u8 and u16 where the processor has vectors for it.
enum class Reduction : std::uint8_t {
    sum,
    prod,
    min,
    max,
    mean,
    bit_and,
    bit_or,
    bit_xor,
    logical_and,
    logical_or,
    logical_xor
};

constexpr std::string_view to_string(Reduction reduction) {
    constexpr std::string_view names[] = {"sum",         "prod",       "min",        "max",
                                          "mean",        "bit_and",    "bit_or",     "bit_xor",
                                          "logical_and", "logical_or", "logical_xor"};
    return names[static_cast<std::size_t>(reduction)];
}

/// True if `reduction` is defined for `dtype`: mean for floating-point types only, bitwise ones for integers
/// and bytes, logical ones for integers and bools, the others for all numbers.
constexpr bool reduces(Reduction reduction, DType dtype) {
    if (reduction == Reduction::mean) return is_floating(dtype);
    if (reduction >= Reduction::logical_and) return is_integer(dtype) || dtype == DType::boolean;
    if (reduction >= Reduction::bit_and) return is_integer(dtype) || dtype == DType::byte;
    return is_integer(dtype) || is_floating(dtype);
}
/// True if `reduction` is defined for complex numbers: if it can be applied to the real and imaginary parts
/// separately.
constexpr bool reduces_complex(Reduction reduction) {
    return reduction == Reduction::sum || reduction == Reduction::mean;
}

namespace detail {
template <Reduction R>
struct ReductionTag {
    static constexpr auto value = R;
};
}  // namespace detail

inline constexpr detail::ReductionTag<Reduction::sum> sum{};
inline constexpr detail::ReductionTag<Reduction::prod> prod{};
inline constexpr detail::ReductionTag<Reduction::min> min{};
inline constexpr detail::ReductionTag<Reduction::max> max{};
inline constexpr detail::ReductionTag<Reduction::mean> mean{};  ///< sum, then divided by the group's size
inline constexpr detail::ReductionTag<Reduction::bit_and> bit_and{};
inline constexpr detail::ReductionTag<Reduction::bit_or> bit_or{};
inline constexpr detail::ReductionTag<Reduction::bit_xor> bit_xor{};
inline constexpr detail::ReductionTag<Reduction::logical_and> logical_and{};
inline constexpr detail::ReductionTag<Reduction::logical_or> logical_or{};
inline constexpr detail::ReductionTag<Reduction::logical_xor> logical_xor{};

namespace detail {
template <class R>
concept IsReduction = requires {
    requires std::same_as<decltype(std::remove_reference_t<R>::value), const Reduction>;
};
}  // namespace detail

/// True if R is a reduction tag that is defined for T: not the mean of integers, for example; complex numbers
/// have sum and mean. For void, a type that is known only at run time, the call checks instead.
template <class R, class T>
concept Reduces = detail::IsReduction<R> &&
    (std::is_void_v<T> || (Known<T> && reduces(R::value, dtype_of<T>::value)) ||
     (detail::Complex<T> && reduces_complex(R::value)));
/// The same for scan, which does not support mean.
template <class R, class T>
concept Scans = Reduces<R, T> && R::value != Reduction::mean;

}  // namespace rankmesh
