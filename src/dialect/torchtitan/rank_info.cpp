// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/torchtitan/rank_info.hpp>

#include <algorithm>

#include <rankmesh/dialect/error.hpp>

namespace rankmesh::torchtitan {

using detail::cat;
using dialect::Error;
using dialect::Fault;

namespace {

constexpr auto spmd_dense = "spmd_dense_for_fwdbwd", spmd_sparse = "spmd_sparse_for_fwdbwd";

/// `['dp', 'tp']`.
std::string listed(std::span<const std::string> names) {
    auto text = std::string("[");
    for (const auto& name : names) text += cat(text.size() == 1 ? "'" : ", '", name, "'");
    return text + "]";
}

const DeviceMesh* find(const Meshes& meshes, std::string_view name) {
    for (const auto& [known, mesh] : meshes)
        if (known == name) return &mesh;
    return nullptr;
}

/// True if the mesh has all these dimensions.
bool has(const DeviceMesh& mesh, std::span<const std::string> dims) {
    const auto known = mesh.mesh_dim_names().value_or(AxisNames{});
    return std::ranges::all_of(
        dims, [&](const std::string& dim) { return std::ranges::find(known, dim) != known.end(); });
}

/// The axes of dense layers that layouts are resolved along.
AxisNames spmd_dense_axes(SpmdBackend backend) {
    switch (backend) {
        case SpmdBackend::partial_dtensor:
            return {"dp_replicate", "fsdp", "tp"};
        case SpmdBackend::full_dtensor:
            return {"dp_replicate", "dp_shard", "cp", "tp"};
        case SpmdBackend::spmd_types:
            break;
    }
    return {"dp", "cp", "tp"};
}

[[noreturn]] void throw_unavailable(std::string_view dims, std::string_view enabled) {
    throw Error(Fault::missing,
                cat("Mesh '", dims, "' is not available. Ensure the corresponding parallelism dimension is ",
                    enabled, "."));
}

}  // namespace

RankInfo::RankInfo(const ParallelDims& dims, int rank)
    : dims_(dims),
      world_mesh_(dialect::init_device_mesh({dims.world_size}, {{"world"}}, rank, dims.world_size)) {
    const auto& d = dims_;
    const auto unflatten = [&](const AxisNames& names, std::initializer_list<int> degrees) {
        return dialect::init_device_mesh(degrees, names, rank, d.world_size);
    };
    const auto batch = d.dp_replicate * d.dp_shard;
    const auto fsdp = d.dp_shard * d.cp;
    const auto spmd = d.spmd_backend == SpmdBackend::spmd_types;
    const auto folded = d.spmd_backend == SpmdBackend::partial_dtensor;
    const auto dataloading = unflatten({"pp", "batch", "cp", "tp"}, {d.pp, batch, d.cp, d.tp});
    const auto loss = dataloading[{"batch", "cp"}].flatten("loss_mesh");
    const auto dense =
        folded ? unflatten({"pp", "dp_replicate", "fsdp", "tp"}, {d.pp, d.dp_replicate, fsdp, d.tp})
               : unflatten({"pp", "dp_replicate", "dp_shard", "cp", "tp"},
                           {d.pp, d.dp_replicate, d.dp_shard, d.cp, d.tp});
    const auto sparse =
        unflatten({"pp", "dp_replicate", "efsdp", "ep"}, {d.pp, d.dp_replicate, fsdp * d.tp / d.ep, d.ep});

    roots_ = {{"dataloading", dataloading}, {"dense", dense}, {"sparse", sparse}};
    global_meshes_ = roots_;
    for (const auto& [name, mesh] : Meshes{{"pp", dataloading},
                                           {"batch", dataloading},
                                           {"loss", loss},
                                           {"dp_replicate", dense},
                                           {"cp", dataloading},
                                           {"tp", dataloading},
                                           {"ep", sparse},
                                           {"efsdp", sparse}})
        single_axis_meshes_.emplace_back(name, name == "loss" ? mesh : mesh[name]);
    if (spmd) {
        const auto full = unflatten({"pp", "dp", "cp", "tp"}, {d.pp, batch, d.cp, d.tp});
        roots_.emplace_back(spmd_dense, full);
        global_meshes_.emplace_back(spmd_dense, full[{"dp", "cp", "tp"}]);
        single_axis_meshes_.emplace_back("dp", full["dp"]);
    }
    const auto* const shards = folded ? "fsdp" : "dp_shard";
    single_axis_meshes_.emplace_back(shards, dense[shards]);
    if (spmd && d.ep > 1) global_meshes_.emplace_back(spmd_sparse, sparse[{"dp_replicate", "efsdp", "ep"}]);
}

bool RankInfo::mesh_exists(std::string_view name, int degree) const {
    if (name == "fsdp" || name == "dp_shard") return true;
    return name == "efsdp" ? dims_.ep > 1 : degree > 1;
}

std::optional<DeviceMesh> RankInfo::get_optional_mesh(std::string_view dim,
                                                      bool include_singleton_axes) const {
    return get_optional_mesh({dim}, include_singleton_axes);
}

std::optional<DeviceMesh> RankInfo::get_optional_mesh(std::span<const std::string> dims,
                                                      bool include_singleton_axes) const {
    auto all_exist = true;
    for (const auto& dim : dims) {
        const auto* mesh = find(single_axis_meshes_, dim);
        if (!mesh)
            throw Error(Fault::unknown, cat("Invalid mesh dim: '", dim,
                                            "'. Valid dimensions are: ", listed(mesh_dim_names())));
        all_exist = all_exist && mesh_exists(dim, mesh->size());
    }
    if (!include_singleton_axes && !all_exist) return std::nullopt;
    if (dims.size() == 1) return *find(single_axis_meshes_, dims.front());
    const auto found =
        std::ranges::find_if(global_meshes_, [&](const auto& named) { return has(named.second, dims); });
    if (found == global_meshes_.end())
        throw Error(Fault::exclusive, cat("Invalid mesh name combinations ", listed(dims), "."));
    return found->second[dims];
}

DeviceMesh RankInfo::get_mesh(std::string_view dim) const {
    if (auto mesh = get_optional_mesh(dim)) return *mesh;
    throw_unavailable(dim, "enabled (size > 1)");
}

DeviceMesh RankInfo::get_mesh(std::span<const std::string> dims) const {
    if (auto mesh = get_optional_mesh(dims)) return *mesh;
    throw_unavailable(listed(dims), "all enabled");
}

AxisNames RankInfo::mesh_dim_names() const {
    auto names = AxisNames{};
    for (const auto& [name, mesh] : single_axis_meshes_) names.push_back(name);
    return names;
}

Meshes RankInfo::get_all_one_dimensional_meshes() const {
    auto meshes = Meshes{};
    for (const auto& [name, mesh] : single_axis_meshes_)
        if (mesh.size() > 1 && mesh_exists(name, mesh.size())) meshes.emplace_back(name, mesh);
    return meshes;
}

std::vector<DeviceMesh> RankInfo::spmd_meshes() const {
    auto meshes = std::vector<DeviceMesh>{};
    for (const auto& axes : {spmd_dense_axes(dims_.spmd_backend), AxisNames{"dp_replicate", "efsdp", "ep"}})
        if (auto mesh = get_activated_mesh(axes)) meshes.push_back(std::move(*mesh));
    return meshes;
}

DeviceMesh RankInfo::spmd_dense_mesh() const {
    if (const auto* mesh = find(global_meshes_, spmd_dense)) return *mesh;
    throw Error(Fault::not_initialised, cat("there is no mesh '", spmd_dense, "' with the backend ",
                                            to_string(dims_.spmd_backend), "; it is there with spmd_types"));
}

std::optional<DeviceMesh> RankInfo::spmd_sparse_mesh() const {
    const auto* mesh = find(global_meshes_, spmd_sparse);
    return mesh ? std::optional(*mesh) : std::nullopt;
}

DeviceMesh RankInfo::get_dense_tp_mesh() const {
    switch (dims_.spmd_backend) {
        case SpmdBackend::spmd_types:
            return spmd_dense_mesh()["tp"];
        case SpmdBackend::full_dtensor:
            return spmd_meshes().front()["tp"];
        case SpmdBackend::partial_dtensor:
            break;
    }
    return get_mesh("tp");
}

std::optional<DeviceMesh> RankInfo::get_activated_mesh(std::span<const std::string> axes) const {
    auto enabled = AxisNames{};
    for (const auto& axis : axes)
        if (const auto* mesh = find(single_axis_meshes_, axis); mesh && mesh_exists(axis, mesh->size()))
            enabled.push_back(axis);
    return enabled.empty() ? std::nullopt : get_optional_mesh(enabled);
}

std::optional<DeviceMesh> RankInfo::resolve_mesh(std::span<const std::string> axes) const {
    if (dims_.spmd_backend == SpmdBackend::full_dtensor) return resolve_full_mesh(unfold_dp_axes(axes));
    const auto in_band = dims_.spmd_backend == SpmdBackend::spmd_types ? AxisNames{"dp", "cp", "tp", "ep"}
                                                                       : AxisNames{"tp", "ep"};
    auto kept = AxisNames{};
    for (const auto& axis : axes)
        if (std::ranges::find(in_band, axis) != in_band.end()) kept.push_back(axis);
    return get_activated_mesh(kept);
}

std::optional<DeviceMesh> RankInfo::resolve_full_mesh(std::span<const std::string> axes) const {
    auto mesh = get_activated_mesh(axes);
    if (!mesh) return std::nullopt;
    const auto names = mesh->mesh_dim_names().value_or(AxisNames{});
    auto valid = std::string{};
    for (const auto& known : spmd_meshes()) {
        const auto valid_names = known.mesh_dim_names().value_or(AxisNames{});
        if (valid_names == names) return mesh;  // equal names are of equal meshes here
        valid += cat(valid.empty() ? "" : ", ", listed(valid_names));
    }
    throw Error(Fault::argument, cat("Resolved mesh ", listed(names),
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
        throw Error(Fault::argument,
                    cat("Inconsistent mesh axes within a boundary: ", listed(first), " vs ", listed(other)));
    }
    return shared ? resolve_mesh(*shared) : std::nullopt;
}

}  // namespace rankmesh::torchtitan
