// SPDX-License-Identifier: Apache-2.0
// transformers' DistributedConfig: PP x DP-replicate x FSDP x TP of dense layers, and PP x DP-replicate x
// EFSDP x EP of experts over the same ranks.
#include "frameworks/row_makers.hpp"

namespace rankmesh::frameworks::of_transformers {

void check(Given& given) {
    const auto size = [&](const char* name) {
        refuse_if(!given.is_none(name) && given.number(name) < 1, Fault::argument,
                  "Parallelism sizes must be >= 1, got ", given.number(name), ".");
        if (given.is_none(name)) given.derive(name, 1);
        return given.number(name);
    };
    const auto world = given.world_size();
    const auto fsdp = size("fsdp_size"), replicas = size("dp_replicate_size"), pp = size("pp_size");
    const auto others = fsdp * replicas * pp;
    if (given.is_none("tp_size") && !given.is_none("tp_plan")) {
        refuse_if(world % others != 0, Fault::argument, "WORLD_SIZE (", world,
                  ") must be divisible by dp_replicate_size * fsdp_size * pp_size (", others,
                  ") to derive tp_size.");
        given.derive("tp_size", world / others);
    }
    const auto tp = size("tp_size");
    if (given.is_none("ep_size") && given.flag("enable_expert_parallel")) given.derive("ep_size", tp);
    const auto ep = size("ep_size");
    refuse_if(ep > 1 && ep % tp != 0, Fault::argument, "`ep_size` must be a multiple of `tp_size`.");
    refuse_if(ep > 1 && fsdp * tp % ep != 0, Fault::argument, "`ep_size` must divide `fsdp_size * tp_size`.");
    refuse_if(pp > 1 && fsdp * replicas > 1, Fault::exclusive,
              "Combining FSDP with pipeline parallelism is not supported yet. Use "
              "DistributedConfig(tp_size=N, fsdp_size=M), or combine TP and PP.");
    // If no size is given, each rank has its own model, and transformers makes no mesh.
    const auto has_mesh = others * tp > 1;
    if (!has_mesh) given.derive("dp_replicate", world);
    refuse_if(has_mesh && others * tp != world, Fault::missing, "The parallel mesh requires ", others * tp,
              " processes, but world_size is ", world, ".");
    given.derive("has_mesh", has_mesh);
    given.derive("efsdp_size", fsdp * tp / ep);
    given.derive("efsdp", fsdp * tp / ep);
    given.derive("ep", ep);
    given.derive("dp_size", replicas * fsdp);
}

std::optional<Mesh> experts(const Given& given, const Mesh& mesh) {
    const auto ep = given.number("ep");
    if (ep == 1) return std::nullopt;
    const auto parts = {Axis{"efsdp", mesh.size() / mesh.size("pp") / mesh.size("dp_replicate") / ep},
                        {"ep", ep}};
    return mesh.flatten({"fsdp", "tp"}, "all").split("all", parts).flatten({"dp_replicate", "efsdp"}, "edp");
}
Values write_experts(const Mesh& experts) { return {{"ep_size", experts.size("ep")}}; }

Framework framework() {
    const auto size = [](const char* axis, const char* doc) {
        return Setting{cat(axis, "_size"), Type::maybe_number, doc, {}, axis};
    };
    constexpr auto made = "has_mesh";
    return {.name = "transformers",
            .version = "5.24.0",
            .original = "transformers.distributed.configuration_utils",
            .title = "transformers' DistributedConfig, and the device meshes of dense layers and of experts.",
            .settings_of = "the arguments of DistributedConfig",
            .example = "tp_size=2 fsdp_size=4",
            .settings = {size("tp", "without it and with tp_plan, what the other sizes leave of the world"),
                         {"tp_plan", Type::plan, "'auto' or the model's rules, which change no group"},
                         {"enable_sequence_parallel", Type::flag},
                         {"enable_expert_parallel", Type::flag, "without ep_size: as many as tp_size"},
                         size("fsdp", "ranks that share parameters and optimizer state"),
                         size("dp_replicate", "replicas of fsdp_size ranks"),
                         {"fsdp_plan", Type::plan},
                         {"fsdp_cpu_offload", Type::flag},
                         {"fsdp_mixed_precision", Type::flag},
                         size("pp", "stages"),
                         {"ep_size", Type::maybe_number,
                          "ranks with other experts: a multiple of tp_size that divides fsdp_size * tp_size"},
                         {"ep_plan", Type::plan},
                         {"ep_implementation", Type::word, {}, "auto"}},
            .meshes = {{"dense", "pp dp_replicate fsdp tp"}, {"expert", "pp dp_replicate efsdp ep"}},
            .kinds = {along("pp", made), along("dp_replicate", made), along("fsdp", made), along("tp", made),
                      along("efsdp", made, "expert: "), along("ep", made, "expert: ")},
            .accessors = {said("tp_size", "The tensor-parallel ranks."),
                          said("fsdp_size", "The ranks that share parameters."),
                          said("dp_replicate_size", "The number of replicas."),
                          said("pp_size", "The stages."), said("ep_size", "The ranks with other experts."),
                          said("efsdp_size", "The ranks that share the same experts."),
                          said("dp_size", "The ranks with other batches.")},
            .check = check,
            .roles = {{"fsdp", "dp_shard"}},
            .experts = experts,
            .write_experts = write_experts,
            .raises = {{"", "ValueError"}, {"missing", "RuntimeError"}},
            .initialize = "DistributedConfig",
            .by_value = true};
}

}  // namespace rankmesh::frameworks::of_transformers
