// SPDX-License-Identifier: Apache-2.0
// Draws a scene as text for a terminal.
#pragma once

#include <string>

#include <rankmesh/core/export.hpp>
#include <rankmesh/view/scene.hpp>

namespace rankmesh::view {

/// Options of the text of a scene.
struct TextStyle {
    int width = 80;  ///< columns of the terminal; less than 40 counts as 40
    bool color = false;
};

/// Returns the scene as lines of text: the grid in box-drawing characters, the folds, and a legend.
///
/// Law: the text without colour equals the text with colour minus its escape sequences.
RANKMESH_EXPORT std::string paint_text(const Scene& scene, const TextStyle& style);

/// Returns the width of the grid in terminal columns. `style.width` limits the labels of the rows.
RANKMESH_EXPORT int text_width(const Scene& scene, const TextStyle& style);

/// Returns the scene with the most columns that fit into `style.width`.
template <class Topology>
Scene draw_for_text(const Topology& topology, const Subject& subject, const TextStyle& style) {
    auto limits = Limits{};
    for (limits.columns = style.width / 2; limits.columns > 1; --limits.columns) {
        auto scene = draw(topology, subject, limits);
        if (text_width(scene, style) <= style.width) return scene;
    }
    limits.columns = 1;
    return draw(topology, subject, limits);
}

}  // namespace rankmesh::view
