// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <rankmesh/plan/search.hpp>

namespace rankmesh::plan {

/// Excludes the layouts that a framework cannot run. Knows only the frameworks for which plan writes settings
/// besides the mesh.
void restrict_to(std::string_view framework, Options& options);

}  // namespace rankmesh::plan
