// SPDX-License-Identifier: Apache-2.0
// accelerate's ParallelismConfig: DP-replicate x DP-shard x CP x SP x TP. Its device mesh has the axes of
// more than one rank, and flattened axes.
#include "frameworks/row_makers.hpp"

namespace rankmesh::frameworks::of_accelerate {

using Names = std::vector<std::string>;

/// The names of several ranks.
Names enabled(const Given& given, std::initializer_list<const char*> names) {
    auto found = Names{};
    for (const auto* name : names)
        if (given.number(cat(name, "_size")) > 1) found.emplace_back(name);
    return found;
}

/// DeepSpeed makes the groups of sequence parallelism itself, of neighbouring ranks; its other ranks are data
/// parallel whatever the other sizes say, which accelerate does not compare with the world.
void leave_to_deepspeed(Given& given, int sp, int total) {
    const auto world = given.world_size();
    if (total == world) return;
    if (world % sp != 0)
        throw Refusal(Fault::sizes, "ranks-left-out", "sp_size is ", sp, " and the world has ", world,
                      " ranks; DeepSpeed's sequence parallelism divides the world");
    for (const auto* axis : {"dp_replicate", "cp", "tp"}) given.derive(axis, 1);
    given.derive("dp_shard", world / sp);
}

void check(Given& given) {
    const auto size = [&](const char* axis) {
        const auto name = cat(axis, "_size");
        if (given.is_none(name)) given.derive(name, 1);
        return given.number(name);
    };
    const auto shard = size("dp_shard"), tp = size("tp"), cp = size("cp"), sp = size("sp");
    auto replicas = size("dp_replicate");
    for (const auto& [name, known] : {std::pair("cp_backend", "torch"), std::pair("sp_backend", "deepspeed")})
        if (!given.is_none(name) && given.word(name) != known)
            throw Error(Fault::unknown, name, " must be one of ['", known, "'], but got ", given.word(name));
    refuse_if(cp > 1 && sp > 1, Fault::exclusive,
              "Context Parallelism (CP) and Sequence Parallelism (SP) are mutually "
              "exclusive. Got cp_size=",
              cp, " and sp_size=", sp, ". Please set either cp_size=1 or sp_size=1.");
    refuse_if((tp > 1 || cp > 1) && replicas > 1 && shard == 1, Fault::exclusive,
              "Tensor/Context parallelism (tp/cp_size > 1) cannot be used with pure data parallelism "
              "(dp_replicate_size > 1 and dp_shard_size == 1). Set dp_shard_size above 1");
    // Without sizes all ranks are replicas.
    if (replicas * shard * tp * cp * sp == 1) replicas = given.world_size();
    const auto total = replicas * shard * tp * cp * sp;
    given.derive("dp_replicate_size", replicas);
    if (sp > 1)
        leave_to_deepspeed(given, sp, total);
    else if (total != given.world_size())
        throw Error(Fault::sizes, "ParallelismConfig total_size (", total, ") does not match num_processes (",
                    given.world_size(),
                    "). Please adjust "
                    "dp_replicate_size/ dp_shard_size/tp_size/cp_size/sp_size.");
    given.derive("total_size", total);
    given.derive("non_data_parallel_size", tp * cp * sp);
    given.derive("data_parallel_size", replicas * shard);
    given.derive("dp_size", replicas * shard);
    given.derive("dp_shard_cp_size", shard * cp);
    given.derive("dp_cp_size", replicas * shard * cp);
    auto fsdp = enabled(given, {"dp_replicate"});
    fsdp.emplace_back("dp_shard_cp");
    given.derive("dp_dim_names", enabled(given, {"dp_replicate", "dp_shard"}));
    given.derive("non_dp_dim_names", enabled(given, {"tp", "cp", "sp"}));
    given.derive("dp_shard_cp_dim_names", enabled(given, {"dp_shard", "cp"}));
    given.derive("dp_cp_dim_names", enabled(given, {"dp_replicate", "dp_shard", "cp"}));
    given.derive("fsdp_dim_names", fsdp);
    given.derive("active_mesh_dims", enabled(given, {"dp_replicate", "dp_shard", "tp", "cp", "sp"}));
}

std::vector<AccessorRow> accessors() {
    auto rows =
        std::vector{said("dp_replicate_size", "The number of replicas."),
                    said("dp_shard_size", "The ranks that share parameters."),
                    said("tp_size", "The tensor-parallel ranks."),
                    said("cp_size", "The context-parallel ranks."),
                    said("sp_size", "The sequence-parallel ranks."),
                    said("dp_dim_names", "The data-parallel axes of the mesh.", Type::words),
                    said("non_dp_dim_names", "The axes of the mesh whose ranks have one batch.", Type::words),
                    said("dp_shard_cp_dim_names", "The axes over which FSDP shards.", Type::words),
                    said("dp_cp_dim_names", "The axes over which the loss is averaged.", Type::words),
                    said("fsdp_dim_names", "The axes that FSDP is given.", Type::words),
                    said("total_size", "The product of all sizes."),
                    said("non_data_parallel_size", "The ranks that have one batch."),
                    said("data_parallel_size", "The ranks that have other batches."),
                    said("active_mesh_dims", "The axes of more than one rank.", Type::words)};
    add_enabled(rows, "dp_replicate dp_shard tp cp sp", "_size");
    return rows;
}

Framework framework() {
    const auto size = [](const char* axis, const char* doc) {
        const auto name = cat(axis, "_size");
        return Setting{name, Type::maybe_number, doc, {}, axis, cat("parallelism_config_", name)};
    };
    const auto backend = [](const char* name) {
        return Setting{.name = name, .type = Type::maybe_word, .flag = cat("parallelism_config_", name)};
    };
    const auto one = [](const char* axis) { return along(axis, cat(axis, "_size > 1 and sp_size <= 1")); };
    const auto several = [](const char* name, const char* axes) {
        return KindRow{
            .name = name, .groups = cat("* | ", axes), .when = cat(name, "_size > 1 and sp_size <= 1")};
    };
    return {.name = "accelerate",
            .version = "1.15.0",
            .original = "accelerate.parallelism_config",
            .title = "accelerate's ParallelismConfig: sizes of parallelism, and the device mesh of them.",
            .settings_of =
                "the arguments of ParallelismConfig, or those of accelerate launch and its configuration",
            .example = "dp_shard_size=4 tp_size=2",
            .settings = {size("dp_replicate", "replicas; without any size all ranks are replicas"),
                         size("dp_shard", "ranks that share parameters and optimizer state"), size("tp", ""),
                         size("cp", ""), backend("cp_backend"),
                         size("sp", "ranks that share a sequence, whose groups DeepSpeed makes"),
                         backend("sp_backend")},
            .meshes = {{"device_mesh", "dp_replicate dp_shard cp sp tp"}},
            .kinds = {one("dp_replicate"), one("dp_shard"), one("cp"), one("tp"),
                      several("dp", "dp_replicate dp_shard"), several("dp_shard_cp", "dp_shard cp"),
                      several("dp_cp", "dp_replicate dp_shard cp")},
            .accessors = accessors(),
            .check = check,
            .why = {{"pp", "accelerate's ParallelismConfig has no pipeline"},
                    {"ep", "accelerate's ParallelismConfig has no experts"}},
            .initialize = "ParallelismConfig",
            .by_value = true,
            .places = "parallelism_config",
            .started = "num_processes",
            .start = {.launcher = "accelerate accelerate.commands.launch",
                      .ranks = "--num-processes",
                      .has_settings = true}};
}

}  // namespace rankmesh::frameworks::of_accelerate
