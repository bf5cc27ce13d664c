// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/areal/rank_mapping.hpp>

#include <algorithm>
#include <ranges>

#include <rankmesh/dialect/error.hpp>

namespace rankmesh::areal {

using detail::cat;
using dialect::Error;
using dialect::Fault;
using dialect::Refusal;

void RankMapping::check(int size, int world_size) const {
    const auto check_inside = [&](std::int64_t rank) {
        if (rank < 0 || rank >= world_size)
            throw Error(Fault::out_of_range,
                        cat("The new group's rank should be within the world_size set by init_process_group; "
                            "rank ",
                            rank, " is not in a world of ", world_size));
    };
    const auto check_rising = [](int rank, std::int64_t before, std::int64_t after) {
        if (before >= after)
            throw Refusal(
                Fault::argument, "mapping-not-rising",
                cat("the rank mapping puts topology ranks ", rank, " and ", rank + 1, " on ranks ", before,
                    " and ", after, "; groups are sorted, so each rank must be above the one before"));
    };
    if (!table_) {  // the first two ranks and the last say it for all
        check_inside(offset_);
        check_inside(offset_ + (std::int64_t{size} - 1) * step_);
        if (size > 1) check_rising(0, offset_, std::int64_t{offset_} + step_);
        return;
    }
    for (int rank = 0; rank < size; ++rank) check_inside((*this)[rank]);
    for (int rank = 0; rank + 1 < size; ++rank) check_rising(rank, (*this)[rank], (*this)[rank + 1]);
}

int RankMapping::operator[](int topology_rank) const {
    if (!table_) return offset_ + topology_rank * step_;
    const auto found = table_->find(topology_rank);
    if (found == table_->end())
        throw Error(Fault::missing, cat("the rank mapping has no rank ", topology_rank));
    return found->second;
}

std::optional<int> RankMapping::find(int world_rank, int size) const {
    const auto ranks = std::views::iota(0, size);
    const auto found =
        std::ranges::lower_bound(ranks, world_rank, {}, [&](int rank) { return (*this)[rank]; });
    return found != ranks.end() && (*this)[*found] == world_rank ? std::optional(*found) : std::nullopt;
}

std::vector<int> RankMapping::of(const Group& topology_ranks) const {
    auto ranks = std::vector<int>(topology_ranks.begin(), topology_ranks.end());
    for (auto& rank : ranks) rank = (*this)[rank];
    return ranks;
}

}  // namespace rankmesh::areal
