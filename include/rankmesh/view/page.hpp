// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <rankmesh/core/export.hpp>
#include <rankmesh/view/scene.hpp>

namespace rankmesh::view {

/// The most ranks, and devices of a cluster, that a page shows.
inline constexpr int max_page_size = 1 << 20;

/// One HTML document to look at a mesh with: a cell for each rank, boxes around the units of the cluster, or
/// where there is none along the axes; zoom, search, groups that light up, and what a rank is told.
///
/// It loads nothing, and computes coordinates from the axes itself: its size depends on the number of ranks
/// only where a table places them. The focus of the subject is selected, and a ring marks it where cells are
/// small; the ranks of its groups are not dimmed. Ranks are coloured by their index on
/// `color_by`; unless that is said, on the innermost axis of more than one position, from 1025 ranks on the
/// outermost.
///
/// Throws UsageError if the mesh does not fit on the cluster, does not contain the focus, or if there are
/// more than `max_page_size` ranks or devices.
RANKMESH_EXPORT std::string draw_page(const Mesh& mesh, const Subject& subject);
RANKMESH_EXPORT std::string draw_page(const Placement& placement, const Subject& subject);

}  // namespace rankmesh::view
