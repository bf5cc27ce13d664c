// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/torchtitan/parallel_dims.hpp>

#include <algorithm>
#include <array>

#include <rankmesh/core/mesh.hpp>
#include <rankmesh/dialect/error.hpp>

namespace rankmesh::torchtitan {

using detail::cat;
using dialect::Error;
using dialect::Fault;

namespace {

constexpr auto backends = std::array<std::string_view, 3>{"partial_dtensor", "full_dtensor", "spmd_types"};

/// The product of sizes of 1 or more, or a number above every world.
std::int64_t product(std::initializer_list<int> sizes) {
    auto ranks = std::int64_t{1};
    for (const auto size : sizes) ranks = std::min(ranks * size, std::int64_t{Mesh::max_size} + 1);
    return ranks;
}

}  // namespace

std::vector<std::string> unfold_dp_axis(std::string_view axis) {
    using Name = MeshAxisName;
    if (axis == Name::dp) return {std::string(Name::dp_replicate), std::string(Name::dp_shard)};
    for (const auto name : {Name::dp_replicate, Name::dp_shard, Name::fsdp, Name::tp, Name::cp, Name::pp,
                            Name::ep, Name::efsdp})
        if (name == axis) return {std::string(axis)};
    throw Error(Fault::unknown, cat("'", axis, "' is not a valid MeshAxisName"));
}

std::vector<std::string> unfold_dp_axes(std::span<const std::string> axes) {
    auto unfolded = std::vector<std::string>{};
    for (const auto& axis : axes)
        for (auto& name : unfold_dp_axis(axis)) unfolded.push_back(std::move(name));
    return unfolded;
}

std::string_view to_string(SpmdBackend backend) { return backends[static_cast<std::size_t>(backend)]; }

SpmdBackend spmd_backend(std::string_view name) {
    const auto found = std::ranges::find(backends, name);
    if (found == backends.end())
        throw Error(Fault::unknown,
                    "parallelism.spmd_backend must be one of 'partial_dtensor', 'full_dtensor', or "
                    "'spmd_types'.");
    return static_cast<SpmdBackend>(found - backends.begin());
}

ParallelDims::ParallelDims(const Degrees& degrees, int ranks, SpmdBackend backend)
    : Degrees(degrees), world_size(ranks), spmd_backend(backend) {
    if (std::min({dp_replicate, cp, tp, pp, ep}) < 1)
        throw Error(Fault::sizes, "Parallelism degree should be >= 1, except for dp_shard");
    if (dp_shard != -1 && dp_shard < 1) throw Error(Fault::sizes, "dp_shard must -1 or >=1.");
    if (dp_shard == -1) dp_shard = static_cast<int>(world_size / product({dp_replicate, cp, tp, pp}));
    // Where that is 0 the original says nothing but that it is.
    if (dp_shard < 1 || product({dp_replicate, dp_shard, cp, tp, pp}) != world_size)
        throw Error(Fault::sizes,
                    cat("Invalid parallel dims: dp_replicate(", dp_replicate, ") * dp_shard(", dp_shard,
                        ") * cp(", cp, ") * tp(", tp, ") * pp(", pp, ") != WORLD_SIZE(", world_size, ")"));
    const auto sparse_region = dp_shard * cp * tp;
    if (sparse_region % ep != 0)
        throw Error(Fault::exclusive, cat("expert_parallel_degree (", ep,
                                          ") must divide dp_shard * cp * tp (", sparse_region, ")"));
}

ParallelDims ParallelDims::from_config(const ParallelismConfig& config, int world_size) {
    return {{.dp_replicate = config.data_parallel_replicate_degree,
             .dp_shard = config.data_parallel_shard_degree,
             .cp = config.context_parallel_degree,
             .tp = config.tensor_parallel_degree,
             .pp = config.pipeline_parallel_degree,
             .ep = config.expert_parallel_degree},
            world_size,
            config.spmd_backend};
}

}  // namespace rankmesh::torchtitan
