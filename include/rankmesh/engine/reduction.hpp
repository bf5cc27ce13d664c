// SPDX-License-Identifier: Apache-2.0
// Reductions: sum, mean, minimum and others, and the types that they support.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <rankmesh/engine/element.hpp>

namespace rankmesh {

/// How a reduction combines elements. The engine determines the rounding of floating-point results.
///
/// Integer overflow depends on the engine: sums and products wrap around on threads, but Open MPI 4.1
/// saturates sums of u8 and u16 on processors with suitable vector instructions.
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
    logical_xor,
    reproducible_sum,
    min_location,
    max_location,
    user_defined
};

namespace detail {
/// The elements for which a reduction is defined.
enum class ReducedElements : std::uint8_t { numbers, floats, integers_and_bytes, integers_and_bools, own };

/// A row describes each reduction, in the order of `Reduction`: its name, the elements for which it is
/// defined (`own`: those of the Function that comes with the call), and whether its results are 0 and 1.
struct ReductionTraits {
    std::string_view name;
    ReducedElements elements = ReducedElements::numbers;
    bool is_logical = false;
};
inline constexpr ReductionTraits reductions[] = {{"sum"},
                                                 {"prod"},
                                                 {"min"},
                                                 {"max"},
                                                 {"mean", ReducedElements::floats},
                                                 {"bit_and", ReducedElements::integers_and_bytes},
                                                 {"bit_or", ReducedElements::integers_and_bytes},
                                                 {"bit_xor", ReducedElements::integers_and_bytes},
                                                 {"logical_and", ReducedElements::integers_and_bools, true},
                                                 {"logical_or", ReducedElements::integers_and_bools, true},
                                                 {"logical_xor", ReducedElements::integers_and_bools, true},
                                                 {"reproducible_sum", ReducedElements::floats},
                                                 {"min_location", ReducedElements::own},
                                                 {"max_location", ReducedElements::own},
                                                 {"user_defined", ReducedElements::own}};
constexpr const ReductionTraits& traits(Reduction reduction) {
    return reductions[static_cast<std::size_t>(reduction)];
}
/// True for a reduction by a Function that comes with the call.
constexpr bool by_function(Reduction reduction) { return traits(reduction).elements == ReducedElements::own; }
}  // namespace detail

constexpr std::string_view to_string(Reduction reduction) { return detail::traits(reduction).name; }

/// Returns true if `reduction` is defined for `dtype`: mean and reproducible_sum for floating-point types,
/// bitwise reductions for integers and bytes, logical reductions for integers and bools, locations and
/// functions for elements of their own, all others for all numbers.
constexpr bool reduces(Reduction reduction, DType dtype) {
    switch (detail::traits(reduction).elements) {
        case detail::ReducedElements::numbers:
            return is_integer(dtype) || is_floating(dtype);
        case detail::ReducedElements::floats:
            return is_floating(dtype);
        case detail::ReducedElements::integers_and_bytes:
            return is_integer(dtype) || dtype == DType::byte;
        case detail::ReducedElements::integers_and_bools:
            return is_integer(dtype) || dtype == DType::boolean;
        case detail::ReducedElements::own:
            break;
    }
    return true;
}
/// Returns true if `reduction` is defined for complex numbers: it must apply to real and imaginary parts
/// separately.
constexpr bool reduces_complex(Reduction reduction) {
    return reduction == Reduction::sum || reduction == Reduction::mean ||
           reduction == Reduction::reproducible_sum;
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
/// The exact sum, rounded once: the same bits on every engine, for every order and grouping of the ranks.
inline constexpr detail::ReductionTag<Reduction::reproducible_sum> reproducible_sum{};

namespace detail {
template <class R>
concept IsReduction =
    requires { requires std::same_as<decltype(std::remove_reference_t<R>::value), const Reduction>; };

/// How two elements are combined, where no engine has that reduction.
struct Function {
    /// Replaces each of `count` elements of `into` by the combination of that of `before`, which come from
    /// lower ranks, with itself. Neither is aligned.
    void (*apply)(const void* before, void* into, std::size_t count);
    bool commutes;
};
/// A reduction that has a Function for T.
template <class R, class T>
concept Combines = R::template combines<T>;
}  // namespace detail

/// True if R is a reduction that is defined for T. For example, integers have no mean; complex numbers have
/// only sums and mean. For void, a type known only at run time, the call checks instead.
template <class R, class T>
concept Reduces =
    detail::IsReduction<R> &&
    (detail::Combines<R, T> || (!detail::by_function(R::value) &&
                                (std::is_void_v<T> || (Known<T> && reduces(R::value, dtype_of<T>::value)) ||
                                 (detail::Complex<T> && reduces_complex(R::value)))));
/// Like Reduces, for scan and exclusive_scan, which do not support mean.
template <class R, class T>
concept Scans = Reduces<R, T> && R::value != Reduction::mean;

}  // namespace rankmesh
