// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/half.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace rankmesh;

namespace {

/// The value of 16 bits by the definition of a binary format with that many fraction bits.
double by_definition(std::uint16_t bits, int fraction_bits, int bias) {
    const auto exponent_bits = 15 - fraction_bits;
    const auto fraction = bits & ((1 << fraction_bits) - 1);
    const auto exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
    const auto sign = bits >> 15 != 0 ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1)
        return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                             : std::numeric_limits<double>::quiet_NaN();
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
    return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

/// Every value is what the format says, comes back from float, and values between two go to the nearer, ties
/// to even.
template <class H>
void check_format(int fraction_bits, int bias) {
    for (int bits = 0; bits <= 0xffff; ++bits) {
        const auto half = H::from_bits(static_cast<std::uint16_t>(bits));
        const auto expected = by_definition(half.bits, fraction_bits, bias);
        const auto value = static_cast<float>(half);
        if (std::isnan(expected)) {
            ASSERT_TRUE(std::isnan(value)) << bits;
            ASSERT_TRUE(std::isnan(static_cast<float>(H(value)))) << bits;
            continue;
        }
        ASSERT_EQ(value, expected) << bits;
        ASSERT_EQ(H(value).bits, half.bits);

        const auto next = H::from_bits(static_cast<std::uint16_t>(bits + 1));
        const auto upper = by_definition(next.bits, fraction_bits, bias);
        if ((bits & 0x7fff) == 0x7fff || !std::isfinite(expected) || !std::isfinite(upper)) continue;
        const auto middle = (expected + upper) / 2;
        const auto exact = static_cast<float>(middle);
        if (static_cast<double>(exact) != middle) continue;
        ASSERT_EQ(H(exact).bits, bits % 2 == 0 ? half.bits : next.bits)
            << "a tie goes to the even one of " << bits;
        ASSERT_EQ(H(std::nextafter(exact, static_cast<float>(expected))).bits, half.bits) << bits;
        ASSERT_EQ(H(std::nextafter(exact, static_cast<float>(upper))).bits, next.bits) << bits;
    }
}

}  // namespace

TEST(Half, EveryF16IsWhatTheFormatSaysAndComesBack) { check_format<f16>(10, 15); }
TEST(Half, EveryBf16IsWhatTheFormatSaysAndComesBack) { check_format<bf16>(7, 127); }

TEST(Half, WhatIsTooLargeIsInfinite) {
    EXPECT_EQ(f16(65504.0f).bits, 0x7bff);
    EXPECT_EQ(f16(65519.0f).bits, 0x7bff);
    EXPECT_EQ(f16(65520.0f).bits, 0x7c00);
    EXPECT_EQ(f16(-1e30f).bits, 0xfc00);
    EXPECT_EQ(bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
}

static_assert(static_cast<float>(f16(1.5f)) == 1.5f && static_cast<float>(bf16(-2.0f)) == -2.0f);
