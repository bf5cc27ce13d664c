// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "cluster/objective.hpp"

namespace rankmesh::detail {

namespace {

/// A factor of an axis.
struct Factor {
    int axis;
    int size;
};

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Returns the prime factors of a size, largest first.
std::vector<int> primes_of(int size) {
    auto primes = std::vector<int>{};
    for (auto prime = 2; size > 1; ++prime) {
        if (prime > size / prime) prime = size;
        for (; size % prime == 0; size /= prime) primes.push_back(prime);
    }
    std::ranges::reverse(primes);
    return primes;
}

/// Places positions in blocks. A block of inner factors goes into the first innermost unit that has room for
/// all of it; it is split only if there is none.
class Packing {
public:
    /// `factors` are outermost first; their products are the axes of the mesh.
    Packing(const Cluster& cluster, const Mesh& plain, const std::vector<Factor>& factors)
        : cluster_(cluster), ranks_(at(plain.size())) {
        auto strides = std::vector<int>(at(plain.axis_count()));
        auto stride = 1;
        for (int a = plain.axis_count(); a-- > 0;) {
            strides[at(a)] = stride;
            stride *= plain.size(AxisId{a});
        }
        for (auto i = factors.size(); i-- > 0;) {
            const auto [axis, size] = factors[i];
            digits_.push_back({size, strides[at(axis)]});
            strides[at(axis)] *= size;
            blocks_.push_back(blocks_.back() * size);
        }
        containers_ = cluster.level_count() - 1;
        for (int l = 0; l < containers_; ++l) {
            auto& free = free_.emplace_back();
            auto& largest = largest_.emplace_back(0);
            for (int unit = 0; unit < cluster.unit_count(l); ++unit) {
                free.push_back(cluster.unit_size(unit, l));
                largest = std::max(largest, free.back());
            }
        }
        used_.resize(containers_ > 0 ? free_.back().size() : 1);
    }

    std::vector<int> run() {
        put(digits_.size(), 0, -1, 0);
        return ranks_;
    }

private:
    struct Digit {
        int size;
        int stride;  // of positions
    };

    /// Places the block of the `inner` innermost digits at `position` into a unit with room for it.
    void put(std::size_t inner, int position, int level, int unit) {
        const auto block = blocks_[inner];
        for (auto l = containers_ - 1; l > level; --l) {
            if (largest_[at(l)] < block) continue;
            const auto begin = level < 0 ? 0 : cluster_.unit(cluster_.first_device(unit, level), l);
            const auto end =
                level < 0 ? cluster_.unit_count(l)
                          : cluster_.unit(
                                cluster_.first_device(unit, level) + cluster_.unit_size(unit, level) - 1, l) +
                                1;
            // Free room only shrinks: a unit without room earlier has none now.
            auto& next = next_.try_emplace({l, level, unit, static_cast<int>(inner)}, begin).first->second;
            while (next < end && free_[at(l)][at(next)] < block) ++next;
            if (next < end) return put(inner, position, l, next);
        }
        if (inner == 0) return give(position, level, unit);
        const auto [size, stride] = digits_[inner - 1];
        for (int i = 0; i < size; ++i) put(inner - 1, position + i * stride, level, unit);
    }

    void give(int position, int level, int unit) {
        const auto device = (level < 0 ? 0 : cluster_.first_device(unit, level)) + used_[at(unit)]++;
        ranks_[at(position)] = device;
        for (int l = 0; l < containers_; ++l) --free_[at(l)][at(cluster_.unit(device, l))];
    }

    const Cluster& cluster_;
    std::vector<int> ranks_;              // by position
    std::vector<Digit> digits_;           // innermost first
    std::vector<int> blocks_ = {1};       // positions by number of digits
    int containers_ = 0;                  // number of levels whose units hold several devices
    std::vector<std::vector<int>> free_;  // free devices by level and unit
    std::vector<int> largest_;            // by level
    std::vector<int> used_;               // used devices by unit of the innermost container
    std::map<std::array<int, 4>, int> next_;
};

/// Returns for each level how many units an outer unit holds: the most frequent number, or the least.
std::vector<int> fan_outs_of(const Cluster& cluster, int ranks, bool least) {
    auto fan_outs = std::vector<int>{ranks};
    for (int l = 1; l < cluster.level_count(); ++l) {
        auto counts = std::map<int, int>{};
        for (int unit = 0; unit < cluster.unit_count(l - 1); ++unit) {
            const auto first = cluster.first_device(unit, l - 1);
            const auto last = first + cluster.unit_size(unit, l - 1) - 1;
            ++counts[cluster.unit(last, l) - cluster.unit(first, l) + 1];
        }
        const auto common = std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; });
        fan_outs.push_back(least ? counts.begin()->first : common->first);
    }
    return fan_outs;
}

