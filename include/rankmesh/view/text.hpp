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

/// Returns the scene with the most columns that fit into `style.width`.
RANKMESH_EXPORT Scene draw_for_text(const Placement& placement, const Subject& subject,
                                    const TextStyle& style);

}  // namespace rankmesh::view
