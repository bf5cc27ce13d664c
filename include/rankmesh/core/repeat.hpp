// SPDX-License-Identifier: Apache-2.0
// Writing ranks that follow a layout, as fast as memory takes them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include <rankmesh/core/layout.hpp>

namespace rankmesh::detail {

/// Writes `from`, moved on by `by`, into `to`; the two do not overlap.
constexpr void copy_moved(int* to, const int* from, std::size_t count, int by) {
    // Spelled out, since a plain loop is one of vectors only at some levels of some compilers.
    using Four [[gnu::vector_size(16)]] = int;
    auto i = std::size_t{0};
    if (!std::is_constant_evaluated())
        for (; i + 16 <= count; i += 16) {
            Four a, b, c, d;
            std::memcpy(&a, from + i, sizeof a);
            std::memcpy(&b, from + i + 4, sizeof b);
            std::memcpy(&c, from + i + 8, sizeof c);
            std::memcpy(&d, from + i + 12, sizeof d);
            a += by;
            b += by;
            c += by;
            d += by;
            std::memcpy(to + i, &a, sizeof a);
            std::memcpy(to + i + 4, &b, sizeof b);
            std::memcpy(to + i + 8, &c, sizeof c);
            std::memcpy(to + i + 12, &d, sizeof d);
        }
    for (; i < count; ++i) to[i] = from[i] + by;
}

/// Repeats the first `length` ranks of `out`, moved on by each further offset of `digits` in turn; `out` has
/// length * digits.size() places.
///
/// All is copied from one first block that stays in the nearest cache; no element costs a division.
constexpr void repeat_along(std::span<int> out, std::size_t length, const Layout& digits) {
    constexpr auto max_block = std::size_t{1024};
    const auto at = [](auto number) { return static_cast<std::size_t>(number); };
    const auto block = out.data();
    auto k = digits.digit_count();
    auto digit = Digit{};
    auto steps = std::size_t{1};  // of `digit`, each of `length` ranks: the block as far as it is full
    while (k > 0 && steps == at(digit.size)) {
        length *= steps;
        digit = digits.digit(--k);
        steps = std::min(at(digit.size), std::max(max_block / length, std::size_t{1}));
        for (std::size_t done = 1; done < steps; done *= 2)
            copy_moved(block + done * length, block, std::min(done, steps - done) * length,
                       static_cast<int>(done) * digit.stride);
    }
    auto index = std::array<int, Layout::max_digits>{};  // on the digits 0..k-1, of the offset `by`
    auto by = 0;
    for (auto written = steps * length, step = steps; written < out.size(); step = 0) {
        if (step == 0) {
            auto o = k - 1;
            for (; ++index[at(o)] == digits.digit(o).size; --o) {
                by -= (digits.digit(o).size - 1) * digits.digit(o).stride;
                index[at(o)] = 0;
            }
            by += digits.digit(o).stride;
        }
        for (; step < at(digit.size); step += steps) {
            const auto count = std::min(steps, at(digit.size) - step) * length;
            copy_moved(block + written, block, count, by + static_cast<int>(step) * digit.stride);
            written += count;
        }
    }
}

}  // namespace rankmesh::detail