/// Returns the factors of all axes; the heaviest axis is innermost and complete before the next.
std::vector<int> by_weight(const Objective& objective) {
    auto axes = std::vector<int>{};
    for (const auto& of : objective.traffic) axes.push_back(objective.plain.axis(of.axis).index);
    std::ranges::stable_sort(axes, [&](int a, int b) {
        const auto weight = [&](int axis) {
            for (const auto& of : objective.traffic)
                if (of.axis == objective.plain.name(AxisId{axis})) return of.weight;
            return 0.0;
        };
        return weight(a) < weight(b);
    });
    return axes;
}

void append_factors(std::vector<Factor>& factors, int axis, int size) {
    for (auto prime : primes_of(size)) factors.push_back({axis, prime});
}

/// Returns the lists of factors to try, the most promising first.
std::vector<std::vector<Factor>> lists_of(const Objective& objective, std::size_t most) {
    const auto& mesh = objective.plain;
    auto axes = by_weight(objective);
    auto lists = std::vector<std::vector<Factor>>{};
    for (auto least : {false, true}) {
        auto complete = true;
        const auto factors =
            best_factors(objective, fan_outs_of(objective.cluster, mesh.size(), least), complete);
        if (!factors) continue;
        auto& list = lists.emplace_back();
        for (const auto& level : *factors)
            for (auto axis : axes) append_factors(list, axis, level[at(axis)]);
    }
    const auto first = axes;
    do {
        auto& list = lists.emplace_back();
        for (auto axis : axes) append_factors(list, axis, mesh.size(AxisId{axis}));
        if (!std::next_permutation(axes.begin(), axes.end())) std::ranges::sort(axes);
    } while (axes != first && lists.size() < most);
    return lists;
}

/// Exchanges pairs of positions, and positions with idle devices, while that helps and the budget of
/// evaluations lasts.
void refine(const Objective& objective, std::vector<int>& ranks, double& seconds, int budget) {
    const auto& cluster = objective.cluster;
    auto idle = std::vector<int>{};
    auto taken = std::vector<bool>(at(cluster.size()));
    for (auto rank : ranks) taken[at(rank)] = true;
    for (int device = 0; device < cluster.size(); ++device)
        if (!taken[at(device)]) idle.push_back(device);
    const auto container = cluster.level_count() - 2;
    const auto together = [&](int a, int b) {
        return container < 0 || cluster.unit(a, container) == cluster.unit(b, container);
    };
    const auto helps = [&](int& a, int& b) {
        if (together(a, b) || budget <= 0) return false;
        --budget;
        std::swap(a, b);
        const auto now = objective.of_ranks(ranks);
        if (now < seconds * (1 - 1e-12)) {
            seconds = now;
            return true;
        }
        std::swap(a, b);
        return false;
    };
    for (auto helped = true; helped && budget > 0;) {
        helped = false;
        for (std::size_t i = 0; i < ranks.size() && budget > 0; ++i) {
            for (auto& device : idle) helped = helps(ranks[i], device) || helped;
            for (auto j = i + 1; j < ranks.size(); ++j) helped = helps(ranks[i], ranks[j]) || helped;
        }
    }
}

}  // namespace

std::vector<int> packed(const Objective& objective) {
    // The cost of an evaluation is proportional to this; the budget keeps all evaluations below one second.
    const auto work = std::int64_t{objective.plain.size()} * objective.cluster.level_count() *
                      static_cast<std::int64_t>(std::max<std::size_t>(objective.traffic.size(), 1));
    auto best = std::vector<int>{};
    auto least = std::numeric_limits<double>::infinity();
    const auto most = static_cast<std::size_t>(std::clamp<std::int64_t>(3'000'000 / work, 3, 150));
    for (const auto& factors : lists_of(objective, most)) {
        auto ranks = Packing(objective.cluster, objective.plain, factors).run();
        const auto seconds = objective.of_ranks(ranks);
        if (seconds < least) {
            least = seconds;
            best = std::move(ranks);
        }
    }
    refine(objective, best, least, static_cast<int>(std::min<std::int64_t>(3'000'000 / work, 3000)));
    return best;
}

}  // namespace rankmesh::detail
