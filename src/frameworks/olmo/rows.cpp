// SPDX-License-Identifier: Apache-2.0
// OLMo-core's pipelines, and its world mesh: pp x dp x cp x tp of what is configured, tp fastest; under HSDP
// dp is dp_replicate x dp_shard.
#include "frameworks/olmo/olmo.hpp"

#include <iterator>
#include <numeric>

namespace rankmesh::frameworks::of_olmo {

/// The dimensions of the world mesh, a derived setting.
constexpr auto dimensions = "dimensions";

bool has(const Given& given, const char* name) { return !given.is_none(name); }

/// What a configuration leaves of `ranks`.
int divided(int ranks, int degree, std::string_view config) {
    refuse_if(degree < 1 || ranks % degree != 0, Fault::sizes, config,
              ".degree must be at least 1 and divide into the world size");
    return ranks / degree;
}

/// Checks the configurations in the original's order, and derives the dimensions that they make.
void check(Given& given) {
    auto names = Names{};
    const auto add = [&](const char* name, int size) {
        names.emplace_back(name);
        given.derive(name, size);
    };
    const auto with_dp = has(given, "dp_type");
    if (!with_dp && std::ranges::any_of(std::array{"tp", "cp", "pp", "ep"},
                                        [&](const char* name) { return has(given, name); }))
        throw_no_data_parallel();
    refuse_if(!with_dp && (has(given, "num_replicas") || has(given, "shard_degree")), Fault::missing,
              "num_replicas and shard_degree are of hsdp, and dp_type is not given");
    refuse_if(has(given, "schedule") && !has(given, "pp"), Fault::missing,
              "pp_config has a schedule and no degree; give its degree");
    auto ranks = given.world_size();
    if (has(given, "pp")) ranks = divided(ranks, given.number("pp"), "PipelineParallelConfig");
    if (has(given, "cp")) ranks = divided(ranks, given.number("cp"), "ContextParallelConfig");
    if (has(given, "tp")) ranks = divided(ranks, given.number("tp"), "TensorParallelConfig");
    if (with_dp)
        known(given, "dp_type", {"fsdp", "hsdp", "ddp"}, "'",
              "' is not a valid DataParallelType; they are fsdp, hsdp and ddp");
    if (has(given, "ep")) {
        divided(ranks, std::abs(given.number("ep")), "ExpertParallelConfig");
        refuse_if(has(given, "tp"), Fault::exclusive,
                  "expert parallelism is mutually exclusive with tensor parallism");
        refuse_if(given.word("dp_type") != "hsdp", Fault::exclusive,
                  "expert parallelism can currently only be used with HSDP data parallelism");
    }
    if (has(given, "pp")) add("pp", given.number("pp"));
    if (with_dp && given.word("dp_type") == "hsdp") {
        const auto [replicas, shards] = replicas_and_shards(given, ranks);
        refuse_if(has(given, "ep") && given.number("ep") >= 0 && given.number("ep") != shards, Fault::sizes,
                  "expert parallelism + HSDP requires the same sharding degree");
        add("dp_replicate", replicas);
        add("dp_shard", shards);
    } else {
        add("dp", ranks);
    }
    for (const auto* name : {"cp", "tp"})
        if (has(given, name)) add(name, given.number(name));
    given.derive(dimensions, names);
    auto made = std::vector<Dimension>{};
    for (const auto& name : names) made.emplace_back(name.c_str(), given.number(name));
    mesh_of(made, 0, given.world_size());  // which refuses sizes that do not make the world
}

/// The dimensions that are made, and their groups in torch's order: the last dimension takes the place of a
/// group's own.
void extend(const Given& given, std::vector<MeshRow>& meshes, Kinds& kinds) {
    const auto& names = std::get<Names>(given.value(dimensions));
    meshes = {{"world_mesh", joined(names, " ")}};
    kinds.rows.clear();
    for (const auto& name : names) {
        auto outside = std::string{};
        for (std::size_t i = 0; i + 1 < names.size(); ++i)
            outside += cat(" ", names[i] == name ? names.back() : names[i]);
        if (!outside.empty()) kinds.add({cat("mesh_", name), cat(outside, " | ", name)});
    }
    // The dimensions that are flattened, unless they are the world.
    const auto flatten = [&](const char* as, std::initializer_list<std::string_view> flat) {
        auto outside = std::string{}, along = std::string{};
        auto count = 1;
        for (const auto& name : names) {
            const auto is_flat = holds(flat, name);
            (is_flat ? along : outside) += cat(" ", name);
            if (!is_flat) count *= given.number(name);
        }
        if (count > 1) kinds.add({cat("mesh_", as), cat(outside, " |", along)});
    };
    if (given.has("dp_shard")) flatten("dp", {"dp_replicate", "dp_shard"});
    if (has(given, "cp")) flatten("dp_cp", {"dp", "dp_shard", "cp"});
}

/// The kind of the groups along a dimension of the world mesh, or a flattened one; `*` for the world.
std::string along(const Given& given, std::string_view name) {
    const auto& names = std::get<Names>(given.value(dimensions));
    auto size = 0;
    for (const auto part : words_of(name == "dp_cp"                         ? "dp dp_shard cp"
                                    : name == "dp" && given.has("dp_shard") ? "dp_replicate dp_shard"
                                                                            : name))
        if (holds(names, part)) size = std::max(size, 1) * given.number(part);
    if (size == 0 || (name == "dp_cp" && !has(given, "cp")))
        throw Error(Fault::unknown, "Mesh dimension '", name,
                    "' does not exist. Available mesh dimensions are: ", to_string(names));
    return size == given.world_size() ? "*" : cat("mesh_", name);
}

std::vector<Mesh> read(const Given& given, const Mesh& mesh) {
    if (!has(given, "ep") || size_of(mesh, "dp_shard") == 1) return {mesh};
    const auto experts =
        mesh.find("cp") ? mesh.flatten({"dp_replicate", "cp"}, "edp") : mesh.flatten({"dp_replicate"}, "edp");
    return {mesh, experts.flatten({"dp_shard"}, "ep")};
}

Values write(const std::vector<Mesh>& meshes) {
    const auto& mesh = meshes.front();
    const auto replicas = size_of(mesh, "dp_replicate");
    const auto data = size_of(mesh, "dp") * replicas * size_of(mesh, "dp_shard");
    auto shards = size_of(mesh, "dp_shard"), ep = 1;
    // Experts stand in the shards of a replica; without tensor parallelism, which excludes them.
    for (const auto& other : meshes)
        if (size_of(mesh, "tp") == 1) ep = std::max(ep, size_of(other, "ep"));
    if (ep > 1 && shards == 1 && replicas == 1 && data % ep == 0) shards = ep;
    const auto with_experts = ep > 1 && shards == ep;
    auto values = Values{{"dp_type", "fsdp"}};
    if (with_experts || (shards > 1 && data > shards))
        values = {{"dp_type", "hsdp"}, {"num_replicas", data / shards}, {"shard_degree", shards}};
    else if (replicas > 1)
        values = {{"dp_type", "ddp"}};
    for (const auto* axis : {"tp", "cp", "pp"})
        if (size_of(mesh, axis) > 1) values.emplace_back(axis, size_of(mesh, axis));
    if (with_experts) values.emplace_back("ep", ep);
    return values;
}

/// The answers about the world mesh.
std::vector<Call> calls(const Given&) {
    auto all = std::vector<Call>{};
    for (const auto* name : {"get_device_mesh_info", "get_dp_model_mesh", "get_dp_mesh", "get_tp_mesh",
                             "get_cp_mesh", "get_pp_mesh", "get_pp_stage_mesh", "get_ep_mesh"})
        all.push_back({name, name, {}});
    return all;
}

// --- pipelines

int at_least_one(const Given& options, const char* name, std::string_view shown) {
    const auto number = options.number(name);
    if (number < 1)
        throw Refusal(Fault::sizes, "sizes-below-one", shown, " is ", number, "; it must be 1 or more");
    return number;
}

const std::string& schedule_in(const Given& options) {
    return known(options, "schedule",
                 {"1F1B", "Interleaved1F1B", "GPipe", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble",
                  "Custom1F1B", "CustomInterleaved1F1B", "Custom1F1BV"},
                 "Invalid pipeline schedule '");
}

bool has_single_stage(const Given& options) {
    const auto& schedule = schedule_in(options);
    return schedule == "1F1B" || schedule == "GPipe" || schedule == "Custom1F1B";
}

std::string style_in(const Given& options) {
    const auto& schedule = schedule_in(options);
    if (!options.has("style") || options.is_none("style"))
        return schedule == "ZBVZeroBubble" || schedule == "Custom1F1BV" ? "v" : "loop";
    const auto& style = known(options, "style", {"loop", "v"}, "Invalid pipeline split style '");
    refuse_if(schedule == "Custom1F1BV" && style != "v", Fault::exclusive,
              "custom_1F1B_V requires pipeline split style 'v'");
    refuse_if(schedule == "CustomInterleaved1F1B" && style != "loop", Fault::exclusive,
              "custom_interleaved_1F1B requires pipeline split style 'loop'; use custom_1F1B_V for "
              "V-shaped placement");
    return style;
}

std::vector<int> completion_order(const Given& options) {
    const auto degree = at_least_one(options, "degree", "PipelineParallelConfig.degree");
    auto ranks = std::vector<int>(static_cast<std::size_t>(degree));
    std::iota(ranks.begin(), ranks.end(), 0);
    if (style_in(options) == "loop") std::ranges::reverse(ranks);
    return ranks;
}

Value stage_ids(const State&, const Given& options) {
    const auto degree = at_least_one(options, "degree", "PipelineParallelConfig.degree");
    const auto stages = at_least_one(options, "num_stages", "num_stages"), rank = options.number("pp_rank");
    refuse_if(stages % degree != 0, Fault::sizes, "num_stages ", stages,
              " must be evenly divisible by pipeline size ", degree);
    const auto is_loop = style_in(options) == "loop";
    refuse_if(!is_loop && stages / degree != 2, Fault::sizes, "v schedules assume 2 stages per rank, got ",
              stages / degree);
    if (rank < 0 || rank >= degree)
        throw Refusal(Fault::out_of_range, "rank-outside", "rank ", rank, " of a pipeline of ", degree,
                      "; its ranks are 0..", degree - 1);
    if (!is_loop) return std::vector{rank, stages - 1 - rank};
    auto own = std::vector<int>{};
    for (int stage = rank; stage < stages; stage += degree) own.push_back(stage);
    return own;
}

Value p2p_process_group(const State& state, const Given& options) {
    const auto& backend = known(options, "p2p_backend", {"nccl", "nccl_rma", "nccl_rma_ack", "nccl_device"},
                                "Invalid pipeline P2P backend '");
    const auto apart = options.flag("p2p_use_separate_group");
    const auto least = options.value("p2p_nccl_min_ctas"), most = options.value("p2p_nccl_max_ctas");
    const auto is_given = least != Value() || most != Value();
    refuse_if(is_given && backend != "nccl", Fault::exclusive,
              "p2p_nccl_min_ctas/p2p_nccl_max_ctas only apply to p2p_backend='nccl'");
    for (const auto* name : {"p2p_nccl_min_ctas", "p2p_nccl_max_ctas"})
        refuse_if(!options.is_none(name) && options.number(name) <= 0, Fault::sizes, name,
                  " must be positive, and is ", options.number(name));
    if (least != Value() && most != Value() && std::get<int>(least) > std::get<int>(most))
        throw Error(Fault::sizes, "p2p_nccl_min_ctas cannot exceed p2p_nccl_max_ctas, and ",
                    std::get<int>(least), " does ", std::get<int>(most));
    refuse_if(backend == "nccl_device", Fault::exclusive,
              "p2p_backend='nccl_device' is reserved but not implemented yet");
    refuse_if(is_given && !apart, Fault::exclusive,
              "p2p_nccl_min_ctas/p2p_nccl_max_ctas require p2p_use_separate_group=True");
    if (!apart) return {};
    const auto mesh = mesh_in(state, options);
    const auto names = mesh.mesh_dim_names();
    refuse_if(!names, Fault::missing, "could not build PP P2P groups without mesh dimension names");
    if (!holds(*names, "pp"))
        throw Error(Fault::unknown, "could not build PP P2P groups from mesh with dimensions ",
                    to_string(*names));
    const auto group = mesh.get_group("pp");
    return std::vector<int>(group.begin(), group.end());
}

Value num_microbatches(const State&, const Given& options) {
    const auto stages = options.number("stages");
    const auto& schedule = schedule_in(options);
    refuse_if(stages == 0, Fault::missing, "a pipeline schedule without stages was asked for");
    refuse_if(schedule == "Custom1F1B", Fault::argument, "Custom 1F1B schedule is not implemented yet.");
    refuse_if(schedule.starts_with("Custom") && stages != 2, Fault::sizes,
              "Interleaved 1F1B requires exactly 2 stages per rank, got ", stages);
    refuse_if(has_single_stage(options) && stages > 1, Fault::sizes, "Expected a single stage for '",
              schedule, "' pipeline schedule");
    refuse_if(!has_single_stage(options) && stages < 2, Fault::sizes,
              "Multi-stage schedule expects at least two stages but got ", stages);
    return options.is_none("num_microbatches")
               ? options.value("pp_size")
               : at_least_one(options, "num_microbatches", "num_microbatches");
}

std::vector<AccessorRow> of_pipelines() {
    using enum Quantity;
    const auto degree = required("degree"), schedule = required("schedule", Type::word);
    const auto style = Setting{"style", Type::maybe_word};
    auto p2p = computed("build_p2p_process_group", Type::number, p2p_process_group,
                        "The ranks of the pipeline, where its activations and gradients have a communicator "
                        "of their own; None unless `p2p_use_separate_group` is true.",
                        {required("device_mesh", Type::mesh),
                         {"p2p_use_separate_group", Type::flag},
                         {"p2p_backend", Type::word, {}, "nccl"},
                         optional("p2p_nccl_min_ctas"),
                         optional("p2p_nccl_max_ctas")},
                        ranks);
    p2p.without = Value();
    return {computed("is_single_stage", Type::flag,
                     [](const State&, const Given& options) -> Value { return has_single_stage(options); },
                     "True for schedules that run one stage a rank.", {schedule}),
            computed("infer_style", Type::word,
                     [](const State&, const Given& options) -> Value { return style_in(options); },
                     "The style given, else the schedule's own.", {schedule, style}),
            computed(
                "rank_completion_order", Type::number,
                [](const State&, const Given& options) -> Value { return completion_order(options); },
                "The ranks of the pipeline in the order in which they complete a batch.",
                {degree, schedule, style}, ranks),
            computed(
                "final_stage_rank", Type::number,
                [](const State&, const Given& options) -> Value { return completion_order(options).front(); },
                "The rank of the pipeline that has the last stage.", {degree, schedule, style}),
            computed("stage_ids_this_rank", Type::number, stage_ids,
                     "The stages of one rank of the pipeline: every degree-th, or two from both ends.",
                     {required("pp_rank"), required("num_stages"), degree, schedule, style}, ranks),
            computed("num_microbatches", Type::number, num_microbatches,
                     "The microbatches of a schedule of so many stages of this rank, which it checks.",
                     {required("stages"), required("pp_size"), schedule, optional("num_microbatches")}),
            std::move(p2p)};
}

Framework framework() {
    const auto number = [](const char* name, const char* flag, const char* doc = "", bool apart = false) {
        return Setting{.name = name, .type = Type::maybe_number, .doc = doc, .flag = flag, .apart = apart};
    };
    auto all = of_meshes();
    std::ranges::move(of_pipelines(), std::back_inserter(all));
    all.push_back(chosen(
        "get_group", Quantity::group,
        [](const Given& given, const Given& options) { return along(given, options.word("mesh_dim")); },
        "What torch's get_group returns of the world mesh.", {required("mesh_dim", Type::word)}));
    all.push_back(chosen(
        "get_dp_process_group", Quantity::group,
        [](const Given& given, const Given&) { return along(given, "dp"); },
        "The ranks that read different data."));
    return {
        .name = "olmo",
        .version = "3.0.0",
        .original = "olmo_core.distributed.parallel",
        .title = "OLMo-core's world mesh, the parts of any mesh by name, and its pipelines.",
        .settings_of =
            "dp_config, tp_config, cp_config, pp_config, ep_config of OLMo-core, as JSON; needs the "
            "world's size",
        .example = "'{\"dp_config\": {\"name\": \"fsdp\"}, \"tp_config\": {\"degree\": 2}}' --world 8",
        .settings = {{"dp_type",
                      Type::maybe_word,
                      "the type: fsdp, ddp, or hsdp, which shards within replicas",
                      {},
                      {},
                      "dp_config.name"},
                     number("num_replicas", "dp_config.num_replicas", "under hsdp"),
                     number("shard_degree", "dp_config.shard_degree",
                            "the shards of each replica under hsdp"),
                     number("tp", "tp_config.degree"),
                     number("cp", "cp_config.degree"),
                     number("pp", "pp_config.degree"),
                     number("ep", "ep_config.degree", "a negative one stands for the shards of a replica"),
                     configured("schedule", Type::maybe_word, "", "pipeline schedule", "pp_config.schedule"),
                     number("num_nodes", "num_nodes NUM_NODES",
                            "replicas of hsdp if neither their number nor shards are given", true),
                     number("local_world_size", "local_world_size LOCAL_WORLD_SIZE",
                            "ranks of a node, by which the nodes are counted; the environment says "
                            "one of both if neither is given",
                            true)},
        .meshes = {{"world_mesh", "pp dp cp tp"}},
        .kinds = {{"mesh_dp", "pp tp cp | dp", "the world mesh is not built"}},
        .accessors = std::move(all),
        .check_first = check,
        .extend = extend,
        .why = {{"ep, edp, etp", "OLMo-core's ep is the shard degree of HSDP, and excludes tp"},
                {"virtual pipeline stages",
                 "OLMo-core's schedules take their stages from the model's split points"}},
        .read = read,
        .write = write,
        .dp_role = [](const Given& given) -> std::string_view {
            if (!has(given, "dp_type")) return "dp";
            return given.word("dp_type") == "ddp" ? "dp_replicate" : "dp_shard";
        },
        .copies_by = "set dp_config's name to \"ddp\"",
        .calls = calls,
        .initialize = "build_world_mesh",
        .state_class = "WorldMesh",
        .base = "Answers",
        .table = "train_module",
        .ignore =
            "world_size tp_config.loss_parallel cp_config.load_balancer cp_config.head_stride "
            "pp_config.stages_per_rank",
        .written = Written::json_without_table,
        .leaves = "OLMo-core's data parallel size"};
}

}  // namespace rankmesh::frameworks::of_olmo
