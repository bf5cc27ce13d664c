// SPDX-License-Identifier: Apache-2.0
// As much of torch's DeviceMesh as frameworks ask of it, by arithmetic.
#pragma once

#include <concepts>
#include <memory>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>

namespace rankmesh::frameworks {

/// Dimensions by name; nothing for a mesh without names.
using DimNames = std::optional<std::vector<std::string>>;

/// One name of a dimension, or a list of them.
class NameList {
public:
    template <std::convertible_to<std::string_view> Name>
    NameList(const Name& name) : list_{std::string(std::string_view(name))}, is_one_(true) {}
    NameList(std::initializer_list<std::string_view> names) : list_(names.begin(), names.end()) {}
    NameList(std::vector<std::string> names) : list_(std::move(names)) {}

    const std::vector<std::string>& list() const { return list_; }
    /// True for one name that is no list.
    bool is_one() const { return is_one_; }

private:
    std::vector<std::string> list_;
    bool is_one_ = false;
};

/// One rank's view of a mesh over the whole world, or of the part of it along some dimensions.
///
/// Copies and parts share one root, which `flatten` makes indexable by further names.
///
///     auto mesh = frameworks::init_device_mesh({2, 2, 2}, {{"pp", "dp", "tp"}}, 5, 8);
///     EXPECT_EQ(to_string(mesh["dp"].mesh()), "{5, 7}");
///     EXPECT_EQ(mesh["dp"].get_local_rank(), 0);
class RANKMESH_EXPORT DeviceMesh {
public:
    /// Nothing where the mesh has no names, or no dimensions.
    DimNames mesh_dim_names() const;
    std::vector<int> shape() const;
    int ndim() const { return static_cast<int>(dims_.size()); }
    /// The number of ranks.
    int size() const { return mesh().size(); }
    /// The ranks, row-major.
    Group mesh() const;
    /// This rank in the world.
    int get_rank() const;
    /// This rank's index on every dimension; nothing where there is none.
    std::optional<std::vector<int>> get_coordinate() const;

    /// The part of the mesh along these dimensions, in mesh order, to which those of one rank do not count;
    /// of a root also along flattened ones.
    ///
    /// Throws Error for other names and for another order.
    DeviceMesh operator[](const NameList& names) const;

    /// The ranks along one dimension, which need not be said where there is only one.
    ///
    /// Throws Error for a dimension that does not exist, or where several do and none is said.
    Group get_group(std::optional<std::string_view> mesh_dim = {}) const;
    /// This rank's place in that group.
    int get_local_rank(std::optional<std::string_view> mesh_dim = {}) const;
    /// The axes of the root along which that group lies.
    AxisSet axes(std::optional<std::string_view> mesh_dim = {}) const;

    /// All dimensions as one, by whose name the root is indexable afterwards; "" joins their names.
    ///
    /// Throws Error for a name that the root uses for something else, and for a part that is
    /// flattened already; `then` are names by which the root must be indexable with it, else nothing is done.
    DeviceMesh flatten(std::string_view name = {}, std::span<const std::string> then = {}) const;

    /// The root's axes over the world.
    const Mesh& root() const;
    /// The names given by `flatten`, in that order, with the axes of each.
    std::vector<std::pair<std::string, AxisSet>> flattened() const;

    /// True for the same part of one root.
    friend bool operator==(const DeviceMesh&, const DeviceMesh&) = default;

private:
    friend DeviceMesh init_device_mesh(std::span<const int>, const DimNames&, int, int);
    struct Dim {
        std::string name;
        AxisSet axes;
        friend bool operator==(const Dim&, const Dim&) = default;
    };
    struct Root;
    DeviceMesh(std::shared_ptr<Root> root, std::vector<Dim> dims)
        : root_(std::move(root)), dims_(std::move(dims)) {}
    std::vector<Dim> resolve(std::span<const std::string> names, const std::vector<Dim>& known) const;

    std::shared_ptr<Root> root_;
    std::vector<Dim> dims_;
};

/// The mesh of this shape over the world, as `rank` sees it, row-major.
///
/// Throws Error for sizes below 1 or a product above the world, Refusal for one below it,
/// which would leave ranks out.
RANKMESH_EXPORT DeviceMesh init_device_mesh(std::span<const int> shape, const DimNames& mesh_dim_names,
                                            int rank, int world_size);
inline DeviceMesh init_device_mesh(std::initializer_list<int> shape, const DimNames& mesh_dim_names, int rank,
                                   int world_size) {
    return init_device_mesh(std::span<const int>(shape.begin(), shape.size()), mesh_dim_names, rank,
                            world_size);
}

/// `('pp', 'dp')`, or `('dp',)` for one.
RANKMESH_EXPORT std::string to_string(std::span<const std::string> names);

}  // namespace rankmesh::frameworks
