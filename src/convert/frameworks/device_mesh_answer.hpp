// SPDX-License-Identifier: Apache-2.0
// What frameworks over torch's DeviceMesh answer with.
#pragma once

#include <rankmesh/dialect/device_mesh.hpp>

#include "convert/words.hpp"

namespace rankmesh::conversion {

/// A part of a mesh as its dimensions and its ranks: `dp=2 cp=2 {0, 2, 4, 6}`.
inline std::string described(const dialect::DeviceMesh& part) {
    const auto names = part.mesh_dim_names().value_or(std::vector<std::string>{});
    const auto shape = part.shape();
    auto text = std::string{};
    for (std::size_t i = 0; i < names.size(); ++i) text += names[i] + "=" + std::to_string(shape[i]) + " ";
    return text + to_string(part.mesh());
}
inline std::optional<std::string> described(const std::optional<dialect::DeviceMesh>& part) {
    return part ? std::optional(described(*part)) : std::nullopt;
}

}  // namespace rankmesh::conversion
