// SPDX-License-Identifier: Apache-2.0
// torchtitan's ParallelDims: several meshes over the same ranks; experts take dp_shard, cp and tp.
#include "frameworks/row_makers.hpp"

namespace rankmesh::frameworks::of_torchtitan {

/// How layouts lie over axes: spmd_types names dp, partial_dtensor folds dp_shard and cp to fsdp.
bool is_spmd(const Given& given) { return given.word("spmd_backend") == "spmd_types"; }
bool is_folded(const Given& given) { return given.word("spmd_backend") == "partial_dtensor"; }

/// A name along which there is a mesh, and the root of that mesh.
struct Name {
    std::string_view name, root;
};

using Names = std::vector<std::string>;
constexpr auto spmd_dense = "spmd_dense_for_fwdbwd";

/// The axes of dense layers and of experts along which layouts lie.
Names layout_axes(const Given& given) {
    if (is_spmd(given)) return {"dp", "cp", "tp"};
    return is_folded(given) ? Names{"dp_replicate", "fsdp", "tp"}
                            : Names{"dp_replicate", "dp_shard", "cp", "tp"};
}
const auto sparse_axes = Names{"dp_replicate", "efsdp", "ep"};

Names list_in(const Value& value) {
    const auto* one = std::get_if<std::string>(&value);
    return one ? Names{*one} : std::get<Names>(value);
}

std::vector<MeshRow> roots(const Given& given) {
    auto all = std::vector<MeshRow>{
        {"dataloading", "pp batch cp tp"},
        {"dense", is_folded(given) ? "pp dp_replicate fsdp tp" : "pp dp_replicate dp_shard cp tp"},
        {"sparse", "pp dp_replicate efsdp ep"}};
    if (is_spmd(given)) all.push_back({spmd_dense, "pp dp cp tp"});
    return all;
}

std::vector<Name> named(const Given& given) {
    auto all = std::vector<Name>{{"pp", "dataloading"},     {"batch", "dataloading"}, {"loss", "dataloading"},
                                 {"dp_replicate", "dense"}, {"cp", "dataloading"},    {"tp", "dataloading"},
                                 {"ep", "sparse"},          {"efsdp", "sparse"}};
    if (is_spmd(given)) all.push_back({"dp", spmd_dense});
    all.push_back({is_folded(given) ? "fsdp" : "dp_shard", "dense"});
    return all;
}

bool is_enabled(const Given& given, std::string_view name) {
    if (name == "efsdp") return given.number("ep") > 1;
    const auto all = named(given);
    return std::ranges::find(all, name, &Name::name) != all.end() &&
           (given.number(name) > 1 || name == "fsdp" || name == "dp_shard");
}

/// The error for a name, or a list of names, that is not enabled. A list is enabled if each of its names is.
Error not_available(const Value& dims) {
    const auto* one = std::get_if<std::string>(&dims);
    return {Fault::missing, cat("Mesh '", one ? *one : list_of(list_in(dims)),
                                "' is not available. Ensure the corresponding parallelism dimension is ",
                                one ? "enabled (size > 1)." : "all enabled.")};
}

DeviceMesh along(const State& state, const std::string& name) {
    const auto all = named(Access::given(state));
    const auto& root = Access::device_mesh(state, std::ranges::find(all, name, &Name::name)->root);
    return name == "loss" ? root[{"batch", "cp"}].flatten("loss_mesh") : root[name];
}

/// The mesh along these names; nothing where one of them is not enabled.
std::optional<DeviceMesh> mesh_along(const State& state, const Names& dims, bool with_singletons = false) {
    const auto& given = Access::given(state);
    const auto& known = std::get<Names>(given.value("names"));
    for (const auto& dim : dims)
        if (!holds(known, dim))
            throw Error(Fault::unknown, "Invalid mesh dim: '", dim,
                        "'. Valid dimensions are: ", list_of(known));
    if (!with_singletons &&
        !std::ranges::all_of(dims, [&](const auto& dim) { return is_enabled(given, dim); }))
        return std::nullopt;
    if (dims.size() == 1) return along(state, dims.front());
    for (const auto& [name, axes] : roots(given)) {
        auto mesh = Access::device_mesh(state, name);
        if (name == spmd_dense) mesh = mesh[layout_axes(given)];
        const auto has = *mesh.mesh_dim_names();
        if (std::ranges::all_of(dims, [&](const auto& dim) { return holds(has, dim); })) return mesh[dims];
    }
    throw Error(Fault::exclusive, "Invalid mesh name combinations ", list_of(dims), ".");
}

/// The mesh along those axes that are enabled; nothing where none is.
std::optional<DeviceMesh> activated(const State& state, Names axes) {
    std::erase_if(axes, [&](const auto& axis) { return !is_enabled(Access::given(state), axis); });
    return axes.empty() ? std::nullopt : mesh_along(state, axes);
}

Value world_mesh(const State& state, const Given&) { return value_of(Access::device_mesh(state, "world")); }
Value get_optional_mesh(const State& state, const Given& options) {
    return value_of(mesh_along(state, list_in(options.at(0)), options.flag("include_singleton_axes")));
}
Value get_mesh(const State& state, const Given& options) {
    const auto mesh = mesh_along(state, list_in(options.at(0)));
    return mesh ? value_of(mesh) : throw not_available(options.at(0));
}
Value get_activated_mesh(const State& state, const Given& options) {
    return value_of(activated(state, list_in(options.at(0))));
}

Value spmd_meshes(const State& state, const Given&) {
    auto meshes = std::vector<DeviceMesh>{};
    for (const auto& axes : {layout_axes(Access::given(state)), sparse_axes})
        if (auto mesh = activated(state, axes)) meshes.push_back(std::move(*mesh));
    return meshes;
}

Value spmd_dense_mesh(const State& state, const Given&) {
    const auto& given = Access::given(state);
    if (is_spmd(given)) return value_of(Access::device_mesh(state, spmd_dense)[layout_axes(given)]);
    throw Error(Fault::not_initialised, "there is no mesh '", spmd_dense, "' with the backend ",
                given.word("spmd_backend"), "; it is there with spmd_types");
}

Value spmd_sparse_mesh(const State& state, const Given&) {
    const auto& given = Access::given(state);
    if (!is_spmd(given) || given.number("ep") == 1) return {};
    return value_of(Access::device_mesh(state, "sparse")[sparse_axes]);
}

Value get_dense_tp_mesh(const State& state, const Given& options) {
    const auto& given = Access::given(state);
    if (is_folded(given))
        return is_enabled(given, "tp") ? value_of(along(state, "tp")) : throw not_available("tp");
    const auto dense = is_spmd(given) ? spmd_dense_mesh(state, options) : spmd_meshes(state, options);
    return value_of(std::get<std::vector<DeviceMesh>>(dense).front()["tp"]);
}

/// The axes that store what is laid out along these.
Names unfolded(const Names& axes) {
    auto all = Names{};
    for (const auto& axis : axes) {
        refuse_if(!holds(words_of("dp dp_replicate dp_shard fsdp tp cp pp ep efsdp"), axis), Fault::unknown,
                  "'", axis, "' is not a valid MeshAxisName");
        for (const auto part : words_of(axis == "dp" ? "dp_replicate dp_shard" : std::string_view(axis)))
            all.emplace_back(part);
    }
    return all;
}

Value resolve_mesh(const State& state, const Given& options) {
    const auto& given = Access::given(state);
    auto axes = list_in(options.at(0));
    if (is_spmd(given) || is_folded(given)) {
        std::erase_if(axes, [&](const auto& axis) {
            return axis != "tp" && axis != "ep" && (is_folded(given) || (axis != "dp" && axis != "cp"));
        });
        return value_of(activated(state, axes));
    }
    const auto mesh = activated(state, unfolded(axes));
    if (!mesh) return {};
    auto valid = std::string{};
    const auto spmd = spmd_meshes(state, options);
    for (const auto& known : std::get<std::vector<DeviceMesh>>(spmd)) {
        if (known.mesh_dim_names() == mesh->mesh_dim_names()) return value_of(mesh);
        valid += cat(valid.empty() ? "" : ", ", list_of(*known.mesh_dim_names()));
    }
    throw Error(Fault::argument, "Resolved mesh ", list_of(*mesh->mesh_dim_names()),
                " does not match any SPMD mesh. Valid meshes: [", valid, "].");
}

Value root_meshes(const State& state, const Given&) {
    auto meshes = std::vector<DeviceMesh>{};
    for (const auto& root : roots(Access::given(state)))
        meshes.push_back(Access::device_mesh(state, root.name));
    return meshes;
}

/// A sequence's length is a multiple of tp, and of twice cp, whose load balancing halves it.
Value seq_len_divisor(const State& state, const Given&) {
    const auto& given = Access::given(state);
    const auto divisor = std::int64_t{given.number("tp")} * given.number("cp") * 2;
    refuse_if(divisor > Mesh::max_size, Fault::sizes, divisor, " is too large");
    return static_cast<int>(divisor);
}

/// The kind of the groups along a name.
std::string kind_of(const Given& given, const Given& options) {
    if (options.is_none("dim")) return "*";
    const auto& dim = options.word("dim");
    if (dim == "efsdp" && given.number("ep") == 1 && given.number("efsdp") > 1)
        throw Refusal(Fault::not_member, "fake-group",
                      "the group along efsdp is fake in torchtitan where ep is 1: its ",
                      given.number("efsdp"), " ranks would exchange nothing; ask for dp_shard, cp or tp");
    if (!is_enabled(given, dim)) throw not_available(dim);
    return dim;
}

/// A mesh, or for words several meshes.
AccessorRow gives(const char* name, const char* doc, decltype(AccessorRow::code) code,
                  std::vector<Setting> options = {}, Type type = Type::number) {
    auto row = computed(name, type, code, doc, std::move(options), Quantity::device_mesh);
    row.called = true;
    return row;
}
std::vector<AccessorRow> accessors() {
    using enum Quantity;
    const auto dims = required("dims", Type::names), axes = required("axes", Type::words);
    auto rows = std::vector{
        said("dp_enabled", "True for several replicas or shards.", Type::flag, "dp > 1"),
        said("dp_cp_enabled", "True where dp or cp is.", Type::flag, "loss > 1"),
        said("fsdp_enabled", "True where dp_shard or cp is.", Type::flag, "fsdp > 1"),
        said("non_data_parallel_size", "The ranks of one replica's shard: cp times tp times pp."),
        computed("seq_len_divisor", Type::number, seq_len_divisor,
                 "What a sequence's length is a multiple of."),
        computed("world_mesh", Type::number, world_mesh, "All ranks along one axis, `world`.", {},
                 device_mesh),
        gives("get_optional_mesh",
              "The mesh along one name, or along several of one mesh; None where one of them is not "
              "enabled.",
              get_optional_mesh,
              {dims, {.name = "include_singleton_axes", .type = Type::flag, .apart = true}}),
        gives("get_mesh", "The mesh along these names, as get_optional_mesh; ValueError where there is none.",
              get_mesh, {dims}),
        gives("spmd_meshes", "The meshes of dense layers and of experts along what is enabled of them.",
              spmd_meshes, {}, Type::words),
        gives("spmd_dense_mesh", "The mesh of dp, cp and tp under spmd_types.", spmd_dense_mesh),
        gives("spmd_sparse_mesh",
              "The mesh of dp_replicate, efsdp and ep where experts are parallel under spmd_types.",
              spmd_sparse_mesh),
        gives("get_dense_tp_mesh", "The tp of the dense mesh.", get_dense_tp_mesh),
        gives("get_activated_mesh",
              "The mesh along those of these axes that exist and are enabled; None where none is.",
              get_activated_mesh, {axes}),
        gives("resolve_mesh",
              "The same along those of dp, cp, tp and ep, or of tp and ep under partial_dtensor.\n\nUnder "
              "full_dtensor dp is dp_replicate and dp_shard, and a mesh that is none of spmd_meshes() a "
              "ValueError.",
              resolve_mesh, {axes}),
        said("_mesh_dim_names", "The names along which meshes are built.", Type::words, "names"),
        gives("_roots", "The meshes that all others are parts of.", root_meshes, {}, Type::words),
        chosen("_get_group", group, kind_of, "The ranks along a name that is enabled, or all ranks.",
               {{"dim", Type::maybe_word}})};
    for (auto& row : rows)
        if (holds(words_of("get_optional_mesh spmd_sparse_mesh get_activated_mesh resolve_mesh"), row.name))
            row.without = Value();
    add_enabled(rows, "dp_replicate dp_shard cp tp pp ep");
    return rows;
}

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
    given.derive("names", known_names<std::string>(named(given)));
}

