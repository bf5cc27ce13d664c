// SPDX-License-Identifier: Apache-2.0
// Floating-point types of 16 and 8 bits. They only store values; arithmetic uses float.
#pragma once

#include <bit>
#include <cstdint>

namespace rankmesh {

/// IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits.
///
/// Law: `float(f16(x)) == x` for every x that binary16 can represent. Other values round to the nearest, ties
/// to even.
struct f16 {
    std::uint16_t bits = 0;

    constexpr f16() = default;
    constexpr explicit f16(float value) : bits(narrow(value)) {}
    static constexpr f16 from_bits(std::uint16_t bits) {
        auto made = f16{};
        made.bits = bits;
        return made;
    }
    constexpr explicit operator float() const {
        // Change the exponent's bias from 15 to 127. A subnormal is computed as a normal number minus its
        // leading one.
        const auto magnitude = (bits & 0x7fffU) << 13;
        const auto exponent = magnitude & (0x7c00U << 13);
        const auto shifted = magnitude + ((127U - 15U) << 23);
        const auto special = shifted + ((128U - 16U) << 23);
        const auto subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(shifted + (1U << 23)) -
                                                            std::bit_cast<float>(113U << 23));
        const auto value = exponent == (0x7c00U << 13) ? special : exponent == 0 ? subnormal : shifted;
        return std::bit_cast<float>(value | (bits & 0x8000U) << 16);
    }
    friend constexpr bool operator==(f16 a, f16 b) { return static_cast<float>(a) == static_cast<float>(b); }

private:
    static constexpr std::uint16_t narrow(float value) {
        const auto whole = std::bit_cast<std::uint32_t>(value);
        const auto sign = whole & 0x80000000U;
        const auto magnitude = whole ^ sign;
        // Adding this constant to a value below 2^-14 makes the hardware round it to the subnormal's last
        // bit.
        constexpr auto shift = ((127U - 15U) + (23U - 10U) + 1U) << 23;
        const auto tiny =
            std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(shift)) -
            shift;
        const auto odd = magnitude >> 13 & 1U;
        const auto normal = (magnitude - ((127U - 15U) << 23) + 0xfffU + odd) >> 13;
        const auto special = magnitude > (255U << 23) ? 0x7e00U : 0x7c00U;
        const auto narrowed = magnitude >= ((127U + 16U) << 23) ? special
                              : magnitude < (113U << 23)        ? tiny
                                                                : normal;
        return static_cast<std::uint16_t>(narrowed | sign >> 16);
    }
};

/// bfloat16: the upper half of a float.
///
/// Law: `float(bf16(x)) == x` for every x that bfloat16 can represent. Other values round to the nearest,
/// ties to even.
struct bf16 {
    std::uint16_t bits = 0;

    constexpr bf16() = default;
    constexpr explicit bf16(float value) : bits(narrow(value)) {}
    static constexpr bf16 from_bits(std::uint16_t bits) {
        auto made = bf16{};
        made.bits = bits;
        return made;
    }
    constexpr explicit operator float() const {
        return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    }
    friend constexpr bool operator==(bf16 a, bf16 b) {
        return static_cast<float>(a) == static_cast<float>(b);
    }

private:
    static constexpr std::uint16_t narrow(float value) {
        const auto whole = std::bit_cast<std::uint32_t>(value);
        const auto rounded = (whole + 0x7fffU + (whole >> 16 & 1U)) >> 16;
        const auto quiet_nan = whole >> 16 | 0x40U;
        return static_cast<std::uint16_t>((whole & 0x7fffffffU) > 0x7f800000U ? quiet_nan : rounded);
    }
};

/// 8-bit floats of the OCP formats E4M3 and E5M2. They can be sent, but not reduced.
struct f8e4m3 {
    std::uint8_t bits = 0;
    friend constexpr bool operator==(f8e4m3, f8e4m3) = default;
};
struct f8e5m2 {
    std::uint8_t bits = 0;
    friend constexpr bool operator==(f8e5m2, f8e5m2) = default;
};

}  // namespace rankmesh
