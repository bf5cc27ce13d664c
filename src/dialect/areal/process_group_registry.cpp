// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/areal/process_group_registry.hpp>

#include <algorithm>

namespace rankmesh::areal {

int ProcessGroupRegistry::new_or_get_group(std::vector<int> ranks,
                                           const std::optional<std::string>& backend) {
    std::ranges::sort(ranks);
    const auto& on = backend ? *backend : backend_;
    const auto [found, is_new] = ids_.try_emplace({ranks, on}, next_id_);
    if (!is_new) return found->second;
    made_.push_back({std::move(ranks), on});
    return next_id_++;
}

void ProcessGroupRegistry::destroy_all_comm_groups(bool is_initialized) {
    if (!is_initialized) return;
    ids_.clear();
    made_.clear();
}

}  // namespace rankmesh::areal
