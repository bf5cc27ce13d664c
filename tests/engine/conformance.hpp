// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/engine/world.hpp>

#include "support/text_of.hpp"

/// Runs `program` on every rank of a world, or of several worlds in turn: what each engine's conformance test
/// brings.
void on_every_rank(const std::function<void(rankmesh::World&)>& program);

/// True if the suite runs in checked mode.
inline bool is_checked() {
    const auto* given = std::getenv("RANKMESH_CHECK");
    return given && std::string_view(given) == "1";
}

/// What rank `from` sends as its message number `k`.
inline std::vector<int> words(int from, int k, std::size_t count = 5) {
    auto made = std::vector<int>(count);
    for (std::size_t i = 0; i < count; ++i) made[i] = from * 10000 + k * 100 + static_cast<int>(i);
    return made;
}

inline std::vector<std::string> axes_of(const rankmesh::Mesh& mesh) {
    auto names = std::vector<std::string>{};
    const auto place = mesh.coord(mesh.offset());
    for (int i = 0; i < place.size(); ++i) names.emplace_back(place.name(i));
    return names;
}

/// Meshes of exactly `world` ranks: one axis, two, three with one of size 1, and strides the other way round.
inline std::vector<rankmesh::Mesh> meshes_of(int world) {
    using rankmesh::Mesh;
    auto meshes = std::vector<Mesh>{Mesh{{"dp", world}}};
    for (int n = 2; n <= world; ++n)
        if (world % n == 0) {
            meshes.push_back(Mesh{{"dp", world / n}, {"tp", n}});
            meshes.push_back(Mesh{{"pp", n}, {"dp", 1}, {"tp", world / n}});
            meshes.push_back(Mesh{{"dp", world / n}, {"tp", n}}.permuted({"tp", "dp"}));
        }
    if (world % 8 == 0) meshes.push_back(Mesh{{"pp", 2}, {"dp", world / 4}, {"tp", 2}});
    return meshes;
}
