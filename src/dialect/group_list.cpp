// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/group_list.hpp>

#include <rankmesh/core/detail/layout_parts.hpp>
#include <rankmesh/core/detail/repeat.hpp>

namespace rankmesh::dialect {

namespace {

GroupPart part_from(const Group& whole, Cut cut, int first) {
    const auto left = (whole.size() - first + cut.step - 1) / cut.step;
    return {whole, first, cut.step, std::min(cut.size, left)};
}

}  // namespace

GroupPart part_of(const Group& whole, Cut cut, int position) {
    if (cut.size == 0) return {whole, 0, 1, whole.size()};
    const auto block = cut.size * cut.step;
    return part_from(whole, cut, position / block * block + position % cut.step);
}

GroupList::GroupList(const Partition& groups, Cut cut) : groups_(groups), cut_(cut) {
    if (cut_.size == 0) cut_.size = groups_.group_size();
    const auto block = cut_.size * cut_.step;
    if (cut_.size < 1 || cut_.step < 1 || (cut_.step > 1 && groups_.group_size() % block != 0))
        throw UsageError(rankmesh::detail::cat("groups of ", groups_.group_size(),
                                               " cannot be cut into parts of ", cut_.size, " members ",
                                               cut_.step,
                                               " apart; both must be 1 or more, and their product "
                                               "divide the group where the step is above 1"));
    parts_ = (groups_.group_size() + block - 1) / block * cut_.step;
}

GroupList::GroupList(const Partition& groups, const std::vector<int>& picked)
    : groups_(groups), picked_(picked) {
    cut_.size = groups_[0].pick(picked_).size();
}

GroupPart GroupList::operator[](int i) const {
    const auto j = i % parts_;
    return part_from(picked(groups_[i / parts_]), cut_,
                     j / cut_.step * cut_.size * cut_.step + j % cut_.step);
}

/// The same groups without a cut, nothing where strides do not say it.
std::optional<Partition> GroupList::partition() const {
    if (!picked_.empty()) return std::nullopt;
    if (cut_.step == 1) return groups_;  // parts of adjacent members, one after the other
    const auto block = cut_.size * cut_.step;
    auto parts = rankmesh::detail::LayoutParts(groups_.along());
    const auto blocks = parts.next(groups_.group_size() / block);
    const auto along = blocks ? parts.next(cut_.size) : std::nullopt;
    const auto within = along ? parts.next(cut_.step) : std::nullopt;
    if (!within) return std::nullopt;
    auto across = groups_.across();
    for (const auto& layout : {*blocks, *within})
        for (int k = 0; k < layout.digit_count(); ++k) across.push_back(layout.digit(k));
    return Partition(groups_[0].front(), across, *along);
}

void GroupList::copy_to(std::span<int> out) const {
    if (out.size() != rank_count())
        throw UsageError(rankmesh::detail::cat("the ", rank_count(), " ranks of ", size(),
                                               " groups were asked for in a buffer of ", out.size()));
    if (const auto whole = partition()) return whole->copy_to(out);
    auto next = out.begin();
    for (int i = 0; i < parts_; ++i) next = std::ranges::copy((*this)[i], next).out;
    rankmesh::detail::repeat_along(out, static_cast<std::size_t>(next - out.begin()), groups_.across());
}

}  // namespace rankmesh::dialect
