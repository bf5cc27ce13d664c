// SPDX-License-Identifier: Apache-2.0
// AReaL's GLOBAL_PROCESS_GROUP_REGISTRY, as an object.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <rankmesh/core/export.hpp>

namespace rankmesh::areal {

/// The sets of ranks for which AReaL would have made a process group, each once a backend; it makes none.
///
///     areal::ProcessGroupRegistry().new_or_get_group({3, 1, 2}, "gloo") == 0
class RANKMESH_EXPORT ProcessGroupRegistry {
public:
    struct Group {
        std::vector<int> ranks;  ///< sorted
        std::string backend;
    };

    /// `backend` is that of the default process group: the device's.
    explicit ProcessGroupRegistry(std::string backend = "nccl") : backend_(std::move(backend)) {}

    /// The number of the group of these ranks, in any order, on this backend, the default one if not given.
    int new_or_get_group(std::vector<int> ranks, const std::optional<std::string>& backend = {});
    /// What was made, in this order.
    const std::vector<Group>& made() const { return made_; }
    int size() const { return static_cast<int>(made_.size()); }
    /// Forgets all groups; nothing happens where the processes were never initialised.
    void destroy_all_comm_groups(bool is_initialized = true) {
        if (is_initialized) ids_.clear(), made_.clear();
    }

private:
    std::string backend_;
    std::map<std::pair<std::vector<int>, std::string>, int> ids_;
    std::vector<Group> made_;
    int next_id_ = 0;
};

}  // namespace rankmesh::areal
