// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/nccl.hpp>

#include <rankmesh/core/error.hpp>

#include "engine/access.hpp"
#include "engine/nccl/library.hpp"
#include "engine/nccl/world.hpp"

namespace rankmesh::detail {

std::string nccl_library() { return cat("NCCL ", nccl_version_text(NCCL_VERSION_CODE)); }

}  // namespace rankmesh::detail

namespace rankmesh::nccl {

bool is_built() { return true; }

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

World::World(const rankmesh::World& host, const Options& options)
    : World(std::make_shared<detail::NcclWorld>(detail::Access::checked_state(host), options.device,
                                                options.split_share, nullptr)) {}

int World::device() const {
    return static_cast<const detail::NcclWorld&>(*detail::Access::checked_state(*this)).device_number();
}

}  // namespace rankmesh::nccl
