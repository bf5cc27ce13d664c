// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include <rankmesh/engine/join_cost.hpp>

namespace rankmesh::detail {

/// A group whose ranks are all connected to each other.
struct Connected {
    std::string label;
    int size = 1;
};

/// The descriptors that these groups of one rank need of this process.
Descriptors descriptors_of(std::span<const Connected> groups);

}  // namespace rankmesh::detail
