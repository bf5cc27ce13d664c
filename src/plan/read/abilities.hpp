// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <rankmesh/plan/search.hpp>

namespace rankmesh::plan {

/// Leaves out the layouts that a framework cannot run, of the frameworks whose settings beside the mesh are
/// written; of others nothing is known.
void restrict_to(std::string_view framework, Options& options);

}  // namespace rankmesh::plan
