// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/olmo/config.hpp>

#include <charconv>
#include <cstdlib>
#include <system_error>

#include <rankmesh/dialect/error.hpp>

#include "dialect/olmo/division.hpp"

namespace rankmesh::olmo {

using detail::cat;
using dialect::Error;
using dialect::Fault;

namespace {

std::optional<int> from_environment(const char* name) {
    const auto* given = std::getenv(name);
    if (!given) return std::nullopt;
    const auto text = std::string_view(given);
    auto value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec != std::errc{} || read.ptr != text.data() + text.size())
        throw Error(Fault::argument, cat(name, " is '", text, "', which is no number"));
    return value;
}

int checked(std::string_view what, int degree, int dp_world_size) {
    if (!divides(degree, dp_world_size, what))
        throw Error(Fault::sizes, cat("data parallel world size (", dp_world_size, ") must be divisible by '",
                                      what, "' (", degree, ")"));
    return degree;
}

}  // namespace

Environment environment_of(const World& world) {
    auto environment = Environment{.num_nodes = from_environment("NUM_NODES"),
                                   .local_world_size = from_environment("LOCAL_WORLD_SIZE")};
    if (!environment.local_world_size) environment.local_world_size = world.local_size();
    return environment;
}

int get_num_nodes(const Environment& environment, int world_size) {
    if (environment.num_nodes) return *environment.num_nodes;
    if (environment.local_world_size)
        return quotient(world_size, *environment.local_world_size, "LOCAL_WORLD_SIZE");
    throw Error(Fault::missing,
                cat("the number of nodes of a world of ", world_size, world_size == 1 ? " rank" : " ranks",
                    " is not known; give NUM_NODES or LOCAL_WORLD_SIZE"));
}

DataParallelType data_parallel_type(std::string_view name) {
    if (name == "fsdp") return DataParallelType::fsdp;
    if (name == "hsdp") return DataParallelType::hsdp;
    if (name == "ddp") return DataParallelType::ddp;
    throw Error(Fault::unknown,
                cat("'", name, "' is not a valid DataParallelType; they are fsdp, hsdp and ddp"));
}

std::pair<int, int> DataParallelConfig::get_replicate_and_shard_degree(int dp_world_size,
                                                                       int num_nodes) const {
    if (!num_replicas && !shard_degree)
        return {num_nodes, quotient(dp_world_size, num_nodes, "the number of nodes")};
    const auto replicas = num_replicas ? checked("num_replicas", *num_replicas, dp_world_size)
                                       : quotient(dp_world_size, *shard_degree, "shard_degree");
    const auto shards = shard_degree ? checked("shard_degree", *shard_degree, dp_world_size)
                                     : quotient(dp_world_size, replicas, "num_replicas");
    return {replicas, shards};
}

}  // namespace rankmesh::olmo
