// SPDX-License-Identifier: Apache-2.0
// Layout, the arithmetic behind meshes and groups: indices to offsets and back, by sizes and strides.
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
/// (2,4):(8,1) | offset_of(5) -> 9
/// (2,4):(8,1) | index_of(9) -> 5
/// (2,4):(8,1) | index_of(4) -> nullopt
///
/// Law: the offset of index i is the sum of digit(i, k) * stride(k), where the last digit of i varies
/// fastest.
/// Law: digits nest (see `nests`), hence `index_of(offset_of(i)) == i`, and no other offset has an index.
/// Law: digits of size 1 are never stored. A world of at most 2^31 - 1 ranks has at most 30 larger digits,
/// hence the array never overflows.
class Layout {
public:
    static constexpr int max_digits = 30;

    constexpr Layout() = default;

    constexpr int digit_count() const { return count_; }
    constexpr Digit digit(int k) const {
        return {static_cast<int>(sizes_[at(k)]), static_cast<int>(strides_[at(k)])};
    }

    /// Returns the number of indices: the product of the sizes, 1 without digits.
    constexpr int size() const { return size_; }

    /// Returns the largest offset.
    constexpr int last_offset() const { return last_offset_; }

    /// Appends an innermost digit. A digit of size 1 changes nothing.
    ///
    /// (2):(8) | push_back(2:4) -> (2,2):(8,4)
    ///
    /// Throws nothing: the caller must check that the product of the sizes and the largest offset stay below
    /// 2^31.
    constexpr void push_back(Digit digit) {
        if (digit.size == 1) return;
        sizes_[at(count_)] = static_cast<std::uint32_t>(digit.size);
        strides_[at(count_)] = static_cast<std::uint32_t>(digit.stride);
        auto place = int{count_};
        for (; place > 0 && strides_[by_stride_[at(place - 1)]] < strides_[at(count_)]; --place)
            by_stride_[at(place)] = by_stride_[at(place - 1)];
        by_stride_[at(place)] = count_++;
        fit(place);
        if (place + 1 < count_) fit(place + 1);
        size_ *= digit.size;
        last_offset_ += (digit.size - 1) * digit.stride;
    }

    /// Appends an innermost digit. Merges it with the last digit if both together have one stride.
    ///
    /// (2):(8) | append(2:4) -> (4):(4)
    constexpr void append(Digit digit) {
        if (digit.size == 1) return;
        if (count_ == 0) return push_back(digit);
        const auto last = this->digit(count_ - 1);
        if (last.stride != static_cast<std::int64_t>(digit.size) * digit.stride) return push_back(digit);
        pop_back();
        push_back({last.size * digit.size, digit.stride});
    }

    /// Returns the layout of the same offsets with the fewest digits. Two layouts list the same offsets in
    /// the same order exactly if their coalesced layouts are equal.
    ///
    /// (2,2,4):(8,4,1) | coalesced -> (16):(1)
    constexpr Layout coalesced() const {
        auto fewest = Layout{};
        for (int k = 0; k < count_; ++k) fewest.append(digit(k));
        return fewest;
    }

    /// Returns true if each stride is larger than the largest offset that all digits of smaller stride reach
    /// together. Then every offset has at most one index, and division finds the index.
    constexpr bool nests() const {
        auto reach = std::int64_t{0};
        for (int k = count_ - 1; k >= 0; --k) {
            const auto digit = this->digit(by_stride_[at(k)]);
            if (digit.stride <= reach) return false;
            reach += static_cast<std::int64_t>(digit.size - 1) * digit.stride;
        }
        return true;
    }

    /// Returns the offset of `index`, which must be in 0..size()-1.
    constexpr int offset_of(int index) const {
        auto rest = static_cast<std::uint32_t>(index);
        auto offset = std::uint32_t{0};
        for (int k = count_ - 1; k > 0; --k) {
            offset += rest % sizes_[at(k)] * strides_[at(k)];
            rest /= sizes_[at(k)];
        }
        if (count_ > 0) offset += rest * strides_[0];
        return static_cast<int>(offset);
    }

    /// Returns the index of `offset`; nullopt if no index has that offset.
    constexpr std::optional<int> index_of(std::int64_t offset) const {
        std::array<int, max_digits> values;  // not initialised: decode writes all elements that are read
        if (!decode(offset, values.data())) return std::nullopt;
        auto index = 0;
        for (int k = 0; k < count_; ++k) index = index * digit(k).size + values[at(k)];
        return index;
    }

