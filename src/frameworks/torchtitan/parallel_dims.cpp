// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/torchtitan/process_groups.hpp>

#include <algorithm>
#include <array>

#include <rankmesh/dialect/error.hpp>
#include <rankmesh/dialect/member.hpp>

#include "dialect/mesh_groups.hpp"
#include "dialect/names.hpp"

namespace rankmesh::torchtitan {

using detail::cat;
using dialect::Error;
using dialect::Fault;
using dialect::holds;
using dialect::list_of;

namespace {

constexpr auto backends = std::array<std::string_view, 3>{"partial_dtensor", "full_dtensor", "spmd_types"};

/// The product of sizes of 1 or more, or a number above every world.
std::int64_t product(std::initializer_list<int> sizes) {
    auto ranks = std::int64_t{1};
    for (const auto size : sizes) ranks = std::min(ranks * size, std::int64_t{Mesh::max_size} + 1);
    return ranks;
}

constexpr auto spmd_dense = "spmd_dense_for_fwdbwd", spmd_sparse = "spmd_sparse_for_fwdbwd";

const DeviceMesh* find(const Meshes& meshes, std::string_view name) {
    const auto found = std::ranges::find(meshes, name, &Meshes::value_type::first);
    return found == meshes.end() ? nullptr : &found->second;
}

AxisNames names_of(const DeviceMesh& mesh) { return mesh.mesh_dim_names().value_or(AxisNames{}); }

/// The axes of the mesh of dense layers.
AxisNames dense_axes(SpmdBackend backend) {
    if (backend == SpmdBackend::partial_dtensor) return {"dp_replicate", "fsdp", "tp"};
    if (backend == SpmdBackend::full_dtensor) return {"dp_replicate", "dp_shard", "cp", "tp"};
    return {"dp", "cp", "tp"};
}

const auto sparse_axes = AxisNames{"dp_replicate", "efsdp", "ep"};

constexpr auto joined_with = "torchtitan::plan(dims)";

/// True where the group along efsdp is fake though it has several ranks: all where experts are not parallel.
bool has_fake(const Mesh& root, const ParallelDims& dims) {
    return dims.ep == 1 && root.find("efsdp") && root.size("efsdp") > 1;
}

}  // namespace

std::vector<std::string> unfold_dp_axis(std::string_view axis) {
    using Name = MeshAxisName;
    if (axis == Name::dp) return {std::string(Name::dp_replicate), std::string(Name::dp_shard)};
    for (const auto name : {Name::dp_replicate, Name::dp_shard, Name::fsdp, Name::tp, Name::cp, Name::pp,
                            Name::ep, Name::efsdp})
        if (name == axis) return {std::string(axis)};
    throw Error(Fault::unknown, cat("'", axis, "' is not a valid MeshAxisName"));
}

std::vector<std::string> unfold_dp_axes(std::span<const std::string> axes) {
    auto unfolded = std::vector<std::string>{};
    for (const auto& axis : axes)
        for (auto& name : unfold_dp_axis(axis)) unfolded.push_back(std::move(name));
    return unfolded;
}

std::string_view to_string(SpmdBackend backend) { return backends[static_cast<std::size_t>(backend)]; }

SpmdBackend spmd_backend(std::string_view name) {
    const auto found = std::ranges::find(backends, name);
    if (found == backends.end())
        throw Error(Fault::unknown,
                    "parallelism.spmd_backend must be one of 'partial_dtensor', 'full_dtensor', or "
                    "'spmd_types'.");
    return static_cast<SpmdBackend>(found - backends.begin());
}

ParallelDims::ParallelDims(const Degrees& degrees, int ranks, SpmdBackend backend)
    : Degrees(degrees), world_size(ranks), spmd_backend(backend) {
    if (std::min({dp_replicate, cp, tp, pp, ep}) < 1)
        throw Error(Fault::sizes, "Parallelism degree should be >= 1, except for dp_shard");
    if (dp_shard != -1 && dp_shard < 1) throw Error(Fault::sizes, "dp_shard must -1 or >=1.");
    if (dp_shard == -1) dp_shard = static_cast<int>(world_size / product({dp_replicate, cp, tp, pp}));
    // Where that is 0 the original says nothing but that it is.
    if (dp_shard < 1 || product({dp_replicate, dp_shard, cp, tp, pp}) != world_size)
        throw Error(Fault::sizes,
                    cat("Invalid parallel dims: dp_replicate(", dp_replicate, ") * dp_shard(", dp_shard,
                        ") * cp(", cp, ") * tp(", tp, ") * pp(", pp, ") != WORLD_SIZE(", world_size, ")"));
    const auto sparse_region = dp_shard * cp * tp;
    if (sparse_region % ep != 0)
        throw Error(Fault::exclusive, cat("expert_parallel_degree (", ep,
                                          ") must divide dp_shard * cp * tp (", sparse_region, ")"));
}

ParallelDims ParallelDims::from_config(const ParallelismConfig& config, int world_size) {
    return {{.dp_replicate = config.data_parallel_replicate_degree,
             .dp_shard = config.data_parallel_shard_degree,
             .cp = config.context_parallel_degree,
             .tp = config.tensor_parallel_degree,
             .pp = config.pipeline_parallel_degree,
             .ep = config.expert_parallel_degree},
            world_size,
            config.spmd_backend};
}

RankInfo::RankInfo(const ParallelDims& dims, int rank)
    : ParallelDims(dims),
      world_mesh_(dialect::init_device_mesh({world_size}, {{"world"}}, rank, world_size)) {
    const auto root = [&](std::string_view name, const AxisNames& axes, std::initializer_list<int> degrees) {
        return roots_.emplace_back(name, dialect::init_device_mesh(degrees, axes, rank, world_size)).second;
    };
    const auto batch = dp_replicate * dp_shard, fsdp = dp_shard * cp;
    const auto spmd = spmd_backend == SpmdBackend::spmd_types;
    const auto folded = spmd_backend == SpmdBackend::partial_dtensor;
    const auto dataloading = root("dataloading", {"pp", "batch", "cp", "tp"}, {pp, batch, cp, tp});
    const auto dense = folded
                           ? root("dense", {"pp", "dp_replicate", "fsdp", "tp"}, {pp, dp_replicate, fsdp, tp})
                           : root("dense", {"pp", "dp_replicate", "dp_shard", "cp", "tp"},
                                  {pp, dp_replicate, dp_shard, cp, tp});
    const auto sparse =
        root("sparse", {"pp", "dp_replicate", "efsdp", "ep"}, {pp, dp_replicate, fsdp * tp / ep, ep});
    global_meshes_ = roots_;

    const auto along = [&](const DeviceMesh& mesh, std::string_view name) {
        single_axis_meshes_.emplace_back(name, mesh[name]);
    };
    along(dataloading, "pp");
    along(dataloading, "batch");
    single_axis_meshes_.emplace_back("loss", dataloading[{"batch", "cp"}].flatten("loss_mesh"));
    along(dense, "dp_replicate");
    for (const auto* name : {"cp", "tp"}) along(dataloading, name);
    for (const auto* name : {"ep", "efsdp"}) along(sparse, name);
    if (spmd) {
        const auto whole = root(spmd_dense, {"pp", "dp", "cp", "tp"}, {pp, batch, cp, tp});
        global_meshes_.emplace_back(spmd_dense, whole[dense_axes(spmd_backend)]);
        along(whole, "dp");
    }
    along(dense, folded ? "fsdp" : "dp_shard");
    if (spmd && ep > 1) global_meshes_.emplace_back(spmd_sparse, sparse[sparse_axes]);
}

/// True for a name along which there is a mesh that is enabled.
bool RankInfo::is_enabled(std::string_view name) const {
    if (name == "efsdp") return ep > 1;
    const auto* mesh = find(single_axis_meshes_, name);
    return mesh && (mesh->size() > 1 || name == "fsdp" || name == "dp_shard");
}

std::optional<DeviceMesh> RankInfo::get_optional_mesh(const NameList& names,
                                                      bool include_singleton_axes) const {
    const auto& dims = names.list();
    for (const auto& dim : dims)
        if (!find(single_axis_meshes_, dim))
            throw Error(Fault::unknown, cat("Invalid mesh dim: '", dim,
                                            "'. Valid dimensions are: ", list_of(mesh_dim_names())));
    if (!include_singleton_axes &&
        !std::ranges::all_of(dims, [&](const auto& dim) { return is_enabled(dim); }))
        return std::nullopt;
    if (dims.size() == 1) return *find(single_axis_meshes_, dims.front());
    for (const auto& [name, mesh] : global_meshes_) {
        const auto known = names_of(mesh);
        if (std::ranges::all_of(dims, [&](const auto& dim) { return holds(known, dim); })) return mesh[dims];
    }
    throw Error(Fault::exclusive, cat("Invalid mesh name combinations ", list_of(dims), "."));
}

DeviceMesh RankInfo::get_mesh(const NameList& dims) const {
    if (auto mesh = get_optional_mesh(dims)) return *mesh;
    throw Error(Fault::missing, cat("Mesh '", dims.is_one() ? dims.list().front() : list_of(dims.list()),
                                    "' is not available. Ensure the corresponding parallelism dimension is ",
                                    dims.is_one() ? "enabled (size > 1)." : "all enabled."));
}

AxisNames RankInfo::mesh_dim_names() const {
    auto names = AxisNames{};
    for (const auto& [name, mesh] : single_axis_meshes_) names.push_back(name);
    return names;
}

Meshes RankInfo::get_all_one_dimensional_meshes() const {
    auto meshes = single_axis_meshes_;
    std::erase_if(meshes,
                  [&](const auto& named) { return named.second.size() == 1 || !is_enabled(named.first); });
    return meshes;
}

std::vector<DeviceMesh> RankInfo::spmd_meshes() const {
    auto meshes = std::vector<DeviceMesh>{};
    for (const auto& axes : {dense_axes(spmd_backend), sparse_axes})
        if (auto mesh = get_activated_mesh(axes)) meshes.push_back(std::move(*mesh));
    return meshes;
}

DeviceMesh RankInfo::spmd_dense_mesh() const {
    if (const auto* mesh = find(global_meshes_, spmd_dense)) return *mesh;
    throw Error(Fault::not_initialised, cat("there is no mesh '", spmd_dense, "' with the backend ",
                                            to_string(spmd_backend), "; it is there with spmd_types"));
}

std::optional<DeviceMesh> RankInfo::spmd_sparse_mesh() const {
    const auto* mesh = find(global_meshes_, spmd_sparse);
    return mesh ? std::optional(*mesh) : std::nullopt;
}

DeviceMesh RankInfo::get_dense_tp_mesh() const {
    if (spmd_backend == SpmdBackend::spmd_types) return spmd_dense_mesh()["tp"];
    return spmd_backend == SpmdBackend::full_dtensor ? spmd_meshes().front()["tp"] : get_mesh("tp");
}

std::optional<DeviceMesh> RankInfo::get_activated_mesh(const NameList& axes) const {
    auto enabled = axes.list();
    std::erase_if(enabled, [&](const auto& axis) { return !is_enabled(axis); });
    return enabled.empty() ? std::nullopt : get_optional_mesh(enabled);
}

std::optional<DeviceMesh> RankInfo::resolve_mesh(const NameList& axes) const {
    if (spmd_backend == SpmdBackend::full_dtensor) {
        auto mesh = get_activated_mesh(unfold_dp_axes(axes.list()));
        if (mesh) check_is_spmd(names_of(*mesh));
        return mesh;
    }
    const auto with_data = spmd_backend == SpmdBackend::spmd_types;
    auto kept = axes.list();
    std::erase_if(kept, [&](const auto& axis) {
        return axis != "tp" && axis != "ep" && !(with_data && (axis == "dp" || axis == "cp"));
    });
    return get_activated_mesh(kept);
}

/// Throws Error for names that no SPMD mesh has; equal names are of equal meshes.
void RankInfo::check_is_spmd(const AxisNames& names) const {
    auto valid = std::string{};
    for (const auto& known : spmd_meshes()) {
        if (names_of(known) == names) return;
        valid += cat(valid.empty() ? "" : ", ", list_of(names_of(known)));
    }
    throw Error(Fault::argument, cat("Resolved mesh ", list_of(names),
                                     " does not match any SPMD mesh. Valid meshes: [", valid, "]."));
}

std::optional<DeviceMesh> RankInfo::resolve_shared_mesh(
    std::span<const std::optional<AxisNames>> placements) const {
    const AxisNames* shared = nullptr;
    for (const auto& axes : placements) {
        if (!axes) continue;
        if (!shared) shared = &*axes;
        if (*axes == *shared) continue;
        auto first = *shared, other = *axes;
        std::ranges::sort(first);
        std::ranges::sort(other);
        throw Error(Fault::argument, cat("Inconsistent mesh axes within a boundary: ", list_of(first), " vs ",
                                         list_of(other)));
    }
    return shared ? resolve_mesh(*shared) : std::nullopt;
}

Plan plan(const ParallelDims& dims) {
    auto plan = Plan{{.name = "world"}};
    const auto info = RankInfo(dims, 0);
    for (const auto& [name, mesh] : info.roots()) {
        auto& made = plan.emplace_back(detail::declared(name, mesh));
        if (has_fake(mesh.root(), dims)) made.axes = {"pp", "dp_replicate", "ep"};
    }
    return plan;
}

ProcessGroups::ProcessGroups(const Member& member, const ParallelDims& dims) : RankInfo(dims, member.rank()) {
    auto meshes = roots();
    meshes.insert(meshes.begin(), {"world", world_mesh()});
    for (const auto& [name, mesh] : meshes) {
        const auto& root = mesh.root();
        const auto place = dialect::place(member, name, joined_with);
        dialect::check_mesh(place, root, joined_with);
        auto sets = detail::all_axes(mesh);
        if (has_fake(root, dims)) std::erase(sets, root.axes("efsdp"));
        groups_.emplace_back(root, detail::mesh_groups(place, sets, joined_with));
    }
}

Communicator& ProcessGroups::get_group(const DeviceMesh& mesh, std::optional<std::string_view> mesh_dim) {
    for (auto& [root, groups] : groups_) {
        if (root != mesh.root()) continue;
        if (auto* group = detail::find(groups, mesh, mesh_dim)) return *group;
        const auto names = detail::names_of(root, mesh.axes(mesh_dim));
        if (names == AxisNames{"efsdp"})
            throw dialect::Refusal(Fault::not_member, "fake-group",
                                   cat("the group along efsdp is fake in torchtitan where ep is 1: its ",
                                       mesh.get_group(mesh_dim).size(),
                                       " ranks would exchange nothing; ask for the mesh without "
                                       "include_singleton_axes"));
        throw Error(Fault::not_member, cat("there is no group over ", dialect::to_string(names),
                                           ", which ParallelDims does not flatten; declare one in the plan"));
    }
    throw Error(Fault::argument, cat("these are the groups of ", world_size, " ranks in meshes that ",
                                     to_string(mesh.root()), " is none of"));
}

}  // namespace rankmesh::torchtitan