void check_flags(const Given& given) {
    const auto ep = given.number("ep"), etp = given.number(experts_tp), tp = given.number("tp");
    const auto region = given.number("dp_shard") * given.number("cp") * tp;
    if (ep > 1 && ((etp != tp && etp != 1) || region % (std::int64_t{ep} * etp) != 0))
        throw UsageError(cat("expert_parallel_degree is ", ep, " and ", experts_tp, " ", etp,
                             "; the second is 1 or the tensor parallel degree ", tp,
                             ", and their product divides dp_shard * cp * tp, which is ", region));
}

/// Adds the meshes that ParallelDims builds, and the groups along each name that is enabled.
void extend(const Given& given, std::vector<MeshRow>& meshes, Kinds& kinds) {
    const auto region = given.number("dp_shard") * given.number("cp") * given.number("tp");
    const auto ep = given.number("ep"), of_experts = ep > 1 ? ep * given.number(experts_tp) : 1;
    refuse_if(of_experts < 1 || region % of_experts != 0, Fault::exclusive, "expert_parallel_degree (",
              of_experts, ") must divide dp_shard * cp * tp (", region, ")");
    for (auto& root : roots(given)) meshes.push_back(std::move(root));
    for (const auto& [name, root] : named(given))
        if (is_enabled(given, name))
            kinds.add({std::string(name), cat(root, ": * | ", name == "loss" ? "batch cp" : name)});
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
    for (const auto& name : std::get<Names>(given.value("names")))
        all.push_back({cat("get_mesh(\"", name, "\")"), "get_mesh", {{"dims", name}}});
    return all;
}

