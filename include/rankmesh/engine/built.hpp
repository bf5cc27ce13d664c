// SPDX-License-Identifier: Apache-2.0
// The engines that this build has.
#pragma once

#include <string>
#include <vector>

#include <rankmesh/core/export.hpp>

namespace rankmesh {

/// An engine in this build.
struct BuiltEngine {
    std::string name;     ///< "threads", "mpi", "gloo" or "nccl"
    std::string library;  ///< `Open MPI v4.1.4`: the library as loaded or, except for MPI, as compiled
};

/// Returns the engines of this build, "threads" first.
///
///     auto names = std::vector<std::string>{};
///     for (const auto& engine : built_engines()) names.push_back(engine.name);
///     EXPECT_EQ(names.front(), "threads");
RANKMESH_EXPORT std::vector<BuiltEngine> built_engines();

}  // namespace rankmesh
