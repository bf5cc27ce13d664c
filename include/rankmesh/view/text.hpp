// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <rankmesh/core/export.hpp>
#include <rankmesh/view/scene.hpp>

namespace rankmesh::view {

/// How a scene becomes text.
struct TextStyle {
    int width = 80;  ///< columns of the terminal; less than 40 counts as 40
    bool color = false;
};

/// The scene as lines of text: the grid in box drawing characters, what was folded, and a legend.
///
/// Law: without colour, the text is that with colour without its escape sequences.
RANKMESH_EXPORT std::string paint_text(const Scene& scene, const TextStyle& style);

/// The columns of a terminal that the grid of a scene takes; `style.width` bounds the labels of its rows.
RANKMESH_EXPORT int text_width(const Scene& scene, const TextStyle& style);

/// The scene with the most columns that text of this width has room for.
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
