// SPDX-License-Identifier: Apache-2.0
// The least or the greatest value and where it is, like MPI_MINLOC and MPI_MAXLOC.
#pragma once

#include <concepts>
#include <cstdint>

#include <rankmesh/engine/function.hpp>

namespace rankmesh {

/// A value with its index, such as the rank that has it.
template <class T>
struct Located {
    T value;
    std::int64_t index;
    friend bool operator==(const Located&, const Located&) = default;
};
template <class T, std::integral I>
Located(T, I) -> Located<T>;

namespace detail {

/// `value` in order: sixteen-bit floats compare as floats.
template <class T>
constexpr auto in_order(const T& value) {
    if constexpr (std::integral<T> || std::floating_point<T>)
        return value;
    else
        return static_cast<float>(value);
}

/// Associative and commutative for all values: a NaN comes before every number.
template <bool greatest>
struct Locates {
    template <class T>
    Located<T> operator()(const Located<T>& one, const Located<T>& other) const {
        const auto a = in_order(one.value);
        const auto b = in_order(other.value);
        const auto a_is_nan = a != a;
        const auto b_is_nan = b != b;
        if (a_is_nan != b_is_nan) return a_is_nan ? one : other;
        if (!a_is_nan && a != b) return (greatest ? a > b : a < b) ? one : other;
        return one.index <= other.index ? one : other;
    }
};

template <class L>
concept IsLocated = std::same_as<L, Located<decltype(L::value)>> && Known<decltype(L::value)> &&
                    reduces(Reduction::min, dtype_of<decltype(L::value)>::value);

template <Reduction R>
struct LocationTag {
    static constexpr auto value = R;
    template <class L>
    static constexpr bool combines = IsLocated<L>;
    template <class L>
    static constexpr auto function =
        Function{&apply_function<Locates<R == Reduction::max_location>, L>, true};
};

}  // namespace detail

/// The least value with its index; of equal values the one with the lowest index. A NaN counts as less than
/// every number, as in numpy.argmin. Only host engines support it.
///
///     void find_slowest(auto& dp, double seconds, std::int64_t& rank) {
///         auto most = Located{seconds, dp.rank()};
///         dp.all_reduce(most, max_location);
///         rank = most.index;
///     }
inline constexpr detail::LocationTag<Reduction::min_location> min_location{};
/// The greatest value with its index; of equal values the one with the lowest index. A NaN counts as greater
/// than every number. Otherwise like min_location.
inline constexpr detail::LocationTag<Reduction::max_location> max_location{};

}  // namespace rankmesh
