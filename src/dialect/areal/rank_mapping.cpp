// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/areal/rank_mapping.hpp>

#include <rankmesh/dialect/error.hpp>

namespace rankmesh::areal {

using detail::cat;
using dialect::Error;
using dialect::Fault;
using dialect::Refusal;

RankMapping::RankMapping(const std::map<int, int>& ranks)
    : table_(std::make_shared<const std::map<int, int>>(ranks)) {
    if (ranks.empty()) {
        size_ = 0;
        table_.reset();
        return;
    }
    offset_ = ranks.begin()->second;
    if (ranks.size() > 1) {
        const auto step = std::int64_t{std::next(ranks.begin())->second} - offset_;
        step_ = static_cast<int>(step);
        if (step_ != step) return;
    }
    auto next = 0;
    for (auto [from, to] : ranks) {
        if (from != next || std::int64_t{to} != offset_ + std::int64_t{next} * step_) return;
        ++next;
    }
    size_ = next;
    table_.reset();
}

void RankMapping::check(int size, int world_size) const {
    if (size > size_) (*this)[size_];
    const auto refuse_step = [](int rank, int before, int after) {
        throw Refusal(
            Fault::argument, "mapping-not-rising",
            cat("the rank mapping puts topology ranks ", rank, " and ", rank + 1, " on ranks ", before,
                " and ", after, "; groups are sorted, so each rank must be above the one before"));
    };
    const auto check_inside = [&](std::int64_t rank) {
        if (rank < 0 || rank >= world_size)
            throw Error(Fault::out_of_range,
                        cat("The new group's rank should be within the world_size set by init_process_group; "
                            "rank ",
                            rank, " is not in a world of ", world_size));
    };
    if (!step()) {
        for (int rank = 0; rank < size; ++rank) check_inside((*this)[rank]);
        for (int rank = 0; rank + 1 < size; ++rank)
            if ((*this)[rank] >= (*this)[rank + 1]) refuse_step(rank, (*this)[rank], (*this)[rank + 1]);
        return;
    }
    const auto last = offset_ + (std::int64_t{size} - 1) * step_;
    check_inside(offset_);
    check_inside(last);
    if (step_ < 1 && size > 1) refuse_step(0, offset_, offset_ + step_);
}

int RankMapping::operator[](int topology_rank) const {
    const auto none = [&] {
        return Error(Fault::missing, cat("the rank mapping has no rank ", topology_rank));
    };
    if (step()) {
        if (topology_rank < 0 || topology_rank >= size_) throw none();
        return offset_ + topology_rank * step_;
    }
    const auto found = table_->find(topology_rank);
    if (found == table_->end()) throw none();
    return found->second;
}

std::optional<int> RankMapping::find(int world_rank, int size) const {
    auto low = 0;
    auto high = size;
    while (low < high) {
        const auto middle = low + (high - low) / 2;
        if ((*this)[middle] < world_rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < size && (*this)[low] == world_rank ? std::optional(low) : std::nullopt;
}

MappedGroup RankMapping::of(const Group& topology_ranks) const { return {topology_ranks, *this}; }

}  // namespace rankmesh::areal
