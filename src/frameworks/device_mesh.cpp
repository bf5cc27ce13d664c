// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/frameworks/device_mesh.hpp>

#include <mutex>

#include "frameworks/names.hpp"

namespace rankmesh::frameworks {

namespace {

int first(AxisSet axes) { return std::countr_zero(axes.bits()); }
int last(AxisSet axes) { return 31 - std::countl_zero(axes.bits()); }

/// Those of these axes that have several ranks.
AxisSet shared(const Mesh& mesh, AxisSet axes) {
    auto several = AxisSet{};
    for (int a = 0; a < mesh.axis_count(); ++a)
        if (axes.contains(AxisId{a}) && mesh.size(AxisId{a}) > 1) several.insert(AxisId{a});
    return several;
}

void check_shape(std::span<const int> shape, int world_size) {
    auto ranks = std::int64_t{1};
    for (auto size : shape) {
        if (size < 1)
            throw Error(Fault::sizes, "invalid shape dimension ", size, " in ", joined(shape, " x "),
                        "; sizes are 1 or more");
        // Beyond a world there is no larger number that matters, and no overflow.
        if (ranks <= Mesh::max_size) ranks *= size;
    }
    refuse_if(ranks > world_size, Fault::sizes, "Mesh should not be bigger than default world size ",
              world_size, ", but found ", ranks, " ranks!");
    if (ranks < world_size)
        throw Refusal(Fault::sizes, "ranks-left-out", "a mesh of ", joined(shape, " x "), " leaves ranks ",
                      ranks, "..", world_size - 1, " of a world of ", world_size,
                      " out; its sizes must multiply to the world's");
}

}  // namespace

struct DeviceMesh::Root {
    Root(const Mesh& mesh, bool named, int rank, std::vector<Dim> dims)
        : mesh(mesh), named(named), rank(rank), dims(std::move(dims)) {}

    const Mesh mesh;
    const bool named;
    const int rank;
    const std::vector<Dim> dims;
    std::mutex guard;
    std::vector<Dim> flattened;

