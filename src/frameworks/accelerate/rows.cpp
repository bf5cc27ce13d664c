// SPDX-License-Identifier: Apache-2.0
// accelerate's ParallelismConfig: DP-replicate x DP-shard x CP x SP x TP. Its device mesh has the axes of
// more than one rank, and flattened axes.
#include "frameworks/rows.hpp"

namespace rankmesh::frameworks {

namespace of_accelerate {

using Names = std::vector<std::string>;

/// The names that are enabled.
Names enabled(const Given& given, std::initializer_list<const char*> names) {
    auto found = Names{};
    for (const auto* name : names)
        if (given.flag(detail::cat(name, "_enabled"))) found.emplace_back(name);
    return found;
}

/// DeepSpeed makes the groups of sequence parallelism itself, of neighbouring ranks; its other ranks are data
/// parallel whatever the other sizes say, which accelerate does not compare with the world.
void leave_to_deepspeed(Given& given, int sp, int total) {
    const auto world = given.world_size();
    if (total == world) return;
    if (world % sp != 0)
        throw Refusal(Fault::sizes, "ranks-left-out",
                      detail::cat("sp_size is ", sp, " and the world has ", world,
                                  " ranks; DeepSpeed's sequence parallelism divides the world"));
    for (const auto* axis : {"dp_replicate", "cp", "tp"}) given.derive(axis, 1);
    given.derive("dp_shard", world / sp);
}

void check(Given& given) {
    const auto size = [&](const char* axis) {
        const auto name = detail::cat(axis, "_size");
        if (given.is_none(name)) given.derive(name, 1);
        return given.number(name);
    };
    const auto shard = size("dp_shard"), tp = size("tp"), cp = size("cp"), sp = size("sp");
    auto replicas = size("dp_replicate");
    for (const auto& [name, known] : {std::pair("cp_backend", "torch"), std::pair("sp_backend", "deepspeed")})
        if (!given.is_none(name) && given.word(name) != known)
            throw Error(Fault::unknown,
                        detail::cat(name, " must be one of ['", known, "'], but got ", given.word(name)));
    if (cp > 1 && sp > 1)
        throw Error(Fault::exclusive,
                    detail::cat("Context Parallelism (CP) and Sequence Parallelism (SP) are mutually "
                                "exclusive. Got cp_size=",
                                cp, " and sp_size=", sp, ". Please set either cp_size=1 or sp_size=1."));
    if ((tp > 1 || cp > 1) && replicas > 1 && shard == 1)
        throw Error(Fault::exclusive,
                    "Tensor/Context parallelism (tp/cp_size > 1) cannot be used with pure data parallelism "
                    "(dp_replicate_size > 1 and dp_shard_size == 1). Set dp_shard_size above 1");
    // Without sizes all ranks are replicas.
    if (replicas * shard * tp * cp * sp == 1) replicas = given.world_size();
    const auto total = replicas * shard * tp * cp * sp;
    given.derive("dp_replicate_size", replicas);
    if (sp > 1)
        leave_to_deepspeed(given, sp, total);
    else if (total != given.world_size())
        throw Error(Fault::sizes, detail::cat("ParallelismConfig total_size (", total,
                                              ") does not match num_processes (", given.world_size(),
                                              "). Please adjust "
                                              "dp_replicate_size/ dp_shard_size/tp_size/cp_size/sp_size."));
    given.derive("total_size", total);
    given.derive("non_data_parallel_size", tp * cp * sp);
    given.derive("data_parallel_size", replicas * shard);
    for (const auto* axis : {"dp_replicate", "dp_shard", "cp", "sp", "tp"})
        given.derive(detail::cat(axis, "_enabled"), size(axis) > 1);
    given.derive("dp_size", replicas * shard);
    given.derive("dp_shard_cp_size", shard * cp);
    given.derive("dp_cp_size", replicas * shard * cp);
    const auto data = enabled(given, {"dp_replicate", "dp_shard"});
    const auto others = enabled(given, {"tp", "cp", "sp"});
    auto active = data;
    active.insert(active.end(), others.begin(), others.end());
    auto fsdp = enabled(given, {"dp_replicate"});
    fsdp.emplace_back("dp_shard_cp");
    given.derive("dp_dim_names", data);
    given.derive("non_dp_dim_names", others);
    given.derive("dp_shard_cp_dim_names", enabled(given, {"dp_shard", "cp"}));
    given.derive("dp_cp_dim_names", enabled(given, {"dp_replicate", "dp_shard", "cp"}));
    given.derive("fsdp_dim_names", fsdp);
    given.derive("active_mesh_dims", active);
}

}  // namespace of_accelerate

Framework accelerate() {
    using namespace of_accelerate;
    const auto size = [](const char* axis, const char* doc) {
        const auto name = detail::cat(axis, "_size");
        return Setting{.name = name,
                       .otherwise = {},
                       .axis = axis,
                       .flag = detail::cat("parallelism_config_", name),
                       .type = Type::maybe_number,
                       .doc = doc};
    };
    const auto backend = [](const char* name) {
        return Setting{.name = name,
                       .otherwise = {},
                       .flag = detail::cat("parallelism_config_", name),
                       .type = Type::maybe_word};
    };
    const auto along = [](const std::string& name, const char* groups) {
        return KindRow{.name = name, .groups = groups, .when = name + "_size > 1 and not sp_enabled"};
    };
    const auto answer = [](const char* name, Type type, const char* doc) {
        return AccessorRow{.name = name, .kind = name, .quantity = Quantity::value, .doc = doc, .type = type};
    };
    return {.name = "accelerate",
            .version = "1.15.0",
            .original = "accelerate.parallelism_config",
            .title =
                "accelerate's ParallelismConfig: sizes of parallelism, and the device mesh that follows from "
                "them.",
            .settings_of =
                "the arguments of ParallelismConfig, or those of accelerate launch and its configuration",
            .example = "dp_shard_size=4 tp_size=2",
            .settings = {size("dp_replicate", "replicas; without any size all ranks are replicas"),
                         size("dp_shard", "ranks that share parameters and optimizer state"), size("tp", ""),
                         size("cp", ""), backend("cp_backend"),
                         size("sp", "ranks that share a sequence, whose groups DeepSpeed makes"),
                         backend("sp_backend")},
            .meshes = {{"device_mesh", "dp_replicate dp_shard cp sp tp"}},
            .kinds = {along("dp_replicate", "dp_shard cp sp tp | dp_replicate"),
                      along("dp_shard", "dp_replicate cp sp tp | dp_shard"),
                      along("cp", "dp_replicate dp_shard sp tp | cp"),
                      along("tp", "dp_replicate dp_shard cp sp | tp"),
                      along("dp", "cp sp tp | dp_replicate dp_shard"),
                      along("dp_shard_cp", "dp_replicate sp tp | dp_shard cp"),
                      along("dp_cp", "sp tp | dp_replicate dp_shard cp")},
            .accessors = {answer("dp_replicate_size", Type::number, "The number of replicas."),
                          answer("dp_shard_size", Type::number, "The ranks that share parameters."),
                          answer("tp_size", Type::number, "The tensor-parallel ranks."),
                          answer("cp_size", Type::number, "The context-parallel ranks."),
                          answer("sp_size", Type::number, "The sequence-parallel ranks."),
                          answer("dp_dim_names", Type::words, "The data-parallel axes of the mesh."),
                          answer("non_dp_dim_names", Type::words,
                                 "The axes of the mesh whose ranks have one batch."),
                          answer("dp_shard_cp_dim_names", Type::words, "The axes over which FSDP shards."),
                          answer("dp_cp_dim_names", Type::words, "The axes over which the loss is averaged."),
                          answer("fsdp_dim_names", Type::words, "The axes that FSDP is given."),
                          answer("total_size", Type::number, "The product of all sizes."),
                          answer("non_data_parallel_size", Type::number, "The ranks that have one batch."),
                          answer("data_parallel_size", Type::number, "The ranks that have other batches."),
                          answer("dp_replicate_enabled", Type::flag, "True if there are replicas."),
                          answer("dp_shard_enabled", Type::flag, "True if parameters are sharded."),
                          answer("tp_enabled", Type::flag, "True if there is tensor parallelism."),
                          answer("cp_enabled", Type::flag, "True if there is context parallelism."),
                          answer("sp_enabled", Type::flag, "True if there is sequence parallelism."),
                          answer("active_mesh_dims", Type::words, "The axes of more than one rank.")},
            .check = check,
            .why = {{"pp", "accelerate's ParallelismConfig has no pipeline"},
                    {"ep", "accelerate's ParallelismConfig has no experts"}},
            .raises = {{"", "ValueError"}},
            .initialize = "ParallelismConfig",
            .by_value = true,
            .places = "parallelism_config",
            .started = "num_processes",
            .start = {.launcher = "accelerate accelerate.commands.launch",
                      .ranks = "--num-processes",
                      .has_settings = true}};
}

}  // namespace rankmesh::frameworks
