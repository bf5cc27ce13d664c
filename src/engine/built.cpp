// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/built.hpp>

#include "engine/libraries.hpp"

namespace rankmesh {

std::vector<BuiltEngine> built_engines() {
    auto built = std::vector<BuiltEngine>{{"threads", ""}};
    for (const auto& engine :
         {BuiltEngine{"mpi", detail::mpi_library()}, BuiltEngine{"gloo", detail::gloo_library()},
          BuiltEngine{"redis", detail::redis_library()}, BuiltEngine{"pmix", detail::pmix_library()},
          BuiltEngine{"nccl", detail::nccl_library()}})
        if (!engine.library.empty()) built.push_back(engine);
    return built;
}

}  // namespace rankmesh
