// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <rankmesh/core/mesh.hpp>

namespace rankmesh::detail {

/// A set of ranks in rising order, in closed form: a base plus digits of size 2 or more that nest.
///
/// Law: `set.below(set.at(i)) == i` for every i of the set.
class RankSet {
public:
    /// No ranks.
    RankSet() = default;
    RankSet(int base, std::vector<Digit> digits) : base_(base), digits_(std::move(digits)), size_(1) {
        std::ranges::sort(digits_, [](Digit a, Digit b) { return a.stride > b.stride; });
        for (const auto& digit : digits_) {
            size_ *= digit.size;
            reach_ += (digit.size - 1) * digit.stride;
        }
    }

    int size() const { return size_; }
    int first() const { return base_; }
    int last() const { return base_ + reach_; }

    /// The number of ranks in the set that are smaller than `rank`.
    int below(std::int64_t rank) const {
        if (size_ == 0) return 0;
        auto offset = rank - base_;
        if (offset <= 0) return 0;
        if (offset > reach_) return size_;
        auto count = 0;
        auto inner = size_;
        for (const auto& digit : digits_) {
            inner /= digit.size;
            const auto value = offset / digit.stride;
            if (value >= digit.size) return count + digit.size * inner;
            count += static_cast<int>(value) * inner;
            offset -= value * digit.stride;
        }
        return count + (offset > 0 ? 1 : 0);
    }
    bool contains(int rank) const { return below(std::int64_t{rank} + 1) > below(rank); }

    /// The rank at a position in 0..size()-1.
    int at(int position) const {
        auto rank = base_;
        for (auto digit = digits_.rbegin(); digit != digits_.rend(); ++digit) {
            rank += position % digit->size * digit->stride;
            position /= digit->size;
        }
        return rank;
    }

    /// The ranks in both sets; nothing where the strides do not divide one another, or a base stands inside a
    /// digit of its set, so that no digits say it.
    friend std::optional<RankSet> common(const RankSet& a, const RankSet& b) {
        if (a.size_ == 0 || b.size_ == 0 || a.last() < b.first() || b.last() < a.first()) return RankSet();
        auto cuts = std::vector<std::int64_t>{1};
        for (const auto* set : {&a, &b})
            for (const auto& digit : set->digits_) {
                cuts.push_back(digit.stride);
                cuts.push_back(std::int64_t{digit.stride} * digit.size);
            }
        std::ranges::sort(cuts);
        cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
        for (std::size_t k = 1; k < cuts.size(); ++k)
            if (cuts[k] % cuts[k - 1] != 0) return std::nullopt;
        auto base = std::int64_t{0};
        auto digits = std::vector<Digit>{};
        auto empty = false;
        for (std::size_t k = 0; k < cuts.size(); ++k) {
            const auto size =
                k + 1 < cuts.size() ? cuts[k + 1] / cuts[k] : std::numeric_limits<std::int64_t>::max();
            const auto of_a = a.base_ / cuts[k] % size;
            const auto of_b = b.base_ / cuts[k] % size;
            const auto a_varies = a.varies(cuts[k]);
            const auto b_varies = b.varies(cuts[k]);
            if ((a_varies && of_a != 0) || (b_varies && of_b != 0)) return std::nullopt;
            if (a_varies && b_varies)
                digits.push_back({static_cast<int>(size), static_cast<int>(cuts[k])});
            else if (!a_varies && !b_varies && of_a != of_b)
                empty = true;
            else
                base += (a_varies ? of_b : of_a) * cuts[k];
        }
        return empty ? RankSet() : RankSet(static_cast<int>(base), std::move(digits));
    }

    /// The first ranks of the hosts of `host` ranks that have a rank of the set; nothing where the strides
    /// and the size of a host do not divide one another.
    friend std::optional<RankSet> hosts_of(const RankSet& set, int host) {
        auto digits = std::vector<Digit>{};
        auto inside = set.base_ % host;
        for (const auto& digit : set.digits_) {
            const auto end = std::int64_t{digit.stride} * digit.size;
            if (end <= host) {
                inside += (digit.size - 1) * digit.stride;
            } else if (digit.stride >= host) {
                if (digit.stride % host != 0) return std::nullopt;
                digits.push_back(digit);
            } else {
                if (host % digit.stride != 0 || end % host != 0) return std::nullopt;
                digits.push_back({static_cast<int>(end / host), host});
                inside += host - digit.stride;
            }
        }
        if (inside >= host) return std::nullopt;
        return RankSet(set.base_ - set.base_ % host, std::move(digits));
    }

private:
    bool varies(std::int64_t stride) const {
        return std::ranges::any_of(digits_, [&](Digit digit) {
            return digit.stride <= stride && stride < std::int64_t{digit.stride} * digit.size;
        });
    }

    int base_ = 0;
    std::vector<Digit> digits_;  // strides falling
    int size_ = 0;
    int reach_ = 0;
};

}  // namespace rankmesh::detail
