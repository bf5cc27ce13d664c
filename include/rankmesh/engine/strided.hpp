// SPDX-License-Identifier: Apache-2.0
// Strided views as buffers: faces and blocks of arrays, and views like std::mdspan.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <rankmesh/core/error.hpp>
#include <rankmesh/engine/buffer.hpp>

namespace rankmesh {

namespace detail {

/// An extent or a stride, of any integer type.
class Length {
public:
    template <std::integral N>
    constexpr Length(N n) : value_(static_cast<std::ptrdiff_t>(n)) {
        if (!std::in_range<std::ptrdiff_t>(n))
            throw UsageError(std::to_string(n) + " was given as an extent or a stride; they are at most " +
                             std::to_string(PTRDIFF_MAX));
    }
    constexpr operator std::ptrdiff_t() const { return value_; }

private:
    std::ptrdiff_t value_;
};

[[noreturn]] RANKMESH_EXPORT void wrong_slice(std::size_t axis, std::ptrdiff_t first, std::ptrdiff_t count,
                                              std::size_t dimensions, std::ptrdiff_t extent);

}  // namespace detail

/// A view of host memory whose elements lie at regular distances: a face or a block of an array. A buffer of
/// every operation but those on lists, its elements in the row-major order of their indices.
///
/// Operations copy the elements through memory of the communicator: inputs before the call, outputs after it.
/// If the elements lie one after the other, nothing is copied. Throws UsageError for outputs in which
/// elements overlap, and for memory of a device.
template <class T, std::size_t N>
class Strided {
public:
    using value_type = std::remove_cv_t<T>;
    using Lengths = std::array<std::ptrdiff_t, N>;

    /// Strides are in elements, outermost dimension first; they may be negative.
    constexpr Strided(T* data, const Lengths& extents, const Lengths& strides)
        : data_(data), extents_(extents), strides_(strides) {}

    constexpr T* data() const { return data_; }
    constexpr const Lengths& extents() const { return extents_; }
    constexpr const Lengths& strides() const { return strides_; }
    constexpr std::size_t size() const {
        auto size = std::size_t{1};
        for (auto extent : extents_) size *= static_cast<std::size_t>(extent);
        return size;
    }

    /// Returns the view of `count` indices from `first` on along one dimension. Throws UsageError if there
    /// are fewer.
    ///
    ///     auto values = std::vector<int>{0, 1, 2, 3, 4, 5};
    ///     const auto column = strided(values.data(), {2, 3}).slice(1, 2, 1);
    ///     EXPECT_EQ(*column.data(), 2);
    constexpr Strided slice(std::size_t dimension, std::ptrdiff_t first, std::ptrdiff_t count) const {
        if (dimension >= N || first < 0 || count < 0 || first > extents_[dimension] - count)
            detail::wrong_slice(dimension, first, count, N, dimension < N ? extents_[dimension] : 0);
        auto part = *this;
        part.data_ += first * strides_[dimension];
        part.extents_[dimension] = count;
        return part;
    }

private:
    T* data_;
    Lengths extents_;
    Lengths strides_;
};

/// Returns a view of elements at these distances, in elements, outermost dimension first.
///
///     auto matrix = std::vector<double>(20);  // 4 rows of 5
///     EXPECT_EQ(strided(matrix.data() + 1, {4, 2}, {5, 1}).size(), 8U);  // of each row, elements 1 and 2
template <class T, std::size_t N>
constexpr Strided<T, N> strided(T* data, const detail::Length (&extents)[N],
                                const detail::Length (&strides)[N]) {
    auto lengths = std::array<typename Strided<T, N>::Lengths, 2>{};
    for (std::size_t i = 0; i < N; ++i) {
        lengths[0][i] = extents[i];
        lengths[1][i] = strides[i];
    }
    return {data, lengths[0], lengths[1]};
}
/// Returns a view of a whole row-major array, whose faces and blocks are its slices.
///
///     auto field = std::vector<double>(3 * 4 * 5);
///     EXPECT_EQ(strided(field.data(), {3, 4, 5}).slice(1, 0, 1).size(), 15U);
template <class T, std::size_t N>
constexpr Strided<T, N> strided(T* data, const detail::Length (&extents)[N]) {
    auto lengths = std::array<typename Strided<T, N>::Lengths, 2>{};
    auto stride = std::ptrdiff_t{1};
    for (auto i = N; i-- > 0;) {
        lengths[0][i] = extents[i];
        lengths[1][i] = stride;
        stride *= extents[i];
    }
    return {data, lengths[0], lengths[1]};
}

template <class T, std::size_t N>
struct buffer_traits<Strided<T, N>> {
    static constexpr bool is_view = true;
    static constexpr T* data(const Strided<T, N>& view) { return view.data(); }
    static constexpr std::size_t size(const Strided<T, N>& view) { return view.size(); }
    static constexpr auto extents(const Strided<T, N>& view) { return view.extents(); }
    static constexpr auto strides(const Strided<T, N>& view) { return view.strides(); }
};

namespace detail {

/// A view with the interface of a strided std::mdspan over plain memory.
template <class View>
concept LikeMdspan = requires(const View& view) {
    typename View::extents_type;
    typename View::layout_type;
    { view.data_handle() } -> std::convertible_to<const volatile void*>;
    { view.rank() } -> std::convertible_to<std::size_t>;
    { view.extent(0) } -> std::convertible_to<std::size_t>;
    { view.stride(0) } -> std::convertible_to<std::ptrdiff_t>;
};

}  // namespace detail

template <detail::LikeMdspan View>
struct buffer_traits<View> {
    using Lengths = std::array<std::ptrdiff_t, View::rank()>;
    static constexpr bool is_view = true;
    static constexpr auto* data(const View& view) { return view.data_handle(); }
    static constexpr std::size_t size(const View& view) {
        auto size = std::size_t{1};
        for (auto extent : extents(view)) size *= static_cast<std::size_t>(extent);
        return size;
    }
    static constexpr Lengths extents(const View& view) {
        auto lengths = Lengths{};
        for (std::size_t i = 0; i < lengths.size(); ++i)
            lengths[i] = static_cast<std::ptrdiff_t>(view.extent(i));
        return lengths;
    }
    static constexpr Lengths strides(const View& view) {
        auto lengths = Lengths{};
        for (std::size_t i = 0; i < lengths.size(); ++i)
            lengths[i] = static_cast<std::ptrdiff_t>(view.stride(i));
        return lengths;
    }
};

}  // namespace rankmesh
