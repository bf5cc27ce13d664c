// SPDX-License-Identifier: Apache-2.0
// What torchtitan's ParallelDims answers: parts of several meshes over the same ranks, by name.
#include <algorithm>
#include <limits>

#include "frameworks/torchtitan/torchtitan.hpp"

namespace rankmesh::frameworks::of_torchtitan {

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
    if (const auto* one = std::get_if<std::string>(&value)) return {*one};
    return std::get<Names>(value);
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
    constexpr Name common[] = {{"pp", "dataloading"},     {"batch", "dataloading"}, {"loss", "dataloading"},
                               {"dp_replicate", "dense"}, {"cp", "dataloading"},    {"tp", "dataloading"},
                               {"ep", "sparse"},          {"efsdp", "sparse"}};
    auto all = std::vector<Name>(std::begin(common), std::end(common));
    if (is_spmd(given)) all.push_back({"dp", spmd_dense});
    all.push_back({is_folded(given) ? "fsdp" : "dp_shard", "dense"});
    return all;
}

Names names_of(const Given& given) {
    auto names = Names{};
    for (const auto& [name, root] : named(given)) names.emplace_back(name);
    return names;
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
    const auto known = named(given);
    for (const auto& dim : dims)
        if (std::ranges::find(known, dim, &Name::name) == known.end())
            throw Error(Fault::unknown, "Invalid mesh dim: '", dim,
                        "'. Valid dimensions are: ", list_of(names_of(given)));
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
Value mesh_dim_names(const State& state, const Given&) { return names_of(Access::given(state)); }

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
        if (axis == "dp") {
            all.insert(all.end(), {"dp_replicate", "dp_shard"});
            continue;
        }
        refuse_if(!holds(Names{"dp_replicate", "dp_shard", "fsdp", "tp", "cp", "pp", "ep", "efsdp"}, axis),
                  Fault::unknown, "'", axis, "' is not a valid MeshAxisName");
        all.push_back(axis);
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
    refuse_if(divisor > std::numeric_limits<int>::max(), Fault::sizes, divisor, " is too large");
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

using Code = decltype(AccessorRow::code);
/// A mesh, or for words several meshes.
AccessorRow gives(const char* name, const char* doc, Code code, std::vector<Setting> options = {},
                  Type type = Type::number) {
    auto row = computed(name, type, code, doc, std::move(options), Quantity::device_mesh);
    row.called = true;
    return row;
}
AccessorRow may_give(const char* name, const char* doc, Code code, std::vector<Setting> options = {}) {
    auto row = gives(name, doc, code, std::move(options));
    row.without = Value();
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
        may_give("get_optional_mesh",
                 "The mesh along one name, or along several of one mesh; None where one of them is not "
                 "enabled.",
                 get_optional_mesh,
                 {dims, {.name = "include_singleton_axes", .type = Type::flag, .apart = true}}),
        gives("get_mesh", "The mesh along these names, as get_optional_mesh; ValueError where there is none.",
              get_mesh, {dims}),
        gives("spmd_meshes", "The meshes of dense layers and of experts along what is enabled of them.",
              spmd_meshes, {}, Type::words),
        gives("spmd_dense_mesh", "The mesh of dp, cp and tp under spmd_types.", spmd_dense_mesh),
        may_give("spmd_sparse_mesh",
                 "The mesh of dp_replicate, efsdp and ep where experts are parallel under spmd_types.",
                 spmd_sparse_mesh),
        gives("get_dense_tp_mesh", "The tp of the dense mesh.", get_dense_tp_mesh),
        may_give("get_activated_mesh",
                 "The mesh along those of these axes that exist and are enabled; None where none is.",
                 get_activated_mesh, {axes}),
        may_give("resolve_mesh",
                 "The same along those of dp, cp, tp and ep, or of tp and ep under partial_dtensor.\n\nUnder "
                 "full_dtensor dp is dp_replicate and dp_shard, and a mesh that is none of spmd_meshes() a "
                 "ValueError.",
                 resolve_mesh, {axes}),
        computed("_mesh_dim_names", Type::words, mesh_dim_names, "The names along which meshes are built."),
        gives("_roots", "The meshes that all others are parts of.", root_meshes, {}, Type::words),
        chosen("_get_group", group, kind_of, "The ranks along a name that is enabled, or all ranks.",
               {{"dim", Type::maybe_word}})};
    add_enabled(rows, "dp_replicate dp_shard cp tp pp ep");
    return rows;
}

}  // namespace rankmesh::frameworks::of_torchtitan
