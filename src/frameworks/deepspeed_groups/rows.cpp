// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's utils/groups.py: no settings; functions that a program calls when it needs groups make them.
#include "frameworks/row_makers.hpp"

namespace rankmesh::frameworks::of_deepspeed_groups {

void ensure_divisibility(int numerator, std::int64_t denominator) {
    refuse_if(denominator == 0, Fault::sizes, numerator,
              " was to be divided by a size of 0; every size is 1 or more");
    refuse_if(numerator % denominator != 0, Fault::sizes, numerator, " is not divisible by ", denominator);
}

void refuse_below_one(std::initializer_list<int> sizes) {
    for (const auto size : sizes)
        if (size < 1)
            throw Refusal(Fault::sizes, "sizes-below-one", "a size of ", size,
                          " was given; every size is 1 or more");
}

Refusal ranks_left_out(const std::string& text) { return {Fault::sizes, "ranks-left-out", text}; }

/// Adds the groups of `size` neighbours under the name `inner`, and across them those under `outer`.
void add(const Given& given, Additions& more, const std::string& outer, const std::string& inner, int size) {
    ensure_divisibility(given.world_size(), size);
    refuse_below_one({given.world_size(), size});
    more.meshes.emplace_back(inner, Mesh{{"outer", given.world_size() / size}, {"inner", size}});
    more.kinds = {{outer, inner + ": inner | outer"}, {inner, inner + ": outer | inner"}};
    if (outer.empty()) more.kinds.erase(more.kinds.begin());
}

void init_tp(Given& given, const Given& options, Additions& more) {
    if (given.has("tensor_parallel")) return;
    const auto world = given.world_size(), tensor = options.number("tensor_model_parallel_size");
    if (tensor > 1 && tensor <= world && world % tensor != 0)
        throw ranks_left_out(cat("a tensor_model_parallel_size of ", tensor, " leaves ranks of a world of ",
                                 world, " out; the size must divide the world's"));
    add(given, more, "data_parallel", "tensor_parallel", tensor);
    const auto data = options.number("data_parallel_size");
    if (!options.is_none("data_parallel_size") && data != world / tensor)
        throw ranks_left_out(cat("data_parallel_size ", data, " times tensor_model_parallel_size ", tensor,
                                 " is not the world's ", world));
}

void create_model(Given& given, const Given& options, Additions& more) {
    add(given, more, "model_data_parallel", "model_parallel",
        std::min(options.number("model_parallel_size_"), given.world_size()));
}

void create_zero(Given& given, const Given& options, Additions& more) {
    refuse_if(given.has("zero_param_intra"), Fault::exists,
              "ZeRO parameter intra parallel group is already initialized");
    add(given, more, "", "zero_param_intra", std::min(options.number("group_size"), given.world_size()));
}

void create_sequence(Given& given, const Given& options, Additions& more) {
    add(given, more, "sequence_data_parallel", "sequence_parallel", options.number("sequence_parallel_size"));
}

/// The same of parallel_state_sp, whose sequence-data group is the whole world.
void initialize_sequence(Given& given, const Given& options, Additions& more) {
    const auto world = given.world_size(), size = options.number("sequence_parallel_size");
    refuse_if(world < size, Fault::sizes, "world_size (", world, ") is less than sequence_parallel_size ",
              size);
    refuse_if(size <= 1, Fault::argument, "sequence_parallel_size must be greater than 1, got ", size);
    refuse_if(world % size != 0, Fault::sizes, "world_size (", world,
              ") is not divisible by sequence_parallel_size ", size, ")");
    refuse_if(given.has("sequence_parallel"), Fault::exists,
              "sequence parallel group is already initialized");
    create_sequence(given, options, more);
    more.kinds.front() = {"sequence_and_data", "sequence_parallel: | outer inner"};
}

void create_all_to_all(Given& given, const Given& options, Additions& more) {
    const auto world = given.world_size(), devices = options.number("device_per_node");
    if (devices == 0) ensure_divisibility(world, 0);
    refuse_below_one({world, devices});
    const auto nodes = world / devices;
    refuse_if(nodes == 1 && world != devices, Fault::sizes,
              "num_gpus not equal to device per node, cannot initialize All-To-All");
    if (nodes > 1 && world % devices != 0)
        throw ranks_left_out(cat("nodes of ", devices, " devices leave ranks ", nodes * devices, "..",
                                 world - 1, " out; the size must divide the world's ", world));
    add(given, more, "global", "local", nodes == 0 ? world : devices);
    std::ranges::reverse(more.kinds);
    if (nodes < 2) more.kinds.pop_back();
}

struct Experts {
    int size, stages, lanes;
    bool lanes_apart;  ///< each tensor lane of a stage has groups of its own; else a stage is lane after lane
    bool data_first;   ///< D+E: replicas are next to each other
    bool replicas_first;  ///< the original makes the expert-data groups first
};

/// Adds the expert and the expert-data groups of one expert size. A block, a lane or a stage, is cut into
/// both.
void add_experts(Given& given, Additions& more, const Experts& of) {
    const auto name = cat("ep_size_", of.size);
    const auto row = given.world_size() / of.stages / of.lanes;
    const auto replicas = (of.lanes_apart ? row : row * of.lanes) / of.size;
    const auto kind = [&](const char* what, int size, int step) {
        more.kinds.push_back({.name = name + what,
                              .groups = cat(name, ": pipe lane row / ", size, " ", step),
                              .rising = !of.lanes_apart && of.lanes > 1});
    };
    more.meshes.emplace_back(name, Mesh{{"pipe", of.stages}, {"row", row}, {"lane", of.lanes}});
    kind("_expert", of.size, of.data_first ? replicas : 1);
    kind("_expert_data", replicas, of.data_first ? 1 : of.size);
    if (of.replicas_first) std::ranges::reverse(more.kinds);
    const auto* most = std::get_if<int>(&given.value("max_expert_size"));
    given.derive("max_expert_size", std::max(most ? *most : 0, of.size));
}

bool has_experts(const Given& given, int size) { return given.has(cat("ep_size_", size, "_expert")); }

void create_experts(Given& given, const Given& options, Additions& more) {
    const auto world = given.world_size(), size = options.number("expert_parallel_size_");
    const auto stages = options.number("pp_size", 1);
    const auto lanes = options.number("mp_size", 1);
    const auto data_first = options.flag("use_data_before_expert_parallel_");
    if (stages == 0) ensure_divisibility(world, 0);
    const auto stage = world / stages;
    ensure_divisibility(stage, size);
    refuse_if(lanes > 1 && data_first, Fault::exclusive,
              "use_data_before_expert_parallel_ is not supported with mp_size > 1");
    refuse_below_one({lanes, size, stages});
    if (world % stages != 0)
        throw ranks_left_out(cat(stages, " pipeline stages of a world of ", world,
                                 " leave ranks out; the size must divide the world's"));
    const auto strided = lanes > 1 && options.word("mp_mode") == "tp";
    if (strided && stage % lanes != 0)
        throw ranks_left_out(cat(lanes, " tensor lanes of a stage of ", stage,
                                 " leave ranks out; mp_size must divide the stage's"));
    if (has_experts(given, size)) return;
    add_experts(given, more, {size, stages, strided ? lanes : 1, false, data_first, lanes <= 1});
}

/// Of a client's mpu; of groups that are there the original checks less.
void create_experts_and_model(Given& given, const Given& options, Additions& more) {
    const auto world = given.world_size(), size = options.number("expert_parallel_size_");
    const auto lanes = options.number("tensor_parallel_size_");
    const auto stages = options.number("pipeline_parallel_size_");
    if (has_experts(given, size)) {
        ensure_divisibility(world, lanes);
        ensure_divisibility(options.number("data_parallel_size", world), size);
        refuse_below_one({lanes});
    } else {
        const auto model = std::int64_t{lanes} * stages;
        ensure_divisibility(world, model);
        ensure_divisibility(static_cast<int>(world / model), size);
        refuse_below_one({lanes, size, stages});
        const auto data_first = options.flag("use_data_before_expert_parallel_");
        add_experts(given, more, {size, stages, lanes, true, data_first, false});
    }
    given.derive("expert_tensor_parallel_world_size", lanes);
}

// --- what is asked

std::string experts_of(const Given&, const Given& options) { return options.word("group_name") + "_expert"; }
std::string replicas_of(const Given& given, const Given& options) {
    return experts_of(given, options) + "_data";
}
std::string largest_of(const Given& given) {
    const auto* most = std::get_if<int>(&given.value("max_expert_size"));
    return cat("ep_size_", most ? std::to_string(*most) : "None");
}
constexpr auto zero = "zero_param_intra";

Value expert_source(const State& state, const Given& options) {
    const auto group =
        *state.group("_get_expert_parallel_group", {{"group_name", options.word("group_name")}});
    const auto source = state.rank() - state.rank() % group.size();
    if (!group.contains(source))
        throw Refusal(Fault::not_member, "source-outside", "the source of rank ", state.rank(), " would be ",
                      source, ", which is not in its expert group; broadcast from the group's first rank, ",
                      group.front());
    return source;
}
Value tensor_source(const State& state, const Given&) {
    return state.rank() - state.rank() % std::get<int>(state.ask("get_tensor_model_parallel_world_size"));
}
Value all_to_all_names(const State& state, const Given&) {
    auto names = std::vector<std::string>{};
    for (const auto* kind : {"local", "global"})
        for (int i = 0; state.groups().has(kind) && i < state.groups().count(kind); ++i)
            names.push_back(cat(kind, "_", i));
    return names;
}
Value largest_name(const State& state, const Given&) { return largest_of(Access::given(state)); }
std::string largest(const Given& given, const Given&) { return largest_of(given) + "_expert"; }
Value has_zero(const State& state, const Given&) {
    const auto& groups = state.groups();
    return groups.has(zero) || groups.has("tensor_parallel") ? Value() : Value(false);
}

Setting or_none(const char* name) { return {name, Type::maybe_number}; }

std::vector<AccessorRow> makers() {
    auto rows = std::vector<AccessorRow>{};
    const auto make = [&](auto adds, const char* name, const char* doc, std::vector<Setting> options) {
        rows.push_back({name, "", Quantity::action, doc, std::move(options)});
        rows.back().adds = adds;
    };
    const auto mode = Setting{"mp_mode", Type::word, {}, "tp"}, stages = Setting{"pipeline_parallel_size_"},
               data_first = Setting{"use_data_before_expert_parallel_", Type::flag};
    make(init_tp, "_init_tp_mesh_device", "Makes the tensor and data parallel groups, unless they are there.",
         {{"tensor_model_parallel_size"}, or_none("data_parallel_size")});
    make(create_model, "_create_model_parallel",
         "Makes data and model parallel groups, which no other function asks about.",
         {required("model_parallel_size_")});
    make(create_experts, "_create_expert_and_data_parallel",
         "Makes the expert and expert-data groups of one expert size, unless they are there.",
         {required("expert_parallel_size_"), or_none("mp_size"), or_none("pp_size"), mode, data_first});
    make(create_experts_and_model, "_create_expert_data_and_model_parallel",
         "Makes the expert groups of a client whose mpu has these sizes.",
         {required("expert_parallel_size_"), required("tensor_parallel_size_"), stages, data_first,
          or_none("data_parallel_size")});
    make(create_sequence, "sequence_parallel_mesh",
         "Says the size of Ulysses' sequence parallelism, as the original's `mesh_device` does.",
         {required("sequence_parallel_size")});
    make(initialize_sequence, "initialize_sequence_parallel",
         "The same of `parallel_state_sp`, for sizes above 1.", {required("sequence_parallel_size")});
    make(create_zero, "_create_zero_param_parallel_group",
         "Makes the groups of hpZ's second partition, of at most the world's size.",
         {required("group_size")});
    make(create_all_to_all, "_get_local_all_to_all_group",
         "Makes the groups of quantized gradients: `local` of each node and, with several nodes, `global`.",
         {required("device_per_node")});
    for (const auto* what : {"rank", "world_size"}) {
        make(nullptr, cat("set_tensor_model_parallel_", what).c_str(),
             "Says another one, None to take it back.", {required(what, Type::maybe_number)});
        rows.back().slot = cat("tensor_", what);
    }
    rows.back().is_size = true;
    return rows;
}

AccessorRow row(const char* name, const char* kind, std::string missing = "", const char* among = "") {
    if (!missing.empty()) missing += " parallel group is not initialized";
    return {.name = name, .kind = kind, .missing = missing, .among = among};
}
constexpr auto three = "group world_size rank", four = "group world_size rank group_ranks";

void put_tensors(std::vector<AccessorRow>& rows) {
    for (const auto* name : {"get_tensor_model_parallel", "get_model_parallel"}) {
        add_faces(rows, row(name, "tensor_parallel", "intra_layer_model"), "tensor-parallel group", three);
        rows.back().slot = "tensor_rank";
        (rows.end() - 2)->slot = "tensor_world_size";
    }
    (rows.end() - 3)->missing = "model parallel group is not initialized";
    add_faces(rows, row("get_data_parallel", "data_parallel", "data"), "data-parallel group", three);
    rows.push_back(computed("get_tensor_model_parallel_src_rank", Type::number, tensor_source,
                            "The first rank of the tensor parallel group."));
}

std::vector<AccessorRow> accessors() {
    using enum Quantity;
    auto rows = makers();
    const auto name = std::vector<Setting>{required("group_name", Type::word)};
    put_tensors(rows);
    auto experts = row("_get_expert_parallel", "", "expert"),
         replicas = row("_get_expert_data_parallel", "", "expert data");
    experts.choose = experts_of;
    replicas.choose = replicas_of;
    experts.options = replicas.options = name;
    add_faces(rows, experts, "group that holds the experts of one model", four);
    add_faces(rows, replicas, "group with the same experts", four);
    replicas.name = "_get_expert_broadcast";
    add_faces(rows, replicas, "group with the same experts", "src_rank");
    experts.name = "_get_max_expert_parallel";
    experts.options = {};
    experts.choose = largest;
    add_faces(rows, experts, "group of the largest expert size", "group");
    // A kind once it was made, all ranks before.
    auto data = row("_get_data_parallel", "", "", "sequence_data_parallel, *");
    add_faces(rows, data, "group with other data, among which ZeRO shards", four);
    data.name = "_get_sequence_data_parallel";
    add_faces(rows, data, "group with other data, among which ZeRO shards", three);
    data.name = "_get_broadcast";
    add_faces(rows, data, "group with other data", "src_rank");
    const auto add_zero = [&](const char* name, Quantity quantity, const char* doc) {
        rows.push_back({.name = name, .quantity = quantity, .doc = doc, .among = "zero_param_intra, *"});
    };
    add_zero("_get_zero_param_intra_parallel_group_ranks", ranks,
             "The ranks that hold all parameters together; all ranks before they are made.");
    add_zero("_get_zero_param_intra_parallel_group_world_size", size, "The number of these ranks.");
    add_zero("_get_zero_param_intra_parallel_rank_in_mygroup", rank, "This rank's place among them.");
    auto zero_is_made = computed("_zero_param_parallel_is_initialized", Type::flag, has_zero,
                                 "False before any group is made, then None: the original never says True.");
    zero_is_made.without = Value();
    for (auto&& each : std::initializer_list<AccessorRow>{
             lenient("_get_zero_param_intra_parallel_group", zero, group,
                     "The ranks that hold all parameters together; None before they are made."),
             zero_is_made,
             computed("_get_expert_parallel_src_rank", Type::number, expert_source,
                      "rank // size * size; refused for a group whose ranks are not adjacent, which lacks "
                      "that rank.",
                      name),
             said("_get_max_expert_size", "The largest expert size that was made.", Type::maybe_number,
                  "max_expert_size"),
             computed("_get_max_expert_size_name", Type::word, largest_name, "Its name, as `ep_size_4`."),
             {"_get_expert_model_parallel_world_size", "expert_tensor_parallel_world_size", value,
              "How many tensor ranks have their own expert groups, in the groups that were made last with an "
              "mpu."},
             computed(
                 "_get_model_parallel_world_size", Type::number,
                 [](const State&, const Given&) { return Value(1); }, "1 without an mpu."),
             computed("_ALL_TO_ALL_NAMES", Type::words, all_to_all_names,
                      "The names of all all-to-all groups, as `local_0`."),
             {"_clone_world_group", "*", group, "All ranks."}})
        rows.push_back(each);
    add_faces(rows, row("_get_sequence_parallel", "sequence_parallel"), "group that shares a sequence",
              three);
    rows.back().without = 0;
    (rows.end() - 2)->without = 1;
    (rows.end() - 3)->missing = "No sequence parallel group found";
    (rows.end() - 3)->raises = "KeyError";
    // Of parallel_state_sp.
    add_faces(rows, row("__get_sequence_parallel", "sequence_parallel", "sequence"),
              "group that shares a sequence", three);
    add_faces(rows, row("__get_sequence_data_parallel", "sequence_and_data", "sequence data"),
              "group among which ZeRO shards: all", three);
    rows.push_back({"_ALL_TO_ALL_GROUP", "", group, "This rank's all-to-all group: `local` or `global`."});
    rows.back().options = {{"kind", Type::word, {}, "local"}};
    rows.back().choose = [](const Given&, const Given& options) { return options.word("kind"); };
    rows.back().missing = "the all-to-all groups are not initialized";
    return rows;
}

Framework framework() {
    return {
        .name = "deepspeed_groups",
        .version = "0.19.8",
        .original = "deepspeed.utils.groups",
        .title = "DeepSpeed's groups, which functions make: tensors, experts, sequences, ZeRO's partitions.",
        .settings_of = {},
        .example = {},
        .settings = {},
        .meshes = {{"all", "world"}},
        .kinds = {},
        .accessors = accessors(),
        .check =
            [](Given& given) {
                given.derive("max_expert_size", {});
                given.derive("expert_tensor_parallel_world_size", 1);
            },
        .raises = {{"", "AssertionError"}, {"exclusive", "NotImplementedError"}},
        .base = "Answers"};
}

}  // namespace rankmesh::frameworks::of_deepspeed_groups
