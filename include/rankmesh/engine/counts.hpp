// SPDX-License-Identifier: Apache-2.0
// Counts, the lengths of the parts of a call with counts.
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/detail/accept.hpp>

namespace rankmesh::detail {

[[noreturn]] RANKMESH_EXPORT void refuse_count(std::size_t position, long long count);

/// The counts of a call, one for each rank of the group: any range of integers, also in braces. Throws
/// UsageError for a negative count.
///
/// Counts of std::size_t that lie one after the other are used where they are; others are copied.
class Counts {
public:
    Counts() = default;
    template <class Range>
        requires(!std::same_as<std::remove_cvref_t<Range>, Counts>)
    Counts(const Range& counts) {
        if constexpr (accept<fault_of_counts<Range>()>()) {
            using T = std::ranges::range_value_t<Range>;
            if constexpr (std::ranges::contiguous_range<const Range> && std::same_as<T, std::size_t>) {
                list_ = {std::ranges::data(counts), std::ranges::size(counts)};
            } else {
                copy(counts);
            }
        }
    }
    template <std::integral T>
    Counts(std::initializer_list<T> counts) {
        copy(counts);
    }
    Counts(const Counts&) = delete;
    Counts& operator=(const Counts&) = delete;

    std::span<const std::size_t> list() const { return list_; }

private:
    void copy(const auto& counts) {
        for (const auto count : counts) {
            if (std::cmp_less(count, 0)) refuse_count(copied_.size(), static_cast<long long>(count));
            copied_.push_back(static_cast<std::size_t>(count));
        }
        list_ = copied_;
    }

    std::vector<std::size_t> copied_;
    std::span<const std::size_t> list_;
};

}  // namespace rankmesh::detail
