// SPDX-License-Identifier: Apache-2.0
// The parts from which a mesh is declared: an axis, its size, references to axes, and sets of axes.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>

#include <rankmesh/core/layout.hpp>
#include <rankmesh/core/name.hpp>

namespace rankmesh {

/// The type of `rest`, a size that is computed from the number of ranks of the world; `*` in text.
struct Rest {
    friend constexpr bool operator==(Rest, Rest) = default;
};
inline constexpr Rest rest{};

/// The size of an axis: a number, or `rest`.
class Extent {
public:
    constexpr Extent() = default;  // 0: no size, which no mesh accepts
    constexpr Extent(int size) : size_(size) {}
    constexpr Extent(Rest) : is_rest_(true) {}
    constexpr bool is_rest() const { return is_rest_; }
    constexpr int size() const { return size_; }

private:
    int size_ = 0;
    bool is_rest_ = false;
};

/// A named dimension of a mesh: `{"tp", 8}`, `{"dp", rest}`, or with an explicit stride `{"dp", 4, 8}`.
struct Axis {
    std::string_view name = {};
    Extent size = {};
    int stride = 0;  ///< ranks between neighbours; 0: the product of the sizes of all inner axes
};

/// An axis by its position in one mesh, 0 for the outermost; faster than a name.
struct AxisId {
    int index = 0;
    friend constexpr bool operator==(AxisId, AxisId) = default;
};

/// An argument that names an axis: an AxisId, or a string.
template <class T>
concept AxisRef = std::same_as<std::remove_cvref_t<T>, AxisId> || std::convertible_to<T, std::string_view>;

/// An unordered set of axes of one mesh.
class AxisSet {
public:
    /// Adds an axis. Throws UsageError unless its index is 0 to 15.
    constexpr void insert(AxisId axis) {
        if (axis.index < 0 || axis.index >= max_axes)
            throw UsageError(detail::cat("axis number ", axis.index,
                                         " was put into a set; a mesh has axes 0..", max_axes - 1,
                                         " at most"));
        bits_ |= std::uint32_t{1} << axis.index;
    }
    constexpr bool contains(AxisId axis) const {
        return axis.index >= 0 && axis.index < max_axes && (bits_ >> axis.index & 1U) != 0;
    }
    constexpr bool empty() const { return bits_ == 0; }
    /// Returns one bit for each axis; bit 0 is the outermost axis.
    constexpr std::uint32_t bits() const { return bits_; }
    friend constexpr bool operator==(AxisSet, AxisSet) = default;

private:
    std::uint32_t bits_ = 0;
};

/// What follows the last index of an axis: nothing (`open`), or the first index (`wrap`).
enum class Edge : std::uint8_t { open, wrap };

namespace detail {

/// Returns the product of the known sizes. Throws UsageError if a size is below 1, a stride is negative, or
/// the product is 2^31 or more.
constexpr int checked_product(std::span<const Axis> axes) {
    auto product = std::int64_t{1};
    for (const auto& axis : axes) {
        checked_name(axis.name);
        if (axis.size.is_rest()) continue;
        if (axis.size.size() < 1)
            throw UsageError(
                cat("axis '", axis.name, "' has size ", axis.size.size(), "; sizes are 1 or more"));
        if (axis.stride < 0)
            throw UsageError(
                cat("axis '", axis.name, "' has stride ", axis.stride, "; strides are 1 or more"));
        product *= axis.size.size();
        if (product > std::numeric_limits<int>::max())
            throw UsageError(cat("the axes up to '", axis.name, "' make ", product,
                                 " ranks; a world has at most ", std::numeric_limits<int>::max()));
    }
    return static_cast<int>(product);
}

/// Returns the digit of an axis. Throws UsageError if the axis reaches beyond rank 2^31 - 2.
constexpr Digit checked_digit(std::string_view axis, int size, int stride) {
    const auto last = (std::int64_t{size} - 1) * stride;
    if (last >= std::numeric_limits<int>::max())
        throw UsageError(cat("axis '", axis, "' of size ", size, " and stride ", stride, " reaches rank ",
                             last, "; ranks are 0..", std::numeric_limits<int>::max() - 1));
    return {size, stride};
}

}  // namespace detail

}  // namespace rankmesh
