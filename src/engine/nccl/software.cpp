// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/error.hpp>
#include <rankmesh/engine/nccl.hpp>

#include "engine/nccl/library.hpp"

namespace rankmesh::nccl {

Software software() {
    auto found = Software{};
    try {
        const auto& libraries = detail::Libraries::get();
        auto code = 0;
        if (libraries.nccl.get_version(&code) == ncclSuccess) found.nccl = detail::nccl_version_text(code);
        if (libraries.cuda.runtime_version(&code) == cudaSuccess)
            found.runtime = detail::cuda_version_text(code);
        // 0: there is no driver.
        if (libraries.cuda.driver_version(&code) == cudaSuccess && code > 0)
            found.driver = detail::cuda_version_text(code);
        found.devices = libraries.devices();
    } catch (const EngineFailure& error) {
        found.problem = error.what();
    }
    return found;
}

}  // namespace rankmesh::nccl
