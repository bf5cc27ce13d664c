// SPDX-License-Identifier: Apache-2.0
// Meshes that a picture must be right for: few and many axes, sizes of 1, no powers of two, strides, offsets.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/core/mesh.hpp>

#include "support/fewer.hpp"

namespace rankmesh::tests {

inline std::vector<Mesh> meshes() {
    auto meshes = std::vector<Mesh>{};
    for (const auto* text :
         {"a=1", "a=1 b=1", "dp=8", "dp=17", "dp=1000", "dp=64 tp=2", "pp=2 dp=2 tp=2", "pp=1 dp=5 cp=1 tp=3",
          "pp=4 dp=8 tp=8", "pp=2 dp=16 tp=64", "pp=3 dp=100 tp=7", "pp=2:32 dp=4:8 @64", "pp=2:1 dp=4:2",
          "a=(2,2):(8,1) b=4:2", "pp=16 dp=16 cp=2 tp=4", "a=2 b=2 c=2 d=2 e=2 f=2 g=2 h=2 i=2 j=2 k=2 l=2",
          "tensor-model-parallel-size-long=3 data-parallel-size-of-it-all=40 pipeline-model-parallel=2",
          "a=2 b=1 c=2 d=1 e=2 f=1 g=2 h=1 i=2 j=1 k=2 l=1 m=2 n=1 o=2 p=2"})
        meshes.push_back(Mesh::parse(text));
    return support::fewer_if_sanitized(meshes);
}

/// Clusters of which the mesh fits on each, and none.
inline std::vector<std::optional<Cluster>> clusters(const Mesh& mesh) {
    auto clusters = std::vector<std::optional<Cluster>>{std::nullopt};
    for (auto inside : {1, 3, 8}) {
        const auto nodes = (mesh.extent() - 1) / inside + 1;
        clusters.emplace_back(Cluster({{"node", nodes}, {"gpu", inside}}));
        clusters.emplace_back(Cluster({{"rack", nodes / 2 + 1}, {"node", 2}, {"gpu", inside}}));
    }
    clusters.emplace_back(Cluster({{"gpu", mesh.extent() + 1}}));
    clusters.emplace_back(
        Cluster({{.name = "node", .units = {{"a", 3}, {"b", mesh.extent()}}}, {.name = "gpu"}}));
    return clusters;
}

}  // namespace rankmesh::tests
