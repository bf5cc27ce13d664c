// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/llamafactory/strategy.hpp>

#include <charconv>
#include <cstdlib>

#include <rankmesh/dialect/error.hpp>

namespace rankmesh::llamafactory {

using detail::cat;
using dialect::Error;
using dialect::Fault;

namespace {

std::optional<int> number(const char* name) {
    const auto* given = std::getenv(name);
    if (!given) return std::nullopt;
    const auto text = std::string_view(given);
    auto value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
        throw Error(Fault::argument, cat(name, "='", text, "' is no whole number"));
    return value;
}

/// The other of two sizes that make up the world: what was given, or what is left.
int other(int world_size, int size, std::string_view name, std::optional<int> given, std::string_view both) {
    if (given && std::int64_t{size} * *given != world_size)
        throw Error(Fault::sizes, cat(both, " must equal to world_size, got ",
                                      name == "cp_size" ? cat(*given, " * ", size) : cat(size, " * ", *given),
                                      " != ", world_size, "."));
    if (size < 1) throw Error(Fault::sizes, cat(name, " is ", size, "; sizes are 1 or more"));
    // The older version rounds down here, and ranks stand in no group.
    if (world_size % size != 0)
        throw dialect::Refusal(
            Fault::sizes, "ranks-left-out",
            cat("world_size (", world_size, ") must be divisible by ", name, " (", size, ")."));
    return world_size / size;
}

}  // namespace

Environment Environment::from_environment() {
    return {.rank = number("RANK"),
            .world_size = number("WORLD_SIZE").value_or(1),
            .local_rank = number("LOCAL_RANK").value_or(0),
            .local_world_size = number("LOCAL_WORLD_SIZE").value_or(1)};
}

DistributedStrategy::DistributedStrategy(const Config& config, int world_size, bool is_distributed)
    : mp_replicate_size(config.mp_replicate_size), mp_shard_size(1), dp_size(1), cp_size(config.cp_size) {
    if (!is_distributed) return;
    mp_shard_size = other(world_size, mp_replicate_size, "mp_replicate_size", config.mp_shard_size,
                          "mp_replicate_size * mp_shard_size");
    dp_size = other(world_size, cp_size, "cp_size", config.dp_size, "dp_size * cp_size");
}

Plan plan(const Config& config, int world_size) {
    const auto strategy = DistributedStrategy(config, world_size, true);
    return {{.name = "model", .mesh = strategy.model_mesh(), .timeout = config.timeout},
            {.name = "data", .mesh = strategy.data_mesh(), .timeout = config.timeout},
            {.name = "world", .local = "node", .timeout = config.timeout}};
}

}  // namespace rankmesh::llamafactory
