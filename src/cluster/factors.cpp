// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "cluster/objective.hpp"

namespace rankmesh::detail {

namespace {

/// Returns the divisors of a size, descending.
std::vector<int> divisors_of(int size) {
    auto divisors = std::vector<int>{};
    for (auto low = 1; low <= size / low; ++low) {
        if (size % low != 0) continue;
        divisors.push_back(low);
        if (low != size / low) divisors.push_back(size / low);
    }
    std::ranges::sort(divisors, std::greater{});
    return divisors;
}

/// Branch and bound, level by level from the devices outwards. The load of a level's links depends only on
/// the factors of inner levels; therefore partial choices give a lower bound.
class FactorSearch {
public:
    FactorSearch(const Objective& objective, const std::vector<int>& fan_outs)
        : objective_(objective), fan_outs_(fan_outs) {
        const auto& mesh = objective.plain;
        for (int a = 0; a < mesh.axis_count(); ++a) {
            auto& axis = axes_.emplace_back();
            axis.size = mesh.size(AxisId{a});
            axis.divisors = divisors_of(axis.size);
            for (const auto& of : objective.traffic)
                if (of.axis == mesh.name(AxisId{a})) axis.weight = of.weight, axis.operation = of.operation;
            axis.part = objective.bytes / axis.size + (objective.bytes % axis.size != 0 ? 1 : 0);
            const auto shifts = axis.operation == Collective::shift;
            axis.steps = shifts ? 1 : (axis.operation == Collective::all_reduce ? 2 : 1) * (axis.size - 1);
            axis.sent = static_cast<double>(shifts ? objective.bytes : axis.part) *
                        static_cast<double>(shifts ? 1 : axis.steps);
        }
        order_.resize(axes_.size());
        std::iota(order_.begin(), order_.end(), std::size_t{0});
        std::ranges::stable_sort(order_, [&](auto a, auto b) { return axes_[a].weight > axes_[b].weight; });
        chosen_.assign(fan_outs.size(), std::vector<int>(axes_.size(), 1));
        auto room = std::int64_t{1};
        for (auto fan_out : fan_outs) {
            room_outside_.push_back(room);
            room = std::min<std::int64_t>(room * fan_out, Mesh::max_size);
        }
    }

    std::optional<Factors> run(bool& complete) {
        auto state = State{.left = {}, .times = std::vector<Time>(axes_.size())};
        for (const auto& axis : axes_) state.left.push_back(axis.size);
        choose_level(fan_outs_.size(), state);
        complete = nodes_left_ > 0;
        return best_;
    }

private:
    static constexpr int most_nodes = 1 << 21;

    struct OneAxis {
        int size = 1;
        std::vector<int> divisors = {};  // divisors of the size, descending
        double weight = 0.0;
        Collective operation = Collective::all_reduce;
        std::int64_t part = 0;
        std::int64_t steps = 0;
        double sent = 0.0;
    };
    struct Time {
        double start = 0.0;   // seconds of one message
        double moving = 0.0;  // seconds of all bytes over the slowest link
    };
    struct State {
        std::vector<int> left;  // by axis: the factor that is not chosen yet
        std::vector<Time> times;
        std::int64_t ranks = 1;  // ranks inside a unit of the next level
    };

    /// Counts the load of the links of level `outside - 1`, and chooses its factors.
    void choose_level(std::size_t outside, State state) {
        const auto level = outside - 1;
        const auto& link = objective_.cluster.levels()[level];
        auto sum = 0.0;
        for (std::size_t a = 0; a < axes_.size(); ++a) {
            const auto& axis = axes_[a];
            if (axis.weight == 0.0 || axis.size == 1) continue;
            auto& [start, moving] = state.times[a];
            if (state.left[a] > 1) {
                const auto inside = axis.size / state.left[a];
                const auto ranks = static_cast<double>(state.ranks);
                const auto load = axis.operation == Collective::all_to_all
                                      ? ranks * (axis.size - inside) * static_cast<double>(axis.part)
                                      : ranks / inside * axis.sent;
                start = std::max(start, link.latency.value_or(0.0));
                moving = std::max(moving, load / link.bandwidth.value());
            }
            sum += axis.weight * (static_cast<double>(axis.steps) * start + moving);
        }
        if (best_ && sum >= least_) return;
        choose_axis(level, 0, fan_outs_[level], state, sum);
    }

    void choose_axis(std::size_t level, std::size_t place, int room, State& state, double sum) {
        // The remaining factors must fit into the rest of this unit and the outer units.
        auto rest = std::int64_t{1};
        for (auto left : state.left) rest *= left;
        if (rest > room * room_outside_[level] || nodes_left_-- <= 0) return;
        if (place == order_.size()) {
            if (rest > room_outside_[level]) return;
            if (level > 0) return choose_level(level, state);
            if (best_ && sum >= least_) return;
            least_ = sum;
            best_ = chosen_;
            return;
        }
        const auto a = order_[place];
        const auto left = state.left[a];
        for (auto factor : axes_[a].divisors) {
            // The outermost level takes all remaining factors.
            if (factor > room || left % factor != 0 || (level == 0 && factor != left)) continue;
            chosen_[level][a] = factor;
            state.left[a] = left / factor;
            state.ranks *= factor;
            choose_axis(level, place + 1, room / factor, state, sum);
            state.ranks /= factor;
        }
        chosen_[level][a] = 1;
        state.left[a] = left;
    }

    const Objective& objective_;
    const std::vector<int>& fan_outs_;
    std::vector<OneAxis> axes_;
    std::vector<std::size_t> order_;          // axes, the heaviest first
    std::vector<std::int64_t> room_outside_;  // by level: units of the outer levels
    Factors chosen_;
    std::optional<Factors> best_;
    double least_ = std::numeric_limits<double>::infinity();
    int nodes_left_ = most_nodes;
};

}  // namespace

std::optional<Factors> best_factors(const Objective& objective, const std::vector<int>& fan_outs,
                                    bool& complete) {
    return FactorSearch(objective, fan_outs).run(complete);
}

Mesh mesh_of_factors(const Cluster& cluster, const Mesh& plain, const Factors& factors) {
    auto text = std::string{};
    for (int a = 0; a < plain.axis_count(); ++a) {
        auto sizes = std::string{};
        auto strides = std::string{};
        for (std::size_t l = 0; l < factors.size(); ++l) {
            const auto& of = factors[l];
            const auto at = static_cast<std::size_t>(a);
            if (of[at] == 1) continue;
            auto stride = cluster.unit_size(0, static_cast<int>(l));
            for (auto b = at + 1; b < of.size(); ++b) stride *= of[b];
            append(sizes, cat(sizes.empty() ? "" : ",", of[at]));
            append(strides, cat(strides.empty() ? "" : ",", stride));
        }
        append(text, cat(text.empty() ? "" : " ", plain.name(AxisId{a}), "="));
        append(text, sizes.empty() ? std::string("1") : cat("(", sizes, "):(", strides, ")"));
    }
    return Mesh::parse(text);
}

}  // namespace rankmesh::detail
