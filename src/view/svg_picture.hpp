// SPDX-License-Identifier: Apache-2.0
// The elements of an SVG document that show a scene.
#pragma once

#include <string>

#include <rankmesh/view/scene.hpp>

namespace rankmesh::view {

constexpr auto longest_title = 160;  // most characters of the mesh and of the cluster

/// The elements of a picture, and their size.
struct Picture {
    int width = 0;
    int height = 0;
    std::string body;
};

Picture picture_of(const Scene& scene);

}  // namespace rankmesh::view
