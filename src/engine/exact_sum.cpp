// SPDX-License-Identifier: Apache-2.0
// Compiled without contraction into fused operations: products are rounded on every processor alike.
#include "engine/exact_sum.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "engine/arithmetic.hpp"

namespace rankmesh::detail {
namespace {

constexpr auto block = std::size_t{512};  // values that are added at a time
constexpr auto block_bits = 9;            // 2^9 = 512
constexpr auto unit_exponent = -1074;     // of the least digit's last bit
constexpr auto digit = std::int64_t{1} << 32;
constexpr auto sign_bit = std::uint64_t{1} << 63;

// Vectors that every processor has. Several are in flight at once. Compilers do not vectorise these loops
// themselves.
constexpr auto width = std::size_t{2};
constexpr auto unrolled = std::size_t{4};
constexpr auto lanes = width * unrolled;
using Vector [[gnu::vector_size(16)]] = double;
using Bits [[gnu::vector_size(16)]] = std::uint64_t;
Bits as_bits(Vector values) { return reinterpret_cast<Bits>(values); }
Vector as_values(Bits bits) { return reinterpret_cast<Vector>(bits); }

template <class T>
double to_double(T value) {
    if constexpr (Half<T>)
        return static_cast<double>(static_cast<float>(value));
    else
        return static_cast<double>(value);
}

/// Calls `body` with a null pointer to the floating-point type.
template <class Body>
void with_floating(DType dtype, Body&& body) {
    with_type(dtype, [&]<class T>(T* type) {
        if constexpr (Half<T> || std::floating_point<T>) body(type);
    });
}

/// The precision in bits, and the exponent of the least positive value.
struct Format {
    int precision;
    int least;
    double most;
};
Format format_of(DType dtype) {
    switch (dtype) {
        case DType::f16:
            return {11, -24, 65504.0};
        case DType::bf16:
            return {8, -133, static_cast<double>(static_cast<float>(bf16::from_bits(0x7f7f)))};
        case DType::f32:
            return {24, -149, static_cast<double>(std::numeric_limits<float>::max())};
        default:
            return {53, unit_exponent, std::numeric_limits<double>::max()};
    }
}

/// The digits of a number that is not negative.
class Digits {
public:
    explicit Digits(std::span<const std::int64_t> digits) : digits_(digits) {}
    /// The number of bits.
    int length() const {
        for (auto i = digits_.size(); i-- > 0;)
            if (digits_[i] != 0)
                return static_cast<int>(i) * 32 +
                       static_cast<int>(std::bit_width(static_cast<std::uint64_t>(digits_[i])));
        return 0;
    }
    bool bit(int at) const {
        return at >= 0 && (digits_[static_cast<std::size_t>(at / 32)] >> (at % 32) & 1) != 0;
    }
    bool any_below(int end) const {
        for (int at = 0; at < end; at += 32) {
            const auto whole = digits_[static_cast<std::size_t>(at / 32)];
            if ((end - at >= 32 ? whole : whole & ((std::int64_t{1} << (end - at)) - 1)) != 0) return true;
        }
        return false;
    }
    std::uint64_t bits(int begin, int end) const {
        auto value = std::uint64_t{0};
        for (int at = end; at-- > begin;) value = value << 1 | (bit(at) ? 1U : 0U);
        return value;
    }

private:
    std::span<const std::int64_t> digits_;
};

/// The nearest number of a format, ties to even.
double nearest(const Digits& number, const Format& format) {
    const auto length = number.length();
    const auto last = std::max(length - format.precision, format.least - unit_exponent);
    if (last > length) return 0;
    auto kept = number.bits(last, length);
    const auto half = number.bit(last - 1);
    if (half && ((kept & 1) != 0 || number.any_below(last - 1))) ++kept;
    const auto value = std::ldexp(static_cast<double>(kept), last + unit_exponent);
    return value > format.most ? std::numeric_limits<double>::infinity() : value;
}

/// `value` or the neighbour of it that is odd, where `rest`, the rest of an exact sum, is not 0: rounding
/// that to fewer bits is rounding the exact sum.
template <class Bits, class T>
T to_odd(T value, double rest) {
    const auto bits = std::bit_cast<Bits>(value);
    if (rest == 0 || (bits & 1) != 0) return value;
    return std::bit_cast<T>(static_cast<Bits>((rest > 0) != std::signbit(value) ? bits + 1 : bits - 1));
}

/// The value of T nearest to `sum + rest`, where `sum` is that rounded.
template <class T>
T narrowed(double sum, double rest) {
    if constexpr (std::same_as<T, double>) {
        return sum;
    } else {
        const auto odd = to_odd<std::uint64_t>(sum, rest);
        const auto narrow = static_cast<float>(odd);
        if constexpr (std::same_as<T, float>)
            return narrow;
        else
            return T(to_odd<std::uint32_t>(narrow, odd - static_cast<double>(narrow)));
    }
}

/// The processor's sum of two numbers is the nearest to the exact one.
template <std::floating_point T>
void sum_of_two(const T* a, const T* b, T* out, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        const auto sum = a[i] + b[i];
        out[i] = sum == sum ? sum : std::numeric_limits<T>::quiet_NaN();
    }
}

}  // namespace

