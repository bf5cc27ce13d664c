// SPDX-License-Identifier: Apache-2.0
// Draws a mesh as an interactive HTML page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/view/scene.hpp>

namespace rankmesh::view {

/// The most ranks, and the most devices, that a page shows.
inline constexpr int max_page_size = 1 << 20;

/// Returns an interactive HTML document of a mesh: one cell for each rank, and boxes around the units of the
/// cluster, or along the axes without a cluster. The reader can zoom, search, highlight groups and look up a
/// rank.
///
/// The document loads nothing from the network. It computes coordinates from the axes; only a placement makes
/// its size depend on the number of ranks. The subject's focus is selected; a ring marks the focus if cells
/// are small; ranks of its groups are not dimmed. Colours show the index on `color_by`. The default is the
/// innermost axis of size 2 or more, or the outermost such axis from 1025 ranks on.
///
/// Throws UsageError if the mesh does not fit on the cluster, does not contain the focus, or has more than
/// `max_page_size` ranks or devices.
RANKMESH_EXPORT std::string draw_page(const Placement& placement, const Subject& subject);

/// Returns one HTML document that shows such documents one below the other.
RANKMESH_EXPORT std::string join_pages(std::string_view title, const std::vector<std::string>& pages);

}  // namespace rankmesh::view
