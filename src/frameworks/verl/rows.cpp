// SPDX-License-Identifier: Apache-2.0
// verl's device meshes: replicas x FSDP of the actor, its sequence-parallel ranks, and the rollout's TP x PP.
#include "frameworks/row_makers.hpp"

namespace rankmesh::frameworks::of_verl {

constexpr const char* of_rollout[] = {"rollout_tensor_model_parallel_size", "rollout_data_parallel_size",
                                      "rollout_pipeline_model_parallel_size"};

/// A size below 0, or of the world and more, shards over all ranks.
void check_first(Given& given) {
    const auto shards = given.number("fsdp_size");
    if (shards < 0 || shards >= given.world_size()) given.derive("fsdp_size", given.world_size());
}

/// A mesh of two axes takes the world's first ranks in the original; the others are in no group.
void check_division(const Given& given, const char* name) {
    const auto size = given.number(name);
    if (const auto over = given.world_size() % size; over != 0)
        throw Refusal(Fault::sizes, "ranks-left-out", name, " ", size, " does not divide the ",
                      given.world_size(), " ranks of the world; the last ", over, " would be in no group");
}

void check(Given& given) {
    const auto world = given.world_size();
    const auto shards = given.number("fsdp_size");
    const auto sequence = given.number("ulysses_sequence_parallel_size");
    check_division(given, "fsdp_size");
    if (sequence > 1) check_division(given, "ulysses_sequence_parallel_size");
    const auto inner = shards % sequence == 0 ? sequence : 1;
    given.derive("ddp", world / shards);
    given.derive("fsdp", shards);
    given.derive("shards", shards / inner);
    given.derive("inner", inner);
    given.derive("dp", world / sequence);
    given.derive("sp", sequence);
    auto sizes = std::vector<std::int64_t>{};
    auto has_rollout = false;
    for (const auto* name : of_rollout) {
        has_rollout = has_rollout || !given.is_none(name);
        sizes.push_back(given.number(name, 1));
        refuse_if(sizes.back() < 1, Fault::sizes, name, " is ", sizes.back(), "; every size is 1 or more");
    }
    const auto engine = sizes[0] * sizes[1] * sizes[2];
    refuse_if(world % engine != 0, Fault::sizes, "the rollout's ", world,
              " ranks are not divided by an engine of ", engine);
    given.derive("rollout_dp", static_cast<int>(world / engine));
    given.derive("rollout_tp", static_cast<int>(sizes[0]));
    given.derive("infer_tp", static_cast<int>(sizes[0] * sizes[1]));
    given.derive("infer_pp", static_cast<int>(sizes[2]));
    given.derive("has_rollout", has_rollout);
    // verl's infer_tp has the engine's dp in it, and its infer_pp is fastest, where an engine lists dp, pp,
    // tp. verl makes no call on them.
    const auto is_pp = sizes[0] == 1 || sizes[2] == 1;
    given.derive("infer_tp_is_tp", has_rollout && is_pp && sizes[1] == 1);
    given.derive("infer_pp_is_pp", has_rollout && is_pp);
}

/// What one mesh of all axes can say.
void check_flags(const Given& given) {
    const auto sequence = given.number("sp");
    refuse_if(given.number("inner") != sequence, Fault::sizes, "ulysses_sequence_parallel_size ", sequence,
              " does not divide fsdp_size ", given.number("fsdp"), ", so no mesh has both as axes");
    const auto ep = given.number("rollout_expert_parallel_size");
    const auto of_stage = given.number("infer_tp");
    refuse_if(ep > 1 && ep != of_stage, Fault::sizes, "rollout_expert_parallel_size is ", ep,
              "; it must be 1, or ", of_stage, ": tensor_model_parallel_size * data_parallel_size");
    refuse_if(ep > 1 && of_stage > given.number("rollout_tp") && given.number("infer_pp") > 1, Fault::sizes,
              "rollout_expert_parallel_size is over data-parallel ranks of several stages, which is "
              "not known here; give it without rollout_data_parallel_size or without stages");
}

/// The engines of the rollout, each of dp x pp x tp ranks, and their experts.
std::vector<Mesh> serving(const Given& given) {
    if (!given.flag("has_rollout")) return {};
    const auto servers = given.number("rollout_dp"), pp = given.number("infer_pp");
    const auto tp = given.number("rollout_tp"), dp = given.number("infer_tp") / tp;
    auto meshes = std::vector{Mesh{{"servers", servers}, {"dp", dp}, {"pp", pp}, {"tp", tp}}};
    if (given.number("rollout_expert_parallel_size") > 1)
        meshes.push_back(Mesh{{"servers", servers}, {"pp", pp}, {"ep", dp * tp}});
    return meshes;
}

/// Megatron's sizes, by their names in actor.megatron.
constexpr const char* megatron_sizes[] = {"tensor_model_parallel_size", "pipeline_model_parallel_size",
                                          "context_parallel_size", "expert_model_parallel_size",
                                          "expert_tensor_parallel_size"};

/// The meshes of an actor on Megatron's engine, where the settings have one of its sizes; else none.
std::vector<Mesh> read(const Given& given, const Mesh&) {
    auto sizes = Values{};
    for (const std::string name : megatron_sizes)
        if (const auto size = given.number("megatron_" + name); size > 1) sizes.emplace_back(name, size);
    if (sizes.empty()) return {};
    if (given.number("megatron_expert_tensor_parallel_size") == 1)
        sizes.emplace_back("expert_tensor_parallel_size", 1);
    const auto groups = Groups("megatron", sizes, given.world_size());
    auto meshes = std::vector{groups.mesh()};
    const auto& experts = Access::meshes(groups).at(1).second;
    if (size_of(experts, "ep") > 1 || size_of(experts, "etp") != size_of(meshes[0], "tp"))
        meshes.push_back(experts);
    return meshes;
}

/// Megatron's engine has what FSDP's has not: layers that are cut, stages, experts.
Values write(const std::vector<Mesh>& meshes) {
    const auto& dense = meshes.front();
    const auto tp = size_of(dense, "tp"), pp = size_of(dense, "pp"), cp = size_of(dense, "cp");
    auto values = Values{};
    for (const auto& mesh : meshes)
        if (&mesh != &dense && mesh.find("ep"))
            values = {{"megatron_expert_model_parallel_size", mesh.size("ep")},
                      {"megatron_expert_tensor_parallel_size", size_of(mesh, "etp")}};
    if (tp == 1 && pp == 1 && values.empty())
        return {{"fsdp_size", dense.size() / size_of(dense, "dp_replicate")},
                {"ulysses_sequence_parallel_size", cp}};
    values.insert(values.begin(), {{"megatron_tensor_model_parallel_size", tp},
                                   {"megatron_pipeline_model_parallel_size", pp},
                                   {"megatron_context_parallel_size", cp}});
    return values;
}

std::vector<Setting> settings() {
    const auto rollout = [](std::string name) {
        return Setting{.name = name,
                       .type = Type::maybe_number,
                       .flag = cat("actor_rollout_ref.rollout.", name.substr(name.find('_') + 1))};
    };
    auto rows = std::vector<Setting>{
        {"fsdp_size", Type::number, "ranks that share the model's state, -1: all", -1, "shards inner",
         "actor_rollout_ref.actor.fsdp_config.fsdp_size engine.fsdp_size"},
        {"ulysses_sequence_parallel_size", Type::number,
         "ranks that share a sequence and exchange it for heads", 1, "inner",
         "actor_rollout_ref.actor.ulysses_sequence_parallel_size "
         "actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size "
         "engine.ulysses_sequence_parallel_size"},
        rollout(of_rollout[0]),
        rollout(of_rollout[1]),
        rollout(of_rollout[2]),
        configured("rollout_expert_parallel_size", Type::number,
                   "1, or all ranks of an engine's stage, which have other experts", "",
                   "actor_rollout_ref.rollout.expert_parallel_size")};
    const auto add = [&](const std::string& name, std::string extra = {}) {
        rows.push_back(configured("megatron_" + name, Type::number, "", std::move(extra),
                                  cat("actor_rollout_ref.actor.megatron.", name, " engine.", name)));
    };
    for (const auto* name : megatron_sizes) add(name);
    rows.back().otherwise = 0;  // of experts: tp, and 1 is said
    add("virtual_pipeline_model_parallel_size", "virtual pipeline stages");
    return rows;
}

Framework framework() {
    using enum Quantity;
    constexpr auto of_engine =
        "verl's infer_tp and infer_pp have other ranks than the rollout's tensor-parallel groups and "
        "pipelines for these sizes; ask for the groups of its engine";
    const auto data_parallel = [](const char* what, Quantity quantity, const char* doc) {
        return AccessorRow{.name = cat("get_data_parallel_", what),
                           .quantity = quantity,
                           .doc = doc,
                           .among = "ulysses_device_mesh.dp, *"};
    };
    return {
        .name = "verl",
        .version = "0.9.1",
        .original = "verl.workers.engine.fsdp.transformer_impl",
        .title =
            "verl's replicas, shards and sequence-parallel groups of the actor, and the rollout's engines.",
        .settings_of =
            "fsdp_size and ulysses_sequence_parallel_size of the actor, and the sizes of the rollout; needs "
            "the world's size",
        .example =
            "fsdp_size=8 ulysses_sequence_parallel_size=2 rollout_tensor_model_parallel_size=4 world_size=16",
        .settings = settings(),
        .meshes = {{"ranks", "ddp shards inner"},
                   {"device_mesh", "ddp fsdp"},
                   {"ulysses_device_mesh", "dp sp"},
                   {"rollout_device_mesh", "rollout_dp infer_tp infer_pp"}},
        .kinds = {{"device_mesh.ddp", "device_mesh: fsdp | ddp", "", "ddp > 1"},
                  {"device_mesh.fsdp", "device_mesh: ddp | fsdp"},
                  {"ulysses_device_mesh.dp", "ulysses_device_mesh: sp | dp", "", "sp > 1"},
                  {"ulysses_device_mesh.sp", "ulysses_device_mesh: dp | sp", "", "sp > 1"},
                  {"rollout_device_mesh.dp", "rollout_device_mesh: infer_tp infer_pp | rollout_dp", "",
                   "has_rollout"},
                  {"rollout_device_mesh.infer_tp", "rollout_device_mesh: rollout_dp infer_pp | infer_tp",
                   of_engine, "infer_tp_is_tp"},
                  {"rollout_device_mesh.infer_pp", "rollout_device_mesh: rollout_dp infer_tp | infer_pp",
                   of_engine, "infer_pp_is_pp"}},
        .accessors = {data_parallel("rank", rank, "Where this rank is among those with other data."),
                      data_parallel("size", size, "The number of ranks with other data."),
                      data_parallel("group", group,
                                    "The ranks with other data, all ranks where none share a sequence."),
                      lenient("is_mp_src_rank_with_outputs", "ulysses_device_mesh.sp", is_first,
                              "True on the first of the ranks that share a sequence.", true)},
        .check_first = check_first,
        .check = check,
        .check_flags = check_flags,
        .roles = {{"ddp", "dp_replicate"},
                  {"shards", "dp_shard"},
                  {"inner", "cp"},
                  {"tp", "tp"},  // of Megatron's engine
                  {"pp", "pp"}},
        .read = read,
        .write = write,
        .serving = serving,
        .initialize = "init_device_mesh",
        .started = "trainer.nnodes trainer.n_gpus_per_node",
        .start = {.by_itself = true},
        .leaves = "verl's number of replicas"};
}

}  // namespace rankmesh::frameworks::of_verl
