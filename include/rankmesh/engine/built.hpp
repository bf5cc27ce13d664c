// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <rankmesh/core/export.hpp>

namespace rankmesh {

/// An engine of this build, or a store for Gloo's rendezvous.
struct BuiltEngine {
    std::string name;     ///< "threads", "mpi", "gloo", "redis", "pmix" or "nccl"
    std::string library;  ///< `Open MPI v4.1.4`: what it works with or, but for MPI, was compiled with
};

/// What this build has, "threads" first.
///
///     auto names = std::vector<std::string>{};
///     for (const auto& engine : built_engines()) names.push_back(engine.name);
///     EXPECT_EQ(names.front(), "threads");
RANKMESH_EXPORT std::vector<BuiltEngine> built_engines();

}  // namespace rankmesh