void ExactSum::add(double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const auto exponent = static_cast<int>(bits >> 52 & 0x7ff);
    const auto fraction = bits & ((std::uint64_t{1} << 52) - 1);
    const auto is_negative = bits >> 63 != 0;
    if (exponent == 0x7ff) {
        words_[fraction != 0 ? nan : is_negative ? minus_infinity : infinity] = 1;
        return;
    }
    words_[any] = 1;
    if (bits == sign_bit) return;
    words_[others] = 1;
    const auto mantissa = exponent == 0 ? fraction : fraction | std::uint64_t{1} << 52;
    const auto at = static_cast<unsigned>(std::max(exponent, 1) - 1);
    const auto shift = at % 32;
    auto* to = &words_[at / 32];
    const auto low = mantissa << shift;  // of 85 bits
    const auto high = shift == 0 ? 0 : mantissa >> (64 - shift);
    const auto sign = is_negative ? -1 : 1;
    to[0] += sign * static_cast<std::int64_t>(low % digit);
    to[1] += sign * static_cast<std::int64_t>(low / digit);
    to[2] += sign * static_cast<std::int64_t>(high);
    if (++added_ == 1U << 30) normalize();
}

void ExactSum::normalize() {
    auto carry = std::int64_t{0};
    for (std::size_t i = 0; i + 1 < digits; ++i) {
        const auto value = words_[i] + carry;
        words_[i] = value & (digit - 1);
        carry = value >> 32;
    }
    words_[digits - 1] += carry;
    added_ = 0;
}

/// Adds at most a block of values, if they are so alike that three doubles hold the bits of all: each in turn
/// takes the highest bits of every value, which add up without rounding.
bool ExactSum::add_quickly(std::span<const double> values) {
    constexpr auto levels = 3;
    std::array<Vector, block / width> rest;
    const auto n = (values.size() + lanes - 1) / lanes * unrolled;  // vectors, a multiple of those unrolled
    rest[n - unrolled] = rest[n - 3] = rest[n - 2] = rest[n - 1] = Vector{-0.0, -0.0};
    std::memcpy(rest.data(), values.data(), values.size_bytes());
    auto greatest = std::array<Vector, unrolled>{};
    auto finite = std::array<Vector, unrolled>{};  // NaN unless all are
    auto differ = std::array<Bits, unrolled>{};
    for (std::size_t i = 0; i < n; i += unrolled)
        for (std::size_t k = 0; k < unrolled; ++k) {
            const auto value = rest[i + k];
            const auto magnitude = as_values(as_bits(value) & ~sign_bit);
            greatest[k] = magnitude > greatest[k] ? magnitude : greatest[k];
            finite[k] += value * 0;
            differ[k] |= as_bits(value) ^ sign_bit;
        }
    auto most = 0.0;
    auto all_finite = 0.0;
    auto any_differs = std::uint64_t{0};
    for (std::size_t k = 0; k < unrolled; ++k)
        for (std::size_t lane = 0; lane < width; ++lane) {
            most = std::max(most, greatest[k][lane]);
            all_finite += finite[k][lane];
            any_differs |= differ[k][lane];
        }
    const auto exponent = static_cast<int>(std::bit_cast<std::uint64_t>(most) >> 52);
    constexpr auto near_the_end = 0x7ff - block_bits - 3;
    if (exponent >= near_the_end || all_finite != 0) return false;
    words_[any] = 1;
    words_[others] |= any_differs != 0 ? 1 : 0;
    auto bound = exponent - 1022;  // every value is below 2^bound
    for (int level = 0; level < levels; ++level) {
        const auto raise = std::ldexp(1.5, bound + block_bits + 1);
        auto sums = std::array<Vector, unrolled>{};
        auto left = std::array<Bits, unrolled>{};
        for (std::size_t i = 0; i < n; i += unrolled)
            for (std::size_t k = 0; k < unrolled; ++k) {
                const auto value = rest[i + k];
                const auto taken = (value + raise) - raise;
                sums[k] += taken;
                rest[i + k] = value - taken;
                left[k] |= as_bits(rest[i + k]);
            }
        const auto sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        if (sum[0] + sum[1] != 0) add(sum[0] + sum[1]);
        const auto any_left = left[0] | left[1] | left[2] | left[3];
        if ((any_left[0] | any_left[1]) << 1 == 0) return true;
        bound += block_bits + 1 - 52;
    }
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t lane = 0; lane < width; ++lane)
            if (rest[i][lane] != 0) add(rest[i][lane]);
    return true;
}

void ExactSum::add(std::span<const double> values) {
    for (; !values.empty(); values = values.subspan(std::min(block, values.size()))) {
        const auto some = values.first(std::min(block, values.size()));
        if (!add_quickly(some))
            for (auto value : some) add(value);
    }
}

template <class Value>
void ExactSum::add_in_blocks(std::size_t count, Value&& value) {
    alignas(64) std::array<double, block> values;
    for (std::size_t begin = 0; begin < count; begin += block) {
        const auto n = std::min(block, count - begin);
        for (std::size_t i = 0; i < n; ++i) values[i] = value(begin + i);
        add(std::span(values).first(n));
    }
}