Framework framework() {
    return {
        .name = "torchtitan",
        .version = "0.3.0",
        .original = "torchtitan.distributed.parallel_dims",
        .title = "torchtitan's degrees of parallelism, and the meshes that they build.",
        .settings_of =
            "[parallelism] of its TOML: data_parallel_shard_degree and so on; may need the world's size",
        .example = "tensor_parallel_degree=2 data_parallel_shard_degree=4",
        .settings = {{.name = "dp_replicate",
                      .axis = "dp_replicate",
                      .flag = "data_parallel_replicate_degree"},
                     {.name = "dp_shard", .otherwise = -1, .flag = "data_parallel_shard_degree"},
                     {.name = "cp", .axis = "cp", .flag = "context_parallel_degree"},
                     {.name = "tp", .axis = "tp", .flag = "tensor_parallel_degree"},
                     {.name = "pp", .axis = "pp", .flag = "pipeline_parallel_degree"},
                     {.name = "ep", .flag = "expert_parallel_degree"},
                     configured(experts_tp, Type::number),
                     {"spmd_backend", Type::word, {}, "spmd_types"},
                     configured("pipeline_parallel_schedule", Type::maybe_word, "", "pipeline schedule"),
                     configured("pipeline_parallel_layers_per_stage", Type::maybe_number, "",
                                "layers of a virtual stage"),
                     configured("pipeline_parallel_first_stage_less_layers", Type::number, "",
                                "fewer layers of the first stage"),
                     configured("pipeline_parallel_last_stage_less_layers", Type::number, "",
                                "fewer layers of the last stage")},
        .meshes = {{"ranks", "pp dp_replicate dp_shard cp tp"}, {"world", "world"}},
        .kinds = {},
        .accessors = accessors(),
        .check_first = check_first,
        .check = check,
        .check_flags = check_flags,
        .extend = extend,
        .why = {{"ep, edp", "torchtitan's experts are runs of dp_shard, cp and tp"},
                {"etp", "torchtitan 0.3.0 has no tensor parallelism of experts; give etp=1"},
                {"virtual pipeline stages, fewer layers of the first stage, fewer layers of the last stage",
                 "not written; set pipeline_parallel_schedule = \"Interleaved1F1B\" and "
                 "pipeline_parallel_layers_per_stage = N, the layers of a stage"}},
        .experts = experts,
        .write = write,
        .ranks = ranks,
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

}  // namespace rankmesh::frameworks::of_torchtitan
