// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include <rankmesh/dialect/error.hpp>
#include <rankmesh/dialect/torchtitan/rank_info.hpp>

#include "convert/frameworks/device_mesh_answer.hpp"
#include "convert/words.hpp"

namespace rankmesh::conversion {

using detail::cat;

namespace of_torchtitan {

/// The degrees of ParallelDims.
struct Degrees {
    int dp_replicate = 1, dp_shard = -1, cp = 1, tp = 1, pp = 1, ep = 1, etp = 1;

    std::int64_t others() const { return product(product(dp_replicate, cp), product(tp, pp)); }
    std::int64_t shared() const { return product(product(dp_shard, cp), tp); }
    /// No more than a world cannot have.
    static std::int64_t product(std::int64_t a, std::int64_t b) {
        return std::min(a * b, std::int64_t{Mesh::max_size} + 1);
    }
    /// Experts take what they need of dp_shard, cp and tp, innermost first, and leave `efsdp`.
    bool has_room_for_experts() const {
        return (etp == tp || etp == 1) && shared() % (std::int64_t{ep} * etp) == 0;
    }
};

Degrees degrees_in(Settings& settings) {
    auto degrees = Degrees{};
    degrees.dp_replicate = settings.size("data_parallel_replicate_degree");
    degrees.dp_shard = settings.size("data_parallel_shard_degree", -1, -1);
    degrees.cp = settings.size("context_parallel_degree");
    degrees.tp = settings.size("tensor_parallel_degree");
    degrees.pp = settings.size("pipeline_parallel_degree");
    degrees.ep = settings.size("expert_parallel_degree");
    degrees.etp = settings.size("expert_tensor_parallel_degree");
    return degrees;
}

Arrangement read(Settings& settings, std::optional<int> world) {
    auto known = world_of(settings, world);
    settings.enter("parallelism");
    settings.let_be({"world_size", "fsdp_reshard_after_forward", "disable_loss_parallel",
                     "enable_async_tensor_parallel", "pipeline_parallel_schedule_csv",
                     "pipeline_parallel_split_points", "pipeline_parallel_microbatch_size",
                     "pipeline_parallel_layers_per_stage", "context_parallel_rotate_method",
                     "enable_compiled_autograd", "module_fqns_per_model_part", "spmd_backend",
                     "enable_fsdp_symm_mem", "enable_sequence_parallel",
                     "pipeline_parallel_first_stage_less_layers", "pipeline_parallel_last_stage_less_layers",
                     "context_parallel_load_balancer", "context_parallel_ptrr_mask_key"});
    auto d = degrees_in(settings);
    const auto schedule = settings.word("pipeline_parallel_schedule");
    if (d.dp_shard == 0) throw UsageError("dp_shard must -1 or >=1.");
    if (d.dp_shard < 0)
        d.dp_shard = static_cast<int>(
            needed_world(settings, known, settings.shown("data_parallel_shard_degree") + " of -1") /
            d.others());
    const auto product = Degrees::product(d.others(), d.dp_shard);
    const auto ranks = known ? std::int64_t{*known} : product;
    if (product != ranks)
        throw dialect::Error(
            dialect::Fault::sizes,
            cat("Invalid parallel dims: dp_replicate(", d.dp_replicate, ") * dp_shard(", d.dp_shard,
                ") * cp(", d.cp, ") * tp(", d.tp, ") * pp(", d.pp, ") != WORLD_SIZE(", ranks, ")"));
    auto arrangement = Arrangement{{plain_mesh({{"pp", d.pp},
                                                {"dp_replicate", d.dp_replicate},
                                                {"dp_shard", d.dp_shard},
                                                {"cp", d.cp},
                                                {"tp", d.tp}})}};
    if (d.ep > 1) {
        const auto experts = static_cast<int>(ranks / d.pp);
        if (!d.has_room_for_experts())
            throw UsageError(cat("expert_parallel_degree is ", d.ep, " and expert_tensor_parallel_degree ",
                                 d.etp, "; the second is 1 or the tensor parallel degree ", d.tp,
                                 ", and their product divides dp_shard * cp * tp, which is ", d.shared()));
        arrangement.meshes.push_back(
            plain_mesh({{"pp", d.pp}, {"edp", experts / (d.ep * d.etp)}, {"ep", d.ep}, {"etp", d.etp}}));
    }
    if (schedule) arrangement.extras.push_back({std::string(pipeline_schedule), schedule_named(*schedule)});
    return arrangement;
}

Document write(const Arrangement& arrangement) {
    const auto& mesh = arrangement.dense();
    const auto replicas = size_of(mesh, "dp_replicate");
    auto d = Degrees{.dp_replicate = replicas,
                     .dp_shard = data_size(mesh) / replicas,
                     .cp = size_of(mesh, "cp"),
                     .tp = size_of(mesh, "tp"),
                     .pp = size_of(mesh, "pp")};
    auto values = Json{{"data_parallel_replicate_degree", d.dp_replicate},
                       {"data_parallel_shard_degree", d.dp_shard},
                       {"context_parallel_degree", d.cp},
                       {"tensor_parallel_degree", d.tp},
                       {"pipeline_parallel_degree", d.pp}};
    if (const auto* experts = arrangement.experts()) {
        d.ep = size_of(*experts, "ep");
        d.etp = size_of(*experts, "etp");
        if (d.has_room_for_experts()) {
            values["expert_parallel_degree"] = d.ep;
            values["expert_tensor_parallel_degree"] = d.etp;
        }
    }
    auto text = std::string("[parallelism]");
    for (const auto& [name, value] : values.items()) text += cat("\n", name, " = ", value.get<int>());
    if (const auto schedule = extra_of(arrangement, pipeline_schedule)) {
        values["pipeline_parallel_schedule"] = *schedule;
        text += cat("\npipeline_parallel_schedule = \"", *schedule, "\"");
    }
    return {Json{{"parallelism", values}}, text};
}

Json answers(const torchtitan::RankInfo& info) {
    const auto& dims = info.parallel_dims();
    auto answers = Answers{};
    answers.add("dp_enabled", [&] { return dims.dp_enabled(); })
        .add("dp_cp_enabled", [&] { return dims.dp_cp_enabled(); })
        .add("fsdp_enabled", [&] { return dims.fsdp_enabled(); })
        .add("non_data_parallel_size", [&] { return dims.non_data_parallel_size(); })
        .add("seq_len_divisor", [&] { return dims.seq_len_divisor(); });
    for (const auto& name : info.mesh_dim_names())
        answers.add(cat("get_mesh(\"", name, "\")"), [&] { return described(info.get_mesh(name)); });
    answers.add("spmd_dense_mesh()", [&] { return described(info.spmd_dense_mesh()); });
    answers.add("spmd_sparse_mesh()", [&] {
        const auto mesh = info.spmd_sparse_mesh();
        return mesh ? std::optional(described(*mesh)) : std::nullopt;
    });
    return answers.all();
}

/// The mesh that the newest versions build, which have no expert_tensor_parallel_degree.
Words words(const Arrangement& roles, const Document&) {
    const auto& mesh = roles.dense();
    const auto* experts = roles.experts();
    if (experts && size_of(*experts, "etp") > 1)
        throw Error(
            cat("torchtitan's ParallelDims has no expert_tensor_parallel_degree any more, and etp is ",
                size_of(*experts, "etp"), "; give experts with etp=1"));
    const auto replicas = size_of(mesh, "dp_replicate");
    const auto dims = torchtitan::ParallelDims({.dp_replicate = replicas,
                                                .dp_shard = data_size(mesh) / replicas,
                                                .cp = size_of(mesh, "cp"),
                                                .tp = size_of(mesh, "tp"),
                                                .pp = size_of(mesh, "pp"),
                                                .ep = experts ? size_of(*experts, "ep") : 1},
                                               mesh.size());
    const auto first = torchtitan::RankInfo(dims, 0);
    auto in_words = Words{
        .dialect = {}, .mesh = first.get_mesh("dp_shard").root(), .kinds = {}, .answers = [dims](int rank) {
            return answers(torchtitan::RankInfo(dims, rank));
        }};
    for (const auto& name : first.mesh_dim_names())
        if (const auto part = first.get_optional_mesh(name))
            in_words.kinds.push_back(kind_along(name, part->root(), part->axes()));
    return in_words;
}

}  // namespace of_torchtitan

Framework torchtitan() {
    constexpr auto experts =
        "torchtitan's experts are runs of dp_shard, cp and tp, whose expert_tensor_parallel_degree is 1 or "
        "that of tp";
    return {
        .name = "torchtitan",
        .of = "[parallelism] of its TOML: data_parallel_shard_degree and so on; may need the world's size",
        .example = "tensor_parallel_degree=2 data_parallel_shard_degree=4",
        .read = of_torchtitan::read,
        .write = of_torchtitan::write,
        .words = of_torchtitan::words,
        .roles = {"pp", "dp", "cp", "tp"},
        .why = {{"ep", experts},
                {"edp", experts},
                {"etp", experts},
                {virtual_stages, "torchtitan's stages follow from pipeline_parallel_layers_per_stage"}},
        .version = "0.3.0"};
}

}  // namespace rankmesh::conversion
