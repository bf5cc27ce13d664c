// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

namespace rankmesh {

/// How a reduction combines elements.
enum class Reduction : std::uint8_t { sum, min, max, mean };

constexpr std::string_view to_string(Reduction reduction) {
    constexpr std::string_view names[] = {"sum", "min", "max", "mean"};
    return names[static_cast<std::size_t>(reduction)];
}

namespace detail {
template <Reduction R>
struct ReductionTag {
    static constexpr auto value = R;
};
}  // namespace detail

inline constexpr detail::ReductionTag<Reduction::sum> sum{};
inline constexpr detail::ReductionTag<Reduction::min> min{};
inline constexpr detail::ReductionTag<Reduction::max> max{};
inline constexpr detail::ReductionTag<Reduction::mean> mean{};  ///< sum, then divided by the group's size

/// True for sum, min and max of any element, and for mean of floating ones.
template <class R, class T>
concept Reduces = requires {
    requires std::same_as<decltype(R::value), const Reduction>;
}
&&(R::value != Reduction::mean || std::floating_point<T>);

}  // namespace rankmesh