void ExactSum::add(DType dtype, const void* values, std::size_t count) {
    if (dtype == DType::f64) return add(std::span(static_cast<const double*>(values), count));
    with_floating(dtype, [&]<class T>(T*) {
        const auto* from = static_cast<const T*>(values);
        add_in_blocks(count, [&](std::size_t i) { return to_double(from[i]); });
    });
}

void ExactSum::add_products(DType dtype, const void* x, const void* y, std::size_t count) {
    with_floating(dtype, [&]<class T>(T*) {
        const auto* a = static_cast<const T*>(x);
        const auto* b = static_cast<const T*>(y);
        add_in_blocks(count, [&](std::size_t i) { return to_double(a[i]) * to_double(b[i]); });
    });
}

double ExactSum::rounded(DType dtype) const {
    if (words_[nan] != 0 || (words_[infinity] != 0 && words_[minus_infinity] != 0))
        return std::numeric_limits<double>::quiet_NaN();
    if (words_[infinity] != 0) return std::numeric_limits<double>::infinity();
    if (words_[minus_infinity] != 0) return -std::numeric_limits<double>::infinity();
    auto sum = *this;
    sum.normalize();
    const auto is_negative = sum.words_[digits - 1] < 0;
    if (is_negative) {
        for (std::size_t i = 0; i < digits; ++i) sum.words_[i] = -sum.words_[i];
        sum.normalize();
    }
    const auto number = Digits(std::span(sum.words_).first(digits));
    if (number.length() == 0) return words_[any] != 0 && words_[others] == 0 ? -0.0 : 0.0;
    const auto value = nearest(number, format_of(dtype));
    return is_negative ? -value : value;
}

void sum_exactly(DType dtype, std::span<const void* const> ins, void* out, std::size_t count) {
    constexpr auto some = std::size_t{256};
    with_floating(dtype, [&]<class T>(T*) {
        if constexpr (std::floating_point<T>)
            if (ins.size() == 2)
                return sum_of_two(static_cast<const T*>(ins[0]), static_cast<const T*>(ins[1]),
                                  static_cast<T*>(out), count);
        // Each sum is high + low; third is 0 unless that is not exact.
        std::array<double, some> high;
        std::array<double, some> low;
        std::array<double, some> third;
        const auto at = [&](std::size_t p) { return static_cast<const T*>(ins[p]); };
        for (std::size_t begin = 0; begin < count; begin += some) {
            const auto n = std::min(some, count - begin);
            for (std::size_t i = 0; i < n; ++i) high[i] = to_double(at(0)[begin + i]);
            std::fill_n(low.begin(), n, 0.0);
            std::fill_n(third.begin(), n, 0.0);
            for (std::size_t p = 1; p < ins.size(); ++p) {
                const auto* from = at(p) + begin;
                for (std::size_t i = 0; i < n; ++i) {
                    const auto value = to_double(from[i]);
                    const auto sum = high[i] + value;
                    const auto of_value = sum - high[i];
                    const auto rest = (high[i] - (sum - of_value)) + (value - of_value);
                    const auto rests = low[i] + rest;
                    const auto of_rest = rests - low[i];
                    high[i] = sum;
                    third[i] += std::fabs((low[i] - (rests - of_rest)) + (rest - of_rest));
                    low[i] = rests;
                }
            }
            auto* to = static_cast<T*>(out) + begin;
            auto doubtful = std::uint64_t{0};  // 0 if all sums are exact and finite
            auto remaining = std::uint64_t{0};
            for (std::size_t i = 0; i < n; ++i) {
                doubtful |= std::bit_cast<std::uint64_t>(third[i] + std::fabs(high[i] * 0));
                remaining |= std::bit_cast<std::uint64_t>(low[i]) << 1;
            }
            if constexpr (std::same_as<T, double> || std::same_as<T, float>) {
                if (doubtful == 0 && (std::same_as<T, double> || remaining == 0)) {
                    for (std::size_t i = 0; i < n; ++i)
                        to[i] = static_cast<T>(low[i] == 0 ? high[i] : high[i] + low[i]);
                    continue;
                }
            }
            for (std::size_t i = 0; i < n; ++i) {
                const auto sum = low[i] == 0 ? high[i] : high[i] + low[i];
                if (third[i] == 0 && std::isfinite(high[i])) {
                    const auto of_low = sum - high[i];
                    const auto rest = (high[i] - (sum - of_low)) + (low[i] - of_low);
                    to[i] = narrowed<T>(sum, rest);
                } else {
                    auto exact = ExactSum{};
                    for (std::size_t p = 0; p < ins.size(); ++p) exact.add(to_double(at(p)[begin + i]));
                    const auto value = exact.rounded(dtype);
                    if constexpr (Half<T>)
                        to[i] = T(static_cast<float>(value));
                    else
                        to[i] = static_cast<T>(value);
                }
            }
        }
    });
}

}  // namespace rankmesh::detail
