// SPDX-License-Identifier: Apache-2.0
// Megatron-core's HyperCommGrid: a mesh whose dimensions are listed innermost first, and other ways to factor
// its ranks.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/engine/member.hpp>
#include <rankmesh/engine/plan.hpp>

namespace rankmesh::megatron {

/// Names of dimensions: one, or several in any order.
class Dims {
public:
    Dims(const char* name) : names_{name} {}
    Dims(std::string name) : names_{std::move(name)} {}
    Dims(std::initializer_list<std::string> names) : names_(names) {}
    Dims(std::vector<std::string> names) : names_(std::move(names)) {}
    const std::vector<std::string>& names() const { return names_; }

private:
    std::vector<std::string> names_;
};

/// Under which a process group is kept: the dimensions outermost first, and the view if they are its own.
struct Key {
    std::string view;  ///< "" for the grid's own groups
    std::vector<std::string> dims;
    friend bool operator==(const Key&, const Key&) = default;
};
/// `dp-cp`, or `('expert', ('ep',))` for a view's own.
RANKMESH_EXPORT std::string to_string(const Key& key);

/// The groups of HyperCommGrid along any dimensions of any view, without starting a process.
///
///     megatron::Grid({2, 2, 2}, {"tp", "cp", "dp"}, 8).get_rank_enum({"cp", "dp"})[0].back() == 6
class RANKMESH_EXPORT Grid {
public:
    /// Throws dialect::Error for shapes and names of different number, a negative offset, or more ranks than
    /// the world has from there on, and dialect::Refusal for sizes below 1 and names listed twice.
    Grid(std::vector<int> shape, std::vector<std::string> dim_names, std::optional<int> world_size = {},
         int rank_offset = 0);

    const std::vector<int>& shape() const { return views_[0].shape; }
    const std::vector<std::string>& dim_names() const { return views_[0].dim_names; }
    int rank_offset() const { return views_[0].mesh.offset(); }
    /// The number of ranks.
    int size() const { return views_[0].mesh.size(); }
    /// True if `rank` is one of rank_offset .. rank_offset + size - 1.
    bool is_rank_in_grid(int rank) const { return views_[0].mesh.contains(rank); }

    /// Another way to factor the same ranks; throws dialect::Error for a name that is taken, sizes that make
    /// another number of ranks, repeated names, and shared dimensions whose groups are not the same in both.
    void register_view(const std::string& name, const std::vector<int>& shape,
                       const std::vector<std::string>& dim_names,
                       const std::vector<std::string>& shared_dims = {});
    /// `base` and the registered ones, sorted.
    std::vector<std::string> views() const;
    /// The ranks of a view as a mesh, outermost dimension first.
    const Mesh& mesh(std::optional<std::string_view> view = {}) const { return resolve(view).mesh; }

    /// All groups along these dimensions, in any order; throws dialect::Error for an unknown view or
    /// dimension.
    Partition get_rank_enum(const Dims& dims, std::optional<std::string_view> view = {}) const;
    /// That of a rank of the grid; throws what get_rank_enum throws, and UsageError for other ranks.
    Group group(int rank, const Dims& dims, std::optional<std::string_view> view = {}) const;
    /// All of them, each listed with the first dimension outermost.
    Partition gen_rank_enum(const Dims& dims) const;
    /// Under which create_pg keeps the groups along these dimensions, and get_pg finds them.
    Key key(const Dims& dims, std::optional<std::string_view> view = {}) const;

    /// Notes that the groups along these dimensions are made, and returns all of them; throws dialect::Error
    /// if they were made already.
    Partition create_pg(const Dims& dims, std::optional<std::string_view> view = {});
    /// The same groups again; throws dialect::Error if they were not made.
    Partition get_pg(const Dims& dims, std::optional<std::string_view> view = {}) const;
    /// What was made, in that order.
    const std::vector<Key>& keys() const { return made_; }
    /// Forgets all that was made.
    void destroy() { made_.clear(); }

private:
    struct View {
        std::string name;
        std::vector<int> shape;
        std::vector<std::string> dim_names;
        std::vector<std::string> shared_dims;
        Mesh mesh;
    };
    const View& resolve(std::optional<std::string_view> view) const;
    static std::vector<std::string> ordered(const View& view, const Dims& dims);
    static AxisSet axes(const View& view, const Dims& dims);

    std::vector<View> views_;  // the first is "base"
    std::vector<Key> made_;
};

/// Groups that a plan declares: dimensions, and the view that they belong to.
struct GridGroup {
    Dims dims;
    std::optional<std::string> view = {};
};

/// The plan to join: every single dimension of every view of `grid`, and these groups.
RANKMESH_EXPORT Plan plan(const Grid& grid, const std::vector<GridGroup>& groups = {});

/// The same, live: its groups are communicators.
///
///     void step(Member& me, const megatron::Grid& grid, std::vector<float>& gradients) {
///         auto live = megatron::HyperCommGrid(me, grid);
///         live.create_pg({"dp", "cp"});
///         live.get_pg({"cp", "dp"}).all_reduce(gradients);
///     }
class RANKMESH_EXPORT HyperCommGrid : public Grid {
public:
    /// Throws UsageError for a member that was not joined with `plan(grid)`; groups noted in `grid` are not
    /// made.
    HyperCommGrid(const Member& member, const Grid& grid);

    /// This rank's group, nothing outside the grid; throws what Grid::create_pg throws, and UsageError where
    /// the member's plan lacks it.
    std::optional<Communicator> create_pg(const Dims& dims, std::optional<std::string_view> view = {});
    /// The same; throws dialect::Error if it was not made, or outside the grid.
    Communicator get_pg(const Dims& dims, std::optional<std::string_view> view = {}) const;
    bool is_current_rank_in_grid() const { return is_rank_in_grid(rank_); }

private:
    Communicator communicator(const Key& key) const;

    int rank_;
    std::vector<std::pair<std::string, Member>> places_;  // by view
};

}  // namespace rankmesh::megatron