    std::vector<Dim> names_so_far() {
        const auto lock = std::lock_guard(guard);
        return flattened;
    }
};

std::string to_string(std::span<const std::string> names) {
    return names.empty() ? "()" : cat("('", joined(names, "', '"), names.size() == 1 ? "',)" : "')");
}

DeviceMesh init_device_mesh(std::span<const int> shape, const DimNames& mesh_dim_names, int rank,
                            int world_size) {
    if (mesh_dim_names && mesh_dim_names->size() != shape.size())
        throw Error(Fault::argument, "mesh_shape and mesh_dim_names should have same length! There are ",
                    shape.size(), " sizes and ", mesh_dim_names->size(), " names");
    refuse_if(shape.empty(), Fault::missing, "a mesh of no dimensions was asked for; give one or more");
    check_shape(shape, world_size);
    check_rank(rank, world_size);
    auto dims = std::vector<DeviceMesh::Dim>{};
    for (int i = 0; i < static_cast<int>(shape.size()); ++i) {
        const auto name = mesh_dim_names ? (*mesh_dim_names)[static_cast<std::size_t>(i)] : cat("dim_", i);
        for (const auto& other : dims)
            refuse_if(other.name == name, Fault::argument, "Each mesh_dim_name must be unique. '", name,
                      "' is listed twice");
        dims.push_back({name, {}});
        dims.back().axes.insert(AxisId{i});
    }
    auto axes = std::vector<Axis>{};
    for (std::size_t i = 0; i < shape.size(); ++i) axes.push_back({dims[i].name, shape[i]});
    auto root = std::make_shared<DeviceMesh::Root>(Mesh(axes), mesh_dim_names.has_value(), rank, dims);
    return {std::move(root), std::move(dims)};
}

DimNames DeviceMesh::mesh_dim_names() const {
    if (!root_->named || dims_.empty()) return std::nullopt;
    return known_names<std::string>(dims_);
}

std::vector<int> DeviceMesh::shape() const {
    auto sizes = std::vector<int>{};
    for (const auto& dim : dims_) sizes.push_back(root_->mesh.group(root_->rank, dim.axes).size());
    return sizes;
}

Group DeviceMesh::mesh() const {
    auto all = AxisSet{};
    for (const auto& dim : dims_)
        for (int a = 0; a < root_->mesh.axis_count(); ++a)
            if (dim.axes.contains(AxisId{a})) all.insert(AxisId{a});
    return root_->mesh.group(root_->rank, all);
}

int DeviceMesh::get_rank() const { return root_->rank; }
const Mesh& DeviceMesh::root() const { return root_->mesh; }

std::optional<std::vector<int>> DeviceMesh::get_coordinate() const {
    if (dims_.empty()) return std::nullopt;
    auto indices = std::vector<int>{};
    for (const auto& dim : dims_)
        indices.push_back(*root_->mesh.group(root_->rank, dim.axes).group_rank(root_->rank));
    return indices;
}

std::vector<std::pair<std::string, AxisSet>> DeviceMesh::flattened() const {
    auto names = std::vector<std::pair<std::string, AxisSet>>{};
    for (const auto& dim : root_->names_so_far()) names.emplace_back(dim.name, dim.axes);
    return names;
}

std::vector<DeviceMesh::Dim> DeviceMesh::resolve(std::span<const std::string> names,
                                                 const std::vector<Dim>& known) const {
    auto found = std::vector<Dim>{};
    auto before = -1;
    for (const auto& name : names) {
        const auto dim = std::ranges::find(known, name, &Dim::name);
        if (dim == known.end())
            throw Error(Fault::unknown, "Invalid mesh_dim_names ", to_string(names),
                        " specified. Valid mesh_dim_names are ", to_string(known_names<std::string>(known)));
        found.push_back(*dim);
        const auto axes = shared(root_->mesh, dim->axes);
        if (axes.empty()) continue;
        if (first(axes) <= before)
            throw Error(Fault::argument, "Invalid mesh_dim_names ", to_string(names),
                        " specified. Mesh dim indices should be in ascending order");
        before = last(axes);
    }
    return found;
}

DeviceMesh DeviceMesh::operator[](const NameList& names) const {
    refuse_if(!root_->named || dims_.empty(), Fault::missing,
              "Cannot slice a DeviceMesh without mesh_dim_names!");
    auto known = dims_;
    if (dims_ == root_->dims)
        for (auto& dim : root_->names_so_far()) known.push_back(std::move(dim));
    return {root_, resolve(names.list(), known)};
}

AxisSet DeviceMesh::axes(std::optional<std::string_view> mesh_dim) const {
    if (!mesh_dim) {
        if (ndim() == 1) return dims_.front().axes;
        throw Error(Fault::missing, "Found the DeviceMesh have ", ndim(),
                    " dimensions; `mesh_dim` needs to be specified when "
                    "device_mesh.ndim is not 1");
    }
    for (const auto& dim : root_->names_so_far())
        if (dim.name == *mesh_dim) return dim.axes;
    for (const auto& dim : dims_)
        if (root_->named && dim.name == *mesh_dim) return dim.axes;
    throw Error(Fault::unknown, "Mesh dimension '", *mesh_dim,
                "' does not exist. Available mesh dimensions are: ",
                to_string(mesh_dim_names().value_or(std::vector<std::string>{})));
}

Group DeviceMesh::get_group(std::optional<std::string_view> mesh_dim) const {
    return root_->mesh.group(root_->rank, axes(mesh_dim));
}

int DeviceMesh::get_local_rank(std::optional<std::string_view> mesh_dim) const {
    return *get_group(mesh_dim).group_rank(root_->rank);
}

DeviceMesh DeviceMesh::flatten(std::string_view given, std::span<const std::string> then) const {
    const auto names = mesh_dim_names();
    refuse_if(!names, Fault::missing, "a mesh without dimension names cannot be flattened");
    auto flat = Dim{std::string(given), {}};
    for (const auto& dim : dims_) {
        refuse_if(std::ranges::find(root_->dims, dim) == root_->dims.end(), Fault::unknown, "'", dim.name,
                  "' is flattened already, and no dimension of the root");
        if (given.empty()) flat.name += (flat.name.empty() ? "" : "_") + dim.name;
        flat.axes.insert(AxisId{first(dim.axes)});
    }
    const auto lock = std::lock_guard(root_->guard);
    auto all = root_->flattened;
    auto known = root_->dims;
    known.insert(known.end(), all.begin(), all.end());
    const auto taken = std::ranges::find(known, flat.name, &Dim::name);
    if (taken != known.end() && *taken != flat)
        throw Error(Fault::exists, flat.name, " already exists for submesh of the mesh with dimensions ",
                    to_string(*names), ". Please specify another valid mesh_dim_name.");
    if (taken == known.end()) {
        all.push_back(flat);
        known.push_back(flat);
    }
    resolve(then, known);
    root_->flattened = std::move(all);
    return {root_, {flat}};
}

}  // namespace rankmesh::frameworks
