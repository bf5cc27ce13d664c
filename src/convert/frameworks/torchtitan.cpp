// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include <rankmesh/dialect/torchtitan/rank_info.hpp>

#include "convert/frameworks/device_mesh_answer.hpp"
#include "convert/words.hpp"

namespace rankmesh::conversion {

using detail::cat;

namespace of_torchtitan {

using torchtitan::Degrees;
using torchtitan::ParallelDims;

constexpr auto degrees = std::array<std::pair<const char*, int Degrees::*>, 6>{
    {{"data_parallel_replicate_degree", &Degrees::dp_replicate},
     {"data_parallel_shard_degree", &Degrees::dp_shard},
     {"context_parallel_degree", &Degrees::cp},
     {"tensor_parallel_degree", &Degrees::tp},
     {"pipeline_parallel_degree", &Degrees::pp},
     {"expert_parallel_degree", &Degrees::ep}}};
constexpr auto experts_tp = "expert_tensor_parallel_degree";  // of versions of 2025

/// Experts take what they need of dp_shard, cp and tp, innermost first, and leave `efsdp`.
bool has_room_for_experts(const Degrees& d, int etp) {
    return (etp == d.tp || etp == 1) && d.dp_shard * d.cp * d.tp % (std::int64_t{d.ep} * etp) == 0;
}

Mesh mesh_of(const Degrees& d) {
    return plain_mesh({{"pp", d.pp},
                       {"dp_replicate", d.dp_replicate},
                       {"dp_shard", d.dp_shard},
                       {"cp", d.cp},
                       {"tp", d.tp}});
}

Arrangement read(Settings& settings, std::optional<int> world) {
    const auto known = world_of(settings, world);
    settings.enter("parallelism");
    settings.let_be({"world_size", "fsdp_reshard_after_forward", "disable_loss_parallel",
                     "enable_async_tensor_parallel", "pipeline_parallel_schedule_csv",
                     "pipeline_parallel_split_points", "pipeline_parallel_microbatch_size",
                     "pipeline_parallel_layers_per_stage", "context_parallel_rotate_method",
                     "enable_compiled_autograd", "module_fqns_per_model_part", "spmd_backend",
                     "enable_fsdp_symm_mem", "enable_sequence_parallel",
                     "pipeline_parallel_first_stage_less_layers", "pipeline_parallel_last_stage_less_layers",
                     "context_parallel_load_balancer", "context_parallel_ptrr_mask_key"});
    auto given = Degrees{};
    for (const auto& [name, degree] : degrees)
        given.*degree = settings.size(name, given.*degree, std::min(given.*degree, 1));
    const auto etp = settings.size(experts_tp), ep = std::exchange(given.ep, 1);
    const auto schedule = settings.word("pipeline_parallel_schedule");
    const auto ranks = given.dp_shard < 0
                           ? needed_world(settings, known, settings.shown(degrees[1].first) + " of -1")
                       : known || given.dp_shard == 0 ? known.value_or(1)
                                                      : mesh_of(given).size();
    auto d = Degrees(ParallelDims(given, ranks));
    d.ep = ep;
    auto arrangement = Arrangement{{mesh_of(d)}};
    if (ep > 1 && !has_room_for_experts(d, etp))
        throw UsageError(cat("expert_parallel_degree is ", ep, " and ", experts_tp, " ", etp,
                             "; the second is 1 or the tensor parallel degree ", d.tp,
                             ", and their product divides dp_shard * cp * tp, which is ",
                             d.dp_shard * d.cp * d.tp));
    if (ep > 1)
        arrangement.meshes.push_back(
            plain_mesh({{"pp", d.pp}, {"edp", ranks / d.pp / (ep * etp)}, {"ep", ep}, {"etp", etp}}));
    if (schedule) arrangement.extras.push_back({std::string(pipeline_schedule), schedule_named(*schedule)});
    return arrangement;
}

/// The degrees for an arrangement in roles.
Degrees degrees_of(const Arrangement& arrangement) {
    const auto& mesh = arrangement.dense();
    const auto replicas = size_of(mesh, "dp_replicate");
    return {.dp_replicate = replicas,
            .dp_shard = data_size(mesh) / replicas,
            .cp = size_of(mesh, "cp"),
            .tp = size_of(mesh, "tp"),
            .pp = size_of(mesh, "pp"),
            .ep = arrangement.experts() ? size_of(*arrangement.experts(), "ep") : 1};
}

Document write(const Arrangement& arrangement) {
    const auto d = degrees_of(arrangement);
    const auto* experts = arrangement.experts();
    const auto etp = experts ? size_of(*experts, "etp") : 1;
    auto values = Json::object();
    auto text = std::string("[parallelism]");
    for (const auto& [name, degree] : degrees)
        if (degree != &Degrees::ep) values[name] = d.*degree;
    if (experts && has_room_for_experts(d, etp)) {
        values["expert_parallel_degree"] = d.ep;
        values[experts_tp] = etp;
    }
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
    return answers.add("spmd_dense_mesh()", [&] { return described(info.spmd_dense_mesh()); })
        .add("spmd_sparse_mesh()", [&] { return described(info.spmd_sparse_mesh()); })
        .all();
}

/// The mesh that the newest versions build, which have no expert_tensor_parallel_degree.
Words words(const Arrangement& roles, const Document&) {
    const auto* experts = roles.experts();
    if (experts && size_of(*experts, "etp") > 1)
        throw Error(
            cat("torchtitan's ParallelDims has no expert_tensor_parallel_degree any more, and etp is ",
                size_of(*experts, "etp"), "; give experts with etp=1"));
    const auto dims = ParallelDims(degrees_of(roles), roles.dense().size());
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
