// SPDX-License-Identifier: Apache-2.0
// torchtitan's ParallelDims: several meshes over the same ranks; experts take theirs from dp_shard, cp and
// tp.
#include <algorithm>

#include "frameworks/torchtitan/torchtitan.hpp"

namespace rankmesh::frameworks {

namespace of_torchtitan {

constexpr auto experts_tp = "expert_tensor_parallel_degree";  // of versions of 2025

/// The product of these sizes, or a number above every world.
std::int64_t product(const Given& given, std::initializer_list<const char*> axes) {
    auto product = std::int64_t{1};
    for (const auto* axis : axes)
        product = std::min(product * std::max(given.number(axis), 1), std::int64_t{Mesh::max_size} + 1);
    return product;
}

std::optional<std::int64_t> ranks(const Given& given) {
    if (given.number("dp_shard") < 0) return std::nullopt;
    return product(given, {"pp", "dp_replicate", "dp_shard", "cp", "tp"});
}

void check_first(Given& given) {
    const auto& backend = given.word("spmd_backend");
    refuse_if(backend != "full_dtensor" && !is_spmd(given) && !is_folded(given), Fault::unknown,
              "parallelism.spmd_backend must be one of 'partial_dtensor', 'full_dtensor', or "
              "'spmd_types'.");
    for (const auto* degree : {"dp_replicate", "cp", "tp", "pp", "ep"})
        refuse_if(given.number(degree) < 1, Fault::sizes,
                  "Parallelism degree should be >= 1, except for dp_shard");
    const auto world = given.world_size();
    auto shards = given.number("dp_shard");
    refuse_if(shards != -1 && shards < 1, Fault::sizes, "dp_shard must -1 or >=1.");
    if (shards == -1) shards = static_cast<int>(world / product(given, {"dp_replicate", "cp", "tp", "pp"}));
    given.derive("dp_shard", shards);
    // Where that is 0 the original says nothing but that it is.
    refuse_if(shards < 1 || ranks(given) != world, Fault::sizes, "Invalid parallel dims: dp_replicate(",
              given.number("dp_replicate"), ") * dp_shard(", shards, ") * cp(", given.number("cp"), ") * tp(",
              given.number("tp"), ") * pp(", given.number("pp"), ") != WORLD_SIZE(", world, ")");
}

/// What the meshes and the answers ask for by name.
void check(Given& given) {
    const auto replicas = given.number("dp_replicate"), shards = given.number("dp_shard");
    const auto cp = given.number("cp"), tp = given.number("tp"), pp = given.number("pp"),
               ep = given.number("ep");
    for (const auto* name : {"batch", "dp"}) given.derive(name, replicas * shards);
    given.derive("loss", replicas * shards * cp);
    given.derive("fsdp", shards * cp);
    given.derive("efsdp", shards * cp * tp / ep);
    given.derive("non_data_parallel_size", cp * tp * pp);
}

void check_flags(const Given& given) {
    const auto ep = given.number("ep"), etp = given.number(experts_tp), tp = given.number("tp");
    const auto region = given.number("dp_shard") * given.number("cp") * tp;
    if (ep > 1 && ((etp != tp && etp != 1) || region % (std::int64_t{ep} * etp) != 0))
        throw UsageError(cat("expert_parallel_degree is ", ep, " and ", experts_tp, " ", etp,
                             "; the second is 1 or the tensor parallel degree ", tp,
                             ", and their product divides dp_shard * cp * tp, which is ", region));
}

/// Adds the meshes that ParallelDims builds, and the groups along each name that is enabled. Throws for
/// experts that do not fit; of those on a command line check_flags has said more before.
void extend(const Given& given, std::vector<MeshRow>& meshes, Kinds& kinds) {
    const auto region = given.number("dp_shard") * given.number("cp") * given.number("tp");
    const auto ep = given.number("ep"), of_experts = ep > 1 ? ep * given.number(experts_tp) : 1;
    refuse_if(of_experts < 1 || region % of_experts != 0, Fault::exclusive, "expert_parallel_degree (",
              of_experts, ") must divide dp_shard * cp * tp (", region, ")");
    for (auto& root : roots(given)) meshes.push_back(std::move(root));
    for (const auto& [name, root] : named(given)) {
        if (!is_enabled(given, name)) continue;
        kinds.add({std::string(name), cat(root, ": * | ", name == "loss" ? "batch cp" : name)});
    }
}

std::optional<Mesh> experts(const Given& given, const Mesh& mesh) {
    const auto pp = mesh.size("pp"), ep = given.number("ep"), etp = given.number(experts_tp);
    if (ep == 1) return std::nullopt;
    const auto edp = mesh.size() / (pp * ep * etp);
    if (etp == 1) return Mesh{{"pp", pp}, {"edp", edp}, {"ep", ep}};
    return Mesh{{"pp", pp}, {"edp", edp}, {"ep", ep}, {"etp", etp}};
}

Values write(const std::vector<Mesh>& meshes) {
    const auto& dense = meshes.front();
    const auto tp = size_of(dense, "tp");
    const auto region = dense.size() / (size_of(dense, "pp") * size_of(dense, "dp_replicate"));
    auto values = Values{{"dp_shard", region / (size_of(dense, "cp") * tp)}};
    for (const auto* axis : {"pp", "dp_replicate", "cp", "tp"})
        values.emplace_back(axis, size_of(dense, axis));
    for (const auto& mesh : meshes)
        if (const auto ep = size_of(mesh, "ep"); ep > 1 && region % ep == 0) values.emplace_back("ep", ep);
    return values;
}

std::vector<Call> calls(const Given& given) {
    auto all = std::vector<Call>{};
    for (const auto& [name, root] : named(given))
        all.push_back({cat("get_mesh(\"", name, "\")"), "get_mesh", {{"dims", std::string(name)}}});
    return all;
}

}  // namespace of_torchtitan

Framework torchtitan() {
    using namespace of_torchtitan;
    constexpr auto experts_why = "torchtitan's experts are runs of dp_shard, cp and tp";
    constexpr auto etp_why = "torchtitan 0.3.0 has no tensor parallelism of experts; give etp=1";
    const auto degree = [](const char* axis, const char* flag) {
        return Setting{.name = axis, .axis = axis, .flag = flag};
    };
    const auto of_stages = [](const char* name, Type type, const char* extra) {
        return Setting{.name = name, .type = type, .only_configured = true, .extra = extra};
    };
    return {
        .name = "torchtitan",
        .version = "0.3.0",
        .original = "torchtitan.distributed.parallel_dims",
        .title = "torchtitan's degrees of parallelism, and the meshes that they build.",
        .settings_of =
            "[parallelism] of its TOML: data_parallel_shard_degree and so on; may need the world's size",
        .example = "tensor_parallel_degree=2 data_parallel_shard_degree=4",
        .settings = {degree("dp_replicate", "data_parallel_replicate_degree"),
                     {.name = "dp_shard", .otherwise = -1, .flag = "data_parallel_shard_degree"},
                     degree("cp", "context_parallel_degree"),
                     degree("tp", "tensor_parallel_degree"),
                     degree("pp", "pipeline_parallel_degree"),
                     {.name = "ep", .flag = "expert_parallel_degree"},
                     {.name = experts_tp, .only_configured = true},
                     {"spmd_backend", Type::word, {}, "spmd_types"},
                     of_stages("pipeline_parallel_schedule", Type::maybe_word, "pipeline schedule"),
                     of_stages("pipeline_parallel_layers_per_stage", Type::maybe_number,
                               "layers of a virtual stage"),
                     of_stages("pipeline_parallel_first_stage_less_layers", Type::number,
                               "fewer layers of the first stage"),
                     of_stages("pipeline_parallel_last_stage_less_layers", Type::number,
                               "fewer layers of the last stage")},
        .meshes = {{"ranks", "pp dp_replicate dp_shard cp tp"}, {"world", "world"}},
        .kinds = {},
        .accessors = accessors(),
        .check_first = check_first,
        .check = check,
        .check_flags = check_flags,
        .extend = extend,
        .why = {{"ep, edp", experts_why},
                {"etp", etp_why},
                {"virtual pipeline stages, fewer layers of the first stage, fewer layers of the last stage",
                 "not written; set pipeline_parallel_schedule = \"Interleaved1F1B\" and "
                 "pipeline_parallel_layers_per_stage = N, the layers of a stage"}},
        .experts = experts,
        .write = write,
        .ranks = of_torchtitan::ranks,
        .calls = calls,
        .initialize = "ParallelDims",
        .base = "Answers",
        .table = "parallelism",
        .ignore =
            "disable_loss_parallel enable_async_tensor_parallel pipeline_parallel_split_points "
            "context_parallel_rotate_method enable_compiled_autograd spmd_backend world_size",
        .written = Written::toml,
        .interleaved_stages = 2,
        .leaves = "data_parallel_shard_degree of -1"};
}

}  // namespace rankmesh::frameworks
