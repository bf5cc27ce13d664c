// SPDX-License-Identifier: Apache-2.0
// Draws a scene as SVG.
#pragma once

#include <string>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/view/scene.hpp>

namespace rankmesh::view {

/// Returns a scene whose SVG document has about the shape of a screen. Up to 1024 ranks are all shown.
///
/// Throws UsageError if the mesh does not fit on the cluster, or does not contain the focus.
RANKMESH_EXPORT Scene draw_for_svg(const Placement& placement, const Subject& subject);

/// Returns the scene as an SVG document: one cell for each rank, a frame around each unit of the boxed level,
/// and a legend. Colours show the groups of the focus, or the index on `color_by`. The document follows a
/// light or dark page and loads nothing.
///
/// Law: each rank with a cell is the text of exactly one `<text class="rank">`.
RANKMESH_EXPORT std::string paint_svg(const Scene& scene);

/// Returns two scenes side by side as one SVG document.
RANKMESH_EXPORT std::string paint_svg(const Scene& left, const Scene& right);

/// Returns scenes as one SVG document: rows from top to bottom, the scenes of a row side by side.
RANKMESH_EXPORT std::string paint_svg(const std::vector<std::vector<Scene>>& rows);

}  // namespace rankmesh::view
