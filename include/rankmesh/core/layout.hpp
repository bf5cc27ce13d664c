// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <rankmesh/core/error.hpp>

namespace rankmesh {

/// One factor of a layout: `size` steps of `stride` ranks.
struct Digit {
    int size = 1;
    int stride = 1;
    friend constexpr bool operator==(const Digit&, const Digit&) = default;
};

/// A list of size:stride digits, outermost first, that maps an index in 0..size()-1 to an offset and back.
///
/// Law: the offset of index i is the sum of digit(i, k) * stride(k), digits read off i with the last fastest.
/// Law: digits nest (see `nests`), so `index_of(offset_of(i)) == i`, and no other offset has an index.
/// Law: digits of size 1 are never stored; a world of at most 2^31 - 1 ranks has at most 30 others, so the
/// array never overflows.
class Layout {
public:
    static constexpr int max_digits = 30;

    constexpr Layout() = default;

    constexpr int digit_count() const { return count_; }
    constexpr Digit digit(int k) const {
        const auto& digit = digits_[at(k)];
        return {static_cast<int>(digit.size), static_cast<int>(digit.stride)};
    }

    /// The number of indices: the product of the sizes, 1 without digits.
    constexpr int size() const { return size_; }

    /// The largest offset.
    constexpr int last_offset() const { return last_offset_; }

    /// Appends an inner digit as it is; a digit of size 1 changes nothing.
    ///
    /// Throws nothing: the caller has checked that the sizes multiply, and the offsets add up, to less than
    /// 2^31.
    constexpr void push_back(Digit digit) {
        if (digit.size == 1) return;
        const auto stride = static_cast<std::uint32_t>(digit.stride);
        digits_[at(count_)] = {static_cast<std::uint32_t>(digit.size), stride, reciprocal_of(stride)};
        auto place = count_++;
        for (; place > 0 && digits_[by_stride_[at(place - 1)]].stride < stride; --place)
            by_stride_[at(place)] = by_stride_[at(place - 1)];
        by_stride_[at(place)] = static_cast<std::uint8_t>(count_ - 1);
        size_ *= digit.size;
        last_offset_ += (digit.size - 1) * digit.stride;
    }

    /// Appends an inner digit, as part of the last one where both together are one plain run.
    constexpr void append(Digit digit) {
        if (digit.size == 1) return;
        if (count_ == 0) return push_back(digit);
        const auto last = this->digit(count_ - 1);
        if (last.stride != static_cast<std::int64_t>(digit.size) * digit.stride) return push_back(digit);
        auto merged = Layout{};
        for (int k = 0; k < count_ - 1; ++k) merged.push_back(this->digit(k));
        merged.push_back({last.size * digit.size, digit.stride});
        *this = merged;
    }

    /// True if each stride is larger than the largest offset that the digits of smaller stride reach
    /// together: then every offset has at most one index, and division finds it.
    constexpr bool nests() const {
        auto reach = std::int64_t{0};
        for (int k = count_ - 1; k >= 0; --k) {
            const auto digit = this->digit(by_stride_[at(k)]);
            if (digit.stride <= reach) return false;
            reach += static_cast<std::int64_t>(digit.size - 1) * digit.stride;
        }
        return true;
    }

    /// The offset of `index`, which is in 0..size()-1.
    constexpr int offset_of(int index) const {
        auto rest = static_cast<std::uint32_t>(index);
        auto offset = std::uint32_t{0};
        for (int k = count_ - 1; k > 0; --k) {
            const auto& digit = digits_[at(k)];
            offset += rest % digit.size * digit.stride;
            rest /= digit.size;
        }
        if (count_ > 0) offset += rest * digits_[0].stride;
        return static_cast<int>(offset);
    }

    /// The index of `offset`, nothing if no index has that offset.
    constexpr std::optional<int> index_of(int offset) const {
        auto values = std::array<int, max_digits>{};
        if (!decode(offset, values)) return std::nullopt;
        auto index = 0;
        for (int k = 0; k < count_; ++k) index = index * digit(k).size + values[at(k)];
        return index;
    }

    /// Writes the value of each digit of `offset` into `values` and returns true, or false if no index has
    /// it.
    ///
    /// Division by a stride is a multiplication by its reciprocal, exact below 2^31 (Lemire, Kaser, Kurz,
    /// "Faster remainder by direct computation", 2019).
    constexpr bool decode(int offset, std::array<int, max_digits>& values) const {
        if (offset < 0) return false;
        auto rest = static_cast<std::uint32_t>(offset);
        for (int k = 0; k < count_; ++k) {
            const auto which = by_stride_[at(k)];
            const auto& digit = digits_[which];
            const auto value = static_cast<std::uint32_t>((static_cast<Wide>(digit.reciprocal) * rest) >> 63);
            if (value >= digit.size) return false;
            rest -= value * digit.stride;
            values[which] = static_cast<int>(value);
        }
        return rest == 0;
    }

    /// Law: equal exactly if the digits are equal one by one.
    friend constexpr bool operator==(const Layout& a, const Layout& b) {
        if (a.count_ != b.count_) return false;
        for (int k = 0; k < a.count_; ++k)
            if (a.digit(k) != b.digit(k)) return false;
        return true;
    }

private:
    __extension__ using Wide = unsigned __int128;

    struct Entry {
        std::uint32_t size = 0;
        std::uint32_t stride = 0;
        std::uint64_t reciprocal = 0;
    };

    static constexpr std::size_t at(int k) { return static_cast<std::size_t>(k); }

    /// ceil(2^63 / stride): exact for dividends below 2^31, and still 64 bits for a stride of 1.
    static constexpr std::uint64_t reciprocal_of(std::uint32_t stride) {
        return ((std::uint64_t{1} << 63) + stride - 1) / stride;
    }

    std::array<Entry, max_digits> digits_{};
    std::array<std::uint8_t, max_digits> by_stride_{};  // digits, largest stride first
    std::uint8_t count_ = 0;
    int size_ = 1;
    int last_offset_ = 0;
};

}  // namespace rankmesh
