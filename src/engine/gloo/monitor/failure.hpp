// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rankmesh::detail {

/// Why a channel cannot be used any more: the same on all its members.
struct Failure {
    /// `gone`: lost without a word; `lost`: it has said that it leaves.
    enum class Kind : std::uint32_t { gone, lost, timeout, failure };
    Kind kind = Kind::failure;
    std::string why;
    std::vector<int> lost = {};  // world ranks, as all others here
    std::vector<int> arrived = {};
    std::vector<int> missing = {};
};

}  // namespace rankmesh::detail
