// SPDX-License-Identifier: Apache-2.0
// What OLMo-core's functions answer about any mesh, and its configurations about pipelines.
#include "frameworks/olmo/olmo.hpp"

namespace rankmesh::frameworks::of_olmo {

using Meshes = std::vector<DeviceMesh>;

DeviceMesh mesh_of(const std::vector<Dimension>& dimensions, int rank, int world_size) {
    auto names = Names{};
    auto shape = std::vector<int>{};
    for (const auto& [name, size] : dimensions) {
        names.emplace_back(name);
        shape.push_back(size);
    }
    return init_device_mesh(shape, names, rank, world_size);
}

const std::string& known(const Given& given, const char* name, std::initializer_list<std::string_view> words,
                         std::string_view before, std::string_view after) {
    const auto& word = given.word(name);
    refuse_if(!holds(words, word), Fault::unknown, before, word, after);
    return word;
}

void throw_no_data_parallel() {
    throw Error(Fault::missing,
                "Data parallel config is required in addition to expert/tensor/context/pipeline parallel "
                "configs");
}

/// The whole part of a quotient, rounded towards minus infinity as Python does.
int quotient(int number, int by, std::string_view what) {
    refuse_if(by == 0, Fault::sizes, what, " is 0, and nothing is divisible by 0");
    const auto towards_zero = number / by;
    return number % by != 0 && (number < 0) != (by < 0) ? towards_zero - 1 : towards_zero;
}

/// A setting that must divide the data parallel ranks.
int divisor(const Given& given, const char* name, int dp_world_size) {
    const auto degree = given.number(name);
    refuse_if(quotient(dp_world_size, degree, name) * degree != dp_world_size, Fault::sizes,
              "data parallel world size (", dp_world_size, ") must be divisible by '", name, "' (", degree,
              ")");
    return degree;
}

int num_nodes(const Given& given) {
    const auto is_said = !given.is_none("num_nodes") || !given.is_none("local_world_size");
    const auto said = [&](const char* name, const char* in_environment) {
        return !given.is_none(name) ? std::optional(given.number(name))
               : is_said            ? std::nullopt
                                    : number_in_environment(in_environment);
    };
    if (const auto nodes = said("num_nodes", "NUM_NODES")) return *nodes;
    if (const auto local = said("local_world_size", "LOCAL_WORLD_SIZE"))
        return quotient(given.world_size(), *local, "LOCAL_WORLD_SIZE");
    throw Error(Fault::missing,
                "OLMo-core's hsdp makes a replica of each node, and how many nodes a world of ",
                detail::counted(given.world_size(), "rank"),
                " has is not known; give num_replicas, shard_degree, num_nodes or local_world_size, or "
                "give NUM_NODES or LOCAL_WORLD_SIZE in the environment");
}

std::pair<int, int> replicas_and_shards(const Given& given, int dp_world_size) {
    const auto by_replicas = !given.is_none("num_replicas"), by_shards = !given.is_none("shard_degree");
    if (!by_replicas && !by_shards) {
        const auto nodes = num_nodes(given);
        return {nodes, quotient(dp_world_size, nodes, "the number of nodes")};
    }
    const auto replicas = by_replicas ? divisor(given, "num_replicas", dp_world_size)
                                      : quotient(dp_world_size, given.number("shard_degree"), "shard_degree");
    const auto shards = by_shards ? divisor(given, "shard_degree", dp_world_size)
                                  : quotient(dp_world_size, replicas, "num_replicas");
    return {replicas, shards};
}

const DeviceMesh& world_mesh(const State& state) {
    const auto& mesh = Access::device_mesh(state, "world_mesh");
    if (mesh.root().find("dp_shard")) mesh[{"dp_replicate", "dp_shard"}].flatten("dp");
    return mesh;
}

DeviceMesh mesh_in(const State& state, const Given& options) {
    if (!options.is_none("device_mesh")) return std::get<Meshes>(options.value("device_mesh")).front();
    return world_mesh(state);
}

Names names_of(const DeviceMesh& mesh, std::string_view what) {
    auto names = mesh.mesh_dim_names();
    refuse_if(!names, Fault::missing, "could not determine ", what, " sub-mesh without dimension names");
    return std::move(*names);
}

/// Makes the root indexable by `as` for two dimensions, which it replaces in `names`.
void fold(const DeviceMesh& mesh, Names& names, const Names& two, std::string_view as) {
    auto folded = Names{};
    for (const auto& name : names) {
        if (!holds(two, name))
            folded.push_back(name);
        else if (!holds(folded, as))
            folded.emplace_back(as);
    }
    mesh[two].flatten(as, folded);
    names = std::move(folded);
}

/// Experts see different data, and the ranks of both expert dimensions hold the rest of the model together.
void fold_experts(const DeviceMesh& mesh, Names& names) {
    if (holds(names, "dp") && holds(names, "ep"))
        fold(mesh, names, {"dp", "ep"}, "dp_ep");
    else if (holds(names, "ep_replicate") && holds(names, "ep_shard"))
        fold(mesh, names, {"ep_replicate", "ep_shard"}, "dp");
}

/// The names of the mesh's dimensions as the model sees them, by which its root is indexable.
Names model_names(const DeviceMesh& mesh) {
    auto names = names_of(mesh, "DP model");
    fold_experts(mesh, names);
    const auto cp = std::ranges::find(names, "cp");
    if (cp == names.end()) return names;
    // Before the first name stands the last one, as the original counts.
    const auto before = cp == names.begin() ? names.back() : *(cp - 1);
    if (!before.starts_with("dp"))
        throw Error(Fault::argument, "'cp' is folded into the data-parallel dimension before it, and '",
                    before, "' is none, in ", to_string(names));
    fold(mesh, names, {before, "cp"}, "dp_cp");
    return names;
}

Value data_parallel(const DeviceMesh& mesh, Names names) {
    std::erase_if(names, [](const std::string& name) { return !name.starts_with("dp"); });
    return Meshes{mesh[names]};
}

Value dp_model_mesh(const State& state, const Given& options) {
    const auto mesh = mesh_in(state, options);
    return data_parallel(mesh, model_names(mesh));
}

Value dp_mesh(const State& state, const Given& options) {
    const auto mesh = mesh_in(state, options);
    auto names = names_of(mesh, "DP");
    fold_experts(mesh, names);
    refuse_if(holds(names, "dp_cp"), Fault::argument,
              "'get_dp_mesh' should be called on the original world mesh");
    return data_parallel(mesh, std::move(names));
}

/// The part of a mesh along the first of `wanted` that is a dimension of it, or of it as the model sees it.
struct Part {
    std::string_view what;
    std::string_view wanted;  // words
    bool of_model = false;
};

template <const Part& part>
Value part_of(const State& state, const Given& options) {
    const auto mesh = mesh_in(state, options);
    const auto names = part.of_model ? model_names(mesh) : names_of(mesh, part.what);
    for (const auto name : words_of(part.wanted))
        if (holds(names, name)) return Meshes{mesh[name]};
    throw Error(Fault::unknown, "could not determine ", part.what, " sub-mesh from mesh with dimensions ",
                to_string(names));
}

constexpr auto dp_shard = Part{"data parallel shard", "dp_shard", true};
constexpr auto dp_replicate = Part{"data parallel replicate", "dp_replicate", true};
constexpr auto tp = Part{"tensor parallel", "tp", true};
constexpr auto cp = Part{"context parallel", "cp"};
constexpr auto pp = Part{"pipeline parallel", "pp"};
constexpr auto ep = Part{"expert parallel", "ep ep_shard dp_shard"};

Value pp_stage_mesh(const State& state, const Given& options) {
    constexpr auto what = "pipeline parallel stage";
    const auto mesh = mesh_in(state, options);
    const auto pp_mesh = options.is_none("pp_mesh") ? part_of<pp>(state, options) : options.value("pp_mesh");
    const auto pipeline = names_of(std::get<Meshes>(pp_mesh).front(), what);
    auto names = names_of(mesh, what);
    std::erase_if(names, [&](const std::string& name) { return holds(pipeline, name); });
    return Meshes{mesh[names]};
}

Value own_mesh(const State& state, const Given&) {
    return state.is_initialized() ? Value(Meshes{world_mesh(state)}) : Value();
}

Value device_mesh_info(const State& state, const Given& options) {
    const auto mesh = mesh_in(state, options);
    const auto names = mesh.mesh_dim_names();
    const auto shape = mesh.shape();
    auto text = std::string{};
    for (std::size_t i = 0; i < shape.size(); ++i)
        text += cat(i > 0 ? ", " : "", names ? (*names)[i] + "=" : "", shape[i]);
    return cat(mesh.ndim(), "D device mesh with shape (", text, shape.size() == 1 ? ",)" : ")");
}

// --- other meshes

Value expert_parallel_mesh(const State& state, const Given& options) {
    const auto world = options.world_size();
    const auto degree = options.number("degree") < 0 ? world : options.number("degree");
    refuse_if(degree == 0, Fault::sizes, "'degree' is 0, and nothing is divisible by 0");
    refuse_if(world % degree != 0, Fault::sizes, "Expert parallelism requires world size (", world,
              ") to be divisible by 'degree' (", degree, ")");
    return Meshes{mesh_of({{"ep_replicate", world / degree}, {"ep_shard", degree}}, state.rank(), world)};
}

/// What OLMoDDPTrainModule leaves of `ranks`: it takes no parallelism of one rank.
int shared(int ranks, int degree, std::string_view config) {
    refuse_if(degree < 2 || ranks % degree != 0, Fault::sizes, config, ".degree is ", degree,
              "; OLMoDDPTrainModule takes 2 or more that divide the ", ranks, " ranks which are left for it");
    return ranks / degree;
}

Value dense_and_moe_mesh(const State& state, const Given& options) {
    const auto has = [&](const char* name) { return !options.is_none(name); };
    const auto number = [&](const char* name) { return options.number(name); };
    const auto world = options.world_size();
    if (!has("dp_type")) throw_no_data_parallel();
    const auto folded = has("pp") ? shared(world, number("pp"), "PipelineParallelConfig") : world;
    auto dp = folded;
    if (has("cp")) dp = shared(dp, number("cp"), "ContextParallelConfig");
    if (has("tp")) dp = shared(dp, number("tp"), "TensorParallelConfig");
    auto dense = has("pp") ? std::vector<Dimension>{{"pp", number("pp")}} : std::vector<Dimension>{};
    auto moe = dense;
    dense.emplace_back("dp", dp);
    if (has("cp")) dense.emplace_back("cp", number("cp"));
    auto meshes = Meshes{mesh_of(dense, state.rank(), world)};
    if (has("ep")) {
        const auto experts = number("ep") < 0 ? folded : number("ep");
        moe.emplace_back("ep_dp", shared(folded, experts, "ExpertParallelConfig"));
        moe.emplace_back("ep_mp", experts);
        meshes.push_back(mesh_of(moe, state.rank(), world));
    }
    return meshes;
}

std::vector<AccessorRow> of_meshes() {
    using enum Quantity;
    const auto given = required("device_mesh", Type::mesh);
    const auto part = [&](const char* name, auto* code, const char* doc, std::vector<Setting> more = {}) {
        more.insert(more.begin(), given);
        return computed(name, Type::mesh, code, doc, std::move(more), device_mesh);
    };
    auto world_mesh = computed("get_world_mesh", Type::mesh, own_mesh,
                               "The world mesh; None before it is built.", {}, device_mesh);
    world_mesh.without = Value();
    world_mesh.called = true;
    return {
        std::move(world_mesh),
        computed("get_device_mesh_info", Type::word, device_mesh_info,
                 "The dimensions of a mesh in words, as `2D device mesh with shape (dp=4, tp=2)`.", {given}),
        part("get_dp_model_mesh", dp_model_mesh,
             "All dp dimensions for data-parallel models, cp folded into the one before it."),
        part("get_dp_mesh", dp_mesh, "All dp dimensions for data loading, without cp."),
        part("get_dp_shard_mesh", part_of<dp_shard>,
             "The dp dimension that shards; there is none where cp is folded into it."),
        part("get_dp_replicate_mesh", part_of<dp_replicate>, "The dp dimension of replicas."),
        part("get_tp_mesh", part_of<tp>, "The dimension that tensors are sharded over."),
        part("get_cp_mesh", part_of<cp>, "The dimension that sequences are sharded over."),
        part("get_pp_mesh", part_of<pp>, "The dimension of pipelines."),
        part("get_pp_stage_mesh", pp_stage_mesh,
             "All dimensions but those of `pp_mesh`, the pipeline's unless given.",
             {{"pp_mesh", Type::mesh}}),
        part("get_ep_mesh", part_of<ep>, "The dimension that experts are sharded over."),
        computed("build_expert_parallel_mesh", Type::mesh, expert_parallel_mesh,
                 "The mesh of the experts, which is kept by nobody; a negative degree is all ranks.",
                 {required("degree")}, device_mesh),
        computed(
            "build_dense_and_moe_mesh", Type::words, dense_and_moe_mesh,
            "The meshes that OLMoDDPTrainModule keeps: for dense layers, and if `ep` is given for experts, "
            "which take their ranks from dp and cp together.",
            {required("dp_type", Type::maybe_word), optional("tp"), optional("cp"), optional("pp"),
             optional("ep")},
            device_mesh),
        computed("get_num_nodes", Type::number,
                 [](const State&, const Given& options) -> Value { return num_nodes(options); },
                 "The number of nodes, of the environment unless said.",
                 {required("num_nodes", Type::maybe_number), optional("local_world_size")}),
        computed(
            "get_replicate_and_shard_degree", Type::number,
            [](const State&, const Given& options) -> Value {
                const auto [replicas, shards] = replicas_and_shards(options, options.number("dp_world_size"));
                return std::vector{replicas, shards};
            },
            "The number of replicas and of shards: one replica a node if neither is given.",
            {required("dp_world_size"), optional("num_replicas"), optional("shard_degree"),
             optional("num_nodes"), optional("local_world_size")},
            size_and_rank)};
}

}  // namespace rankmesh::frameworks::of_olmo
