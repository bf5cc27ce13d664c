// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/error.hpp>

#include "engine/engines.hpp"
#include "engine/nccl/unique_ids.hpp"

namespace rankmesh::detail {

/// The NCCL whose header this build was compiled with; nccl.cpp has it, or absent/nccl.cpp.
std::string nccl_library();

namespace {

/// Communicators are split from one of all ranks, which ranks outside hold too.
EngineNeed need_of_nccl(const JoinCost& cost) {
    const auto root = cost.joins ? 1 : 0;
    const auto ids = cost.joins ? nccl_id_count(cost.world) : 0;
    auto text = counted(cost.communicators + root, "communicator");
    if (root > 0)
        append(text, cat(": ", cost.communicators == 1 ? "this" : cat("these ", cost.communicators),
                         " and one of all ranks, from ", counted(ids, "unique id"),
                         "; their memory is known after join"));
    return {.engine = "nccl",
            .text = text,
            .amounts = {{.of = "communicators", .count = cost.communicators + root, .outside = root},
                        {.of = "unique_ids", .count = ids}},
            .outside = root > 0 ? "NCCL's of all ranks" : ""};
}

}  // namespace

Engine nccl_engine() { return {.name = "nccl", .library = nccl_library, .need = need_of_nccl}; }

}  // namespace rankmesh::detail
