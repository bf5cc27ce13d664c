// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>

#include "cluster/objective.hpp"

namespace rankmesh::detail {

namespace {

/// Enumerates every placement once. Equal sibling units are interchangeable: the unit whose first device has
/// the lower position comes first.
class Enumeration {
public:
    explicit Enumeration(const Objective& objective)
        : objective_(objective), cluster_(objective.cluster), ranks_(at(objective.plain.size())) {
        for (int device = 0; device < cluster_.size(); ++device) {
            auto& before = before_.emplace_back();
            for (int l = 0; l < cluster_.level_count(); ++l) {
                const auto unit = cluster_.unit(device, l);
                if (cluster_.first_device(unit, l) != device || unit == 0) continue;
                const auto other = cluster_.first_device(unit - 1, l);
                const auto together = l == 0 || cluster_.unit(other, l - 1) == cluster_.unit(device, l - 1);
                if (together && shape(unit, l) == shape(unit - 1, l)) before.push_back(other);
            }
        }
    }

    /// Returns true if there are at most `most` placements.
    bool count(int most) {
        left_ = most;
        counting_ = true;
        assign(0, objective_.plain.size());
        counting_ = false;
        return left_ >= 0;
    }

    std::vector<int> best() {
        assign(0, objective_.plain.size());
        return best_;
    }

private:
    static std::size_t at(int i) { return static_cast<std::size_t>(i); }

    std::string shape(int unit, int level) const {
        if (level + 1 == cluster_.level_count()) return ".";
        const auto first = cluster_.first_device(unit, level);
        const auto last = first + cluster_.unit_size(unit, level) - 1;
        auto text = std::string("(");
        for (auto inner = cluster_.unit(first, level + 1); inner <= cluster_.unit(last, level + 1); ++inner)
            text += shape(inner, level + 1);
        return text + ")";
    }

    /// Assigns the devices from `device` on to the `open` positions without a device.
    void assign(int device, int open) {
        if (left_ < 0) return;
        const auto size = objective_.plain.size();
        if (device == cluster_.size()) {
            if (counting_) --left_;
            if (counting_) return;
            const auto seconds = objective_.of_ranks(ranks_);
            if (seconds < least_) best_ = ranks_;
            least_ = std::min(least_, seconds);
            return;
        }
        auto least = 0;
        for (auto other : before_[at(device)]) least = std::max(least, position_[at(other)]);
        for (auto position = least; position < size; ++position) {
            if (taken_[at(position)]) continue;
            taken_[at(position)] = true;
            position_[at(device)] = position;
            ranks_[at(position)] = device;
            assign(device + 1, open - 1);
            taken_[at(position)] = false;
        }
        if (cluster_.size() - device == open) return;
        position_[at(device)] = size;  // idle
        assign(device + 1, open);
    }

    const Objective& objective_;
    const Cluster& cluster_;
    std::vector<std::vector<int>> before_;  // by device: the devices that must have lower positions
    std::vector<int> ranks_;                // the rank at each position
    std::vector<int> position_ = std::vector<int>(at(cluster_.size()));
    std::vector<bool> taken_ = std::vector<bool>(ranks_.size());
    std::vector<int> best_;
    double least_ = std::numeric_limits<double>::infinity();
    bool counting_ = false;
    int left_ = 0;
};

}  // namespace

std::optional<std::vector<int>> best_of_all(const Objective& objective) {
    constexpr auto most_devices = 12;
    constexpr auto most_placements = 12000;
    if (objective.cluster.size() > most_devices) return std::nullopt;
    auto all = Enumeration(objective);
    if (!all.count(most_placements)) return std::nullopt;
    return all.best();
}

}  // namespace rankmesh::detail
