// SPDX-License-Identifier: Apache-2.0
// Sums that are exact until they are rounded once, and so do not depend on the order of what is added.
#pragma once

#include <array>
#include <span>

#include <rankmesh/engine/dtype.hpp>

namespace rankmesh::detail {

/// The exact sum of any number of doubles, as a fixed-point number of 2176 bits: an array of integers, so
/// that the sum of those of several ranks, integer by integer, is that of all their values.
class ExactSum {
public:
    static constexpr std::size_t length = 73;

    void add(double value);
    void add(std::span<const double> values);
    /// Adds `count` elements of a floating-point type.
    void add(DType dtype, const void* values, std::size_t count);
    /// Adds the products of two such arrays, each rounded to double.
    void add_products(DType dtype, const void* x, const void* y, std::size_t count);

    /// The sum, rounded once to the nearest value of `dtype`, ties to even, as double. -0 if all values were
    /// -0; 0 for no values; the quiet NaN for any NaN and for infinities of both signs.
    double rounded(DType dtype) const;

    /// The integers; none is 2^32 or more on any rank, so that 2^31 ranks may be added.
    std::span<std::int64_t, length> integers() {
        normalize();
        return words_;
    }

private:
    static constexpr std::size_t digits = 68;  // of 32 bits; the least has the unit 2^-1074
    // Whether there was a value of each kind: any, and any but -0. 0 or 1 on one rank.
    enum Kind : std::size_t { nan = digits, infinity, minus_infinity, any, others };

    void normalize();
    bool add_quickly(std::span<const double> values);
    template <class Value>
    void add_in_blocks(std::size_t count, Value&& value);

    std::array<std::int64_t, length> words_ = {};
    std::uint32_t added_ = 0;  // since the digits were below 2^32
};

/// The exact sum of each element of `ins`, rounded once, in `out`, which may be one of them.
void sum_exactly(DType dtype, std::span<const void* const> ins, void* out, std::size_t count);

}  // namespace rankmesh::detail
