// SPDX-License-Identifier: Apache-2.0
// Writing ranks that follow a layout, as fast as memory takes them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include <rankmesh/core/layout.hpp>

namespace rankmesh::detail {

/// Writes the first of `from`, moved on by `by`, into `to` in vectors of that type, all but one of them
/// aligned; gives how many.
template <class Vector>
[[gnu::always_inline]] inline std::size_t copy_vectors(int* to, const int* from, std::size_t count, int by) {
    constexpr auto step = sizeof(Vector) / sizeof(int);
    if (count < step) return 0;
    Vector first;
    std::memcpy(&first, from, sizeof first);
    first += by;
    std::memcpy(to, &first, sizeof first);
    auto i = step - reinterpret_cast<std::uintptr_t>(to) % sizeof(Vector) / sizeof(int);
    for (; i + 4 * step <= count; i += 4 * step) {
        Vector a, b, c, d;
        std::memcpy(&a, from + i, sizeof a);
        std::memcpy(&b, from + i + step, sizeof b);
        std::memcpy(&c, from + i + 2 * step, sizeof c);
        std::memcpy(&d, from + i + 3 * step, sizeof d);
        a += by;
        b += by;
        c += by;
        d += by;
        std::memcpy(to + i, &a, sizeof a);
        std::memcpy(to + i + step, &b, sizeof b);
        std::memcpy(to + i + 2 * step, &c, sizeof c);
        std::memcpy(to + i + 3 * step, &d, sizeof d);
    }
    return i;
}

using Vector128 [[gnu::vector_size(16)]] = int;
#ifdef __x86_64__
// Whole cache lines are written without being read first, which processors do with the widest vectors only.
using Vector256 [[gnu::vector_size(32)]] = int;
using Vector512 [[gnu::vector_size(64)]] = int;
[[gnu::target("avx2")]] inline std::size_t copy_by_avx2(int* to, const int* from, std::size_t count, int by) {
    return copy_vectors<Vector256>(to, from, count, by);
}
[[gnu::target("avx512f")]] inline std::size_t copy_by_avx512(int* to, const int* from, std::size_t count,
                                                             int by) {
    return copy_vectors<Vector512>(to, from, count, by);
}
#endif

/// Writes `from`, moved on by `by`, into `to`; the two do not overlap.
constexpr void copy_moved(int* to, const int* from, std::size_t count, int by) {
    auto i = std::size_t{0};
    if (!std::is_constant_evaluated() && count >= 64) {
#ifdef __x86_64__
        if (__builtin_cpu_supports("avx512f"))
            i = copy_by_avx512(to, from, count, by);
        else if (__builtin_cpu_supports("avx2"))
            i = copy_by_avx2(to, from, count, by);
        else
#endif
            i = copy_vectors<Vector128>(to, from, count, by);
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
