// SPDX-License-Identifier: Apache-2.0
#include "engine/exact_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace rankmesh;
using detail::ExactSum;

namespace {

__extension__ using Wide = __int128;

std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }

double rounded(std::span<const double> values) {
    auto sum = ExactSum();
    sum.add(values);
    return sum.rounded(DType::f64);
}
double one_by_one(std::span<const double> values) {
    auto sum = ExactSum();
    for (auto value : values) sum.add(value);
    return sum.rounded(DType::f64);
}
/// The sum of one element of each of several arrays.
double of_arrays(std::span<const double> values) {
    auto ins = std::vector<const void*>{};
    for (const auto& value : values) ins.push_back(&value);
    auto sum = 0.0;
    detail::sum_exactly(DType::f64, ins, &sum, 1);
    return sum;
}

}  // namespace

TEST(ExactSum, EveryWay_WhenSumsFit128Bits_GivesTheNearest) {
    auto random = std::mt19937_64(7);
    for (int round = 0; round < 3000; ++round) {
        auto values = std::vector<double>(round % 2 == 0 ? 2 : 1 + random() % 40);
        auto exact = Wide{0};
        for (auto& value : values) {
            // 53 bits, of 2^-40 to 2^60 units.
            const auto mantissa = static_cast<std::int64_t>(random() >> 11) - (std::int64_t{1} << 52);
            const auto shift = static_cast<int>(random() % 60);
            exact += Wide{mantissa} * (Wide{1} << shift);
            value = std::ldexp(static_cast<double>(mantissa), shift - 40);
        }
        const auto wanted = std::ldexp(static_cast<double>(exact), -40);  // the conversion rounds to nearest
        EXPECT_EQ(bits(rounded(values)), bits(wanted));
        EXPECT_EQ(bits(one_by_one(values)), bits(wanted));
        EXPECT_EQ(bits(of_arrays(values)), bits(wanted));
        auto as_floats = ExactSum();
        as_floats.add(values);
        EXPECT_EQ(as_floats.rounded(DType::f32),
                  static_cast<double>(std::ldexp(static_cast<float>(exact), -40)));
    }
}

TEST(ExactSum, Order_WhenValuesAreOfAnySize_ChangesNoBit) {
    auto random = std::mt19937_64(11);
    for (int round = 0; round < 2000; ++round) {
        auto values = std::vector<double>(1 + random() % 1200);
        for (auto& value : values) {
            value = std::bit_cast<double>(random());
            if (!std::isfinite(value) && round % 4 != 0) value = 1;
        }
        const auto sum = one_by_one(values);
        EXPECT_EQ(bits(rounded(values)), bits(sum));
        EXPECT_EQ(bits(of_arrays(values)), bits(sum));
        std::ranges::shuffle(values, random);
        EXPECT_EQ(bits(rounded(values)), bits(sum));
        // Those of several ranks, integer by integer.
        auto parts = std::array<ExactSum, 3>{};
        for (std::size_t i = 0; i < values.size(); ++i) parts[i * 3 / values.size()].add(values[i]);
        auto whole = ExactSum();
        for (auto& part : parts)
            for (std::size_t i = 0; i < ExactSum::length; ++i) whole.integers()[i] += part.integers()[i];
        EXPECT_EQ(bits(whole.rounded(DType::f64)), bits(sum));
    }
}

TEST(ExactSum, Blocks_WhenValuesAreAlike_AreAddedWithoutRounding) {
    auto random = std::mt19937_64(3);
    auto uniform = std::uniform_real_distribution<double>(0.5, 1);
    for (auto length : {511, 512, 513, 5000}) {
        auto values = std::vector<double>(static_cast<std::size_t>(length));
        for (auto& value : values) value = uniform(random) + std::ldexp(uniform(random), -30);
        auto blocks = ExactSum();
        blocks.add(values);
        auto single = ExactSum();
        for (auto value : values) single.add(value);
        const auto same = std::ranges::equal(blocks.integers(), single.integers());
        EXPECT_TRUE(same) << length;
    }
}

TEST(ExactSum, Rounding_WhenHalfway_GoesToTheEvenNumber) {
    const auto ulp = std::numeric_limits<double>::epsilon();
    EXPECT_EQ(rounded(std::vector{1.0, ulp / 2}), 1);
    EXPECT_EQ(rounded(std::vector{1.0, ulp / 2, 0x1p-1074}), 1 + ulp);
    EXPECT_EQ(of_arrays(std::vector{1.0, ulp / 2, 0x1p-1074}), 1 + ulp);
    EXPECT_EQ(rounded(std::vector{1 + ulp, ulp / 2}), 1 + 2 * ulp);
    // To a float in one step: to a double first would be halfway.
    const auto halfway = std::vector{1.0, 0x1p-24, 0x1p-80};
    auto sum = ExactSum();
    sum.add(halfway);
    EXPECT_EQ(sum.rounded(DType::f32), 1 + 0x1p-23);
    auto floats = std::vector<float>(halfway.begin(), halfway.end());
    auto single = 0.0f;
    detail::sum_exactly(DType::f32, std::array<const void*, 3>{&floats[0], &floats[1], &floats[2]}, &single,
                        1);
    EXPECT_EQ(single, 1 + 0x1p-23f);
}

TEST(ExactSum, Halves_WhenSummed_AreRoundedOnce) {
    auto random = std::mt19937_64(5);
    const auto check = [&]<class T>(T, DType dtype) {
        for (int round = 0; round < 2000; ++round) {
            auto values = std::vector<T>(2 + random() % 6);
            for (auto& value : values) {
                value = T::from_bits(static_cast<std::uint16_t>(random()));
                if (!std::isfinite(static_cast<float>(value))) value = T(1.0f);
            }
            auto ins = std::vector<const void*>{};
            for (const auto& value : values) ins.push_back(&value);
            auto sum = T();
            detail::sum_exactly(dtype, ins, &sum, 1);
            auto exact = ExactSum();
            exact.add(dtype, values.data(), values.size());
            EXPECT_EQ(sum.bits, T(static_cast<float>(exact.rounded(dtype))).bits);
        }
    };
    check(f16(), DType::f16);
    check(bf16(), DType::bf16);
}

TEST(ExactSum, Products_WhenOfFloats_AreExact) {
    const auto x = std::vector<float>{1 + 0x1p-23f, 1, -1};
    const auto y = std::vector<float>{1 + 0x1p-23f, -1, 0x1p-22f};
    auto sum = ExactSum();
    sum.add_products(DType::f32, x.data(), y.data(), x.size());
    EXPECT_EQ(sum.rounded(DType::f32), 0x1p-46);
}
