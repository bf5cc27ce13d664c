// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/core/placement.hpp>
#include <rankmesh/view/scene.hpp>

namespace rankmesh::view {

/// The scene whose SVG document is about as wide as a screen for its height; it shows all of up to 1024
/// ranks.
///
/// Throws UsageError if the mesh does not fit on the cluster, or does not contain the focus.
RANKMESH_EXPORT Scene draw_for_svg(const Mesh& mesh, const Subject& subject);
RANKMESH_EXPORT Scene draw_for_svg(const Placement& placement, const Subject& subject);

/// The scene as one SVG document: a cell for each rank, a frame around each unit of the boxed level, the
/// groups of the focus in the colours of their axes, or each rank in the colour of its index on one axis, and
/// a legend. It follows a light or dark page, and loads nothing.
///
/// Law: every rank of a cell of the scene is the text of exactly one `<text class="rank">`.
RANKMESH_EXPORT std::string paint_svg(const Scene& scene);

/// Two scenes side by side as one SVG document.
RANKMESH_EXPORT std::string paint_svg(const Scene& left, const Scene& right);

}  // namespace rankmesh::view
