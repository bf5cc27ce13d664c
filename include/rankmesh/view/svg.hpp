// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <rankmesh/core/export.hpp>
#include <rankmesh/view/scene.hpp>

namespace rankmesh::view {

/// The scene as one SVG document: a cell for each rank, a frame around each unit of the boxed level, the
/// groups of the focus in the colours of their axes, or each rank in the colour of its index on one axis, and
/// a legend. It follows a light or dark page, and loads nothing.
///
/// Law: every rank of a cell of the scene is the text of exactly one `<text class="rank">`.
RANKMESH_EXPORT std::string paint_svg(const Scene& scene);

/// Two scenes side by side as one SVG document.
RANKMESH_EXPORT std::string paint_svg(const Scene& left, const Scene& right);

}  // namespace rankmesh::view