    /// Writes the value of each digit of `offset` into `values`, which has digit_count() elements. Returns
    /// false if no index has that offset.
    ///
    /// If each stride divides the next larger stride S, a digit is (offset mod S) / stride, rounded down. The
    /// low 64 bits of offset * (2^64 / S) are the fraction of offset / S; the high 64 bits of their product
    /// with S / stride are the digit. This is exact because offset * S stays below 2^64 (Lemire, Kaser, Kurz,
    /// "Faster remainder by direct computation", 2019).
    constexpr bool decode(std::int64_t offset, int* values) const {
        if (static_cast<std::uint64_t>(offset) > static_cast<std::uint64_t>(last_offset_)) return false;
        if (is_gapless()) {
            for (int k = 0; k < count_; ++k) values[k] = value_of(k, offset);
            return true;
        }
        auto rest = static_cast<std::uint32_t>(offset);
        if (!divides_) return decode_by_division(rest, values);
        for (int k = 0; k < count_; ++k) {
            const auto value = static_cast<std::uint32_t>(value_of(k, offset));
            if (value >= sizes_[at(k)]) return false;
            rest -= value * strides_[at(k)];
            values[k] = static_cast<int>(value);
        }
        return rest == 0;
    }

    /// Returns true if every offset from 0 to last_offset() has an index. Then each stride is a product of
    /// sizes.
    constexpr bool is_gapless() const { return size_ == last_offset_ + 1; }
    /// Returns the value of digit `k` of an offset that has an index. Requires a layout without gaps.
    constexpr int value_of(int k, std::int64_t offset) const {
        const auto fraction = fractions_[at(k)] * static_cast<std::uint64_t>(offset);
        return static_cast<int>((Wide{fraction} * ratios_[at(k)]) >> 64);
    }

    /// Law: two layouts are equal exactly if all their digits are equal.
    friend constexpr bool operator==(const Layout& a, const Layout& b) {
        if (a.count_ != b.count_) return false;
        for (int k = 0; k < a.count_; ++k)
            if (a.digit(k) != b.digit(k)) return false;
        return true;
    }

private:
    __extension__ using Wide = unsigned __int128;

    static constexpr std::size_t at(int k) { return static_cast<std::size_t>(k); }

    /// Removes the innermost digit.
    constexpr void pop_back() {
        const auto last = digit(--count_);
        size_ /= last.size;
        last_offset_ -= (last.size - 1) * last.stride;
        auto place = 0;
        while (by_stride_[at(place)] != count_) ++place;
        for (auto next = place; next < count_; ++next) by_stride_[at(next)] = by_stride_[at(next + 1)];
        if (place < count_) fit(place);
    }

    /// Computes the factors of `decode` for the digit at `place` in `by_stride_`.
    constexpr void fit(int place) {
        const auto k = by_stride_[at(place)];
        const auto stride = strides_[k];
        const auto larger = place > 0 ? strides_[by_stride_[at(place - 1)]] : 0;
        if (larger % stride != 0) divides_ = false;
        // The largest stride has no larger stride S; use any multiple of it that exceeds all offsets.
        ratios_[k] = place > 0 ? larger / stride : (std::uint32_t{1} << 31) / stride + 1;
        fractions_[k] = ~std::uint64_t{0} / (std::uint64_t{ratios_[k]} * stride) + 1;
    }

    constexpr bool decode_by_division(std::uint32_t rest, int* values) const {
        for (int place = 0; place < count_; ++place) {
            const auto k = by_stride_[at(place)];
            const auto value = rest / strides_[k];
            if (value >= sizes_[k]) return false;
            rest -= value * strides_[k];
            values[k] = static_cast<int>(value);
        }
        return rest == 0;
    }

    std::array<std::uint64_t, max_digits> fractions_{};
    std::array<std::uint32_t, max_digits> ratios_{};
    std::array<std::uint32_t, max_digits> sizes_{};
    std::array<std::uint32_t, max_digits> strides_{};
    std::array<std::uint8_t, max_digits> by_stride_{};  // digits, largest stride first
    std::uint8_t count_ = 0;
    bool divides_ = true;  // each stride divides the next larger one
    int size_ = 1;
    int last_offset_ = 0;
};

}  // namespace rankmesh
