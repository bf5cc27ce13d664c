// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/megatron/hyper_comm_grid.hpp>

#include <algorithm>

#include <rankmesh/core/name.hpp>
#include <rankmesh/dialect/device_mesh.hpp>
#include <rankmesh/dialect/error.hpp>
#include <rankmesh/dialect/member.hpp>

#include "dialect/environment.hpp"
#include "dialect/megatron/partitions.hpp"
#include "dialect/names.hpp"

namespace rankmesh::megatron {

using detail::cat;
using dialect::Error;
using dialect::Fault;
using dialect::holds;
using dialect::list_of;
using dialect::Refusal;

namespace {

constexpr auto base = std::string_view("base");
constexpr auto grid_joined_with = "megatron::plan(grid, groups)";

/// What was asked for, as Python prints it.
std::string asked(const Dims& dims) {
    return dims.names().size() == 1 ? dims.names()[0] : list_of(dims.names());
}

bool repeats(std::vector<std::string> names) {
    std::ranges::sort(names);
    return std::ranges::adjacent_find(names) != names.end();
}

int world_from_environment() {
    if (const auto size = dialect::number_in_environment("WORLD_SIZE")) return *size;
    throw Error(Fault::missing,
                "Cannot determine world size: WORLD_SIZE environment variable not set and "
                "torch.distributed is not initialized. Please either set WORLD_SIZE or initialize "
                "torch.distributed before creating HyperCommGrid.");
}

void check_lengths(const std::vector<int>& shape, const std::vector<std::string>& dim_names) {
    if (shape.size() != dim_names.size())
        throw Error(Fault::argument,
                    cat("len(shape) ", list_of(shape), " != len(dim_names) ", list_of(dim_names)));
}

/// The dimensions turned round: the last is outermost. A grid without any is one rank.
Mesh turned_round(const std::vector<int>& shape, const std::vector<std::string>& dim_names, int rank_offset) {
    auto axes = std::vector<Axis>{};
    for (auto i = shape.size(); i-- > 0;) axes.push_back({dim_names[i], shape[i]});
    if (axes.empty()) axes.push_back({"rank", 1});
    return Mesh(std::span<const Axis>(axes)).shifted(rank_offset);
}

std::int64_t volume(const std::vector<int>& shape) {
    auto volume = std::int64_t{1};
    for (auto size : shape)
        if (__builtin_mul_overflow(volume, size, &volume)) return std::numeric_limits<std::int64_t>::max();
    return volume;
}

Mesh checked_mesh(const std::vector<int>& shape, const std::vector<std::string>& dim_names,
                  std::optional<int> world_size, int rank_offset) {
    check_lengths(shape, dim_names);
    const auto world = world_size ? *world_size : world_from_environment();
    if (rank_offset < 0)
        throw Error(Fault::out_of_range, cat("rank_offset must be non-negative, got ", rank_offset));
    if (volume(shape) > std::int64_t{world} - rank_offset)
        throw Error(Fault::sizes, cat("Grid shape ", list_of(shape), " is over sized with world size ", world,
                                      " and rank offset ", rank_offset));
    for (auto size : shape)
        if (size < 1)
            throw Refusal(
                Fault::sizes, "sizes-below-one",
                cat("the grid shape ", list_of(shape), " has a size of ", size, "; every size is 1 or more"));
    if (repeats(dim_names))
        throw Refusal(Fault::argument, "axis-twice",
                      cat("the grid has duplicate dim_names: ", list_of(dim_names), "; list each once"));
    return turned_round(shape, dim_names, rank_offset);
}

}  // namespace

std::string to_string(const Key& key) {
    if (!key.view.empty()) return cat("('", key.view, "', ", dialect::to_string(key.dims), ")");
    auto joined = std::string{};
    for (const auto& dim : key.dims) joined += cat(joined.empty() ? "" : "-", dim);
    return joined;
}

Grid::Grid(std::vector<int> shape, std::vector<std::string> dim_names, std::optional<int> world_size,
           int rank_offset) {
    const auto mesh = checked_mesh(shape, dim_names, world_size, rank_offset);
    views_.push_back({std::string(base), std::move(shape), std::move(dim_names), {}, mesh});
}

void Grid::register_view(const std::string& name, const std::vector<int>& shape,
                         const std::vector<std::string>& dim_names,
                         const std::vector<std::string>& shared_dims) {
    if (std::ranges::find(views_, name, &View::name) != views_.end())
        throw Error(Fault::exists, cat("View '", name, "' is already registered"));
    check_lengths(shape, dim_names);
    if (repeats(dim_names))
        throw Error(Fault::argument, cat("View '", name, "' has duplicate dim_names: ", list_of(dim_names)));
    if (std::ranges::any_of(shape, [](int size) { return size < 1; }))
        throw Error(Fault::sizes, cat("View '", name, "' shape must be positive ints, got ", list_of(shape)));
    if (volume(shape) != size())
        throw Error(Fault::sizes, cat("View '", name, "' shape ", list_of(shape), " has size ", volume(shape),
                                      ", but the grid size is ", size()));
    if (repeats(shared_dims))
        throw Error(Fault::argument,
                    cat("View '", name, "' has duplicate shared_dims: ", list_of(shared_dims)));
    auto view = View{name, shape, dim_names, shared_dims, turned_round(shape, dim_names, rank_offset())};
    const auto compare = [&](const std::vector<std::string>& dims, std::string_view what) {
        const auto of_base = views_[0].mesh.partition(axes(views_[0], dims));
        const auto of_view = view.mesh.partition(axes(view, dims));
        if (!same_groups(of_base, of_view))
            throw Error(Fault::sizes,
                        cat(what, " different membership across views: base enumeration ", listed(of_base),
                            " != view '", name, "' enumeration ", listed(of_view)));
    };
    for (const auto& dim : shared_dims) {
        if (!holds(this->dim_names(), dim))
            throw Error(Fault::unknown, cat("Shared dim '", dim, "' of view '", name,
                                            "' is not in the base view ", list_of(this->dim_names())));
        if (!holds(dim_names, dim))
            throw Error(Fault::unknown, cat("Shared dim '", dim, "' of view '", name,
                                            "' is not in the view's dim_names ", list_of(dim_names)));
        compare({dim}, cat("Shared dim '", dim, "' has"));
    }
    if (shared_dims.size() > 1) compare(shared_dims, cat("Shared dims ", list_of(shared_dims), " have"));
    views_.push_back(std::move(view));
}

std::vector<std::string> Grid::views() const {
    auto names = std::vector<std::string>{};
    for (const auto& view : views_) names.push_back(view.name);
    std::ranges::sort(names);
    return names;
}

const Grid::View& Grid::resolve(std::optional<std::string_view> view) const {
    const auto found = std::ranges::find(views_, view.value_or(base), &View::name);
    if (found == views_.end())
        throw Error(Fault::unknown,
                    cat("View '", *view, "' is not registered. Registered views: ", list_of(views())));
    return *found;
}

/// Outermost first, which is the other way round.
std::vector<std::string> Grid::ordered(const View& view, const Dims& dims) {
    for (const auto& dim : dims.names())
        if (!holds(view.dim_names, dim))
            throw Error(Fault::unknown, cat("'", dim, "' is not in view '", view.name, "' with dim_names ",
                                            list_of(view.dim_names)));
    auto names = std::vector<std::string>{};
    for (auto i = view.dim_names.size(); i-- > 0;)
        for (const auto& dim : dims.names())
            if (dim == view.dim_names[i]) names.push_back(dim);
    return names;
}

AxisSet Grid::axes(const View& view, const Dims& dims) {
    const auto names = ordered(view, dims);
    if (repeats(names))
        throw Error(Fault::argument, cat("the dimensions ", list_of(names), " repeat; name each once"));
    auto axes = AxisSet{};
    for (const auto& dim : names) axes.insert(view.mesh.axis(dim));
    return axes;
}

Partition Grid::get_rank_enum(const Dims& dims, std::optional<std::string_view> view) const {
    return resolve(view).mesh.partition(axes(resolve(view), dims));
}

Group Grid::group(int rank, const Dims& dims, std::optional<std::string_view> view) const {
    return resolve(view).mesh.group(rank, axes(resolve(view), dims));
}

Partition Grid::gen_rank_enum(const Dims& dims) const {
    static_cast<void>(axes(views_[0], dims));
    auto order = std::vector<AxisId>{};
    for (const auto& dim : dims.names()) order.push_back(views_[0].mesh.axis(dim));
    return views_[0].mesh.partition_in_order(std::span<const AxisId>(order));
}

Key Grid::key(const Dims& dims, std::optional<std::string_view> view) const {
    const auto& found = resolve(view);
    const auto names = ordered(found, dims);
    if (found.name == base) return {"", names};
    if (std::ranges::all_of(names, [&](const auto& dim) { return holds(found.shared_dims, dim); }))
        return {"", ordered(views_[0], names)};
    return {found.name, names};
}

Partition Grid::create_pg(const Dims& dims, std::optional<std::string_view> view) {
    auto made = key(dims, view);
    if (std::ranges::find(made_, made) != made_.end())
        throw Error(Fault::exists,
                    cat("Process group ", asked(dims),
                        made.view.empty() ? std::string{} : cat(" for view '", made.view, "'"),
                        " has already been created. Because there is no way to check whether options to "
                        "create process group matches the first, we error out instead of returning the "
                        "process group that has already been created before."));
    const auto groups = get_rank_enum(dims, view);
    made_.push_back(std::move(made));
    return groups;
}

Partition Grid::get_pg(const Dims& dims, std::optional<std::string_view> view) const {
    const auto wanted = key(dims, view);
    if (std::ranges::find(made_, wanted) == made_.end())
        throw Error(Fault::not_initialised,
                    wanted.view.empty() ? cat("Process group for ", to_string(wanted),
                                              " hasn't been created. Call create_pg first.")
                                        : cat("Process group ", asked(dims), " for view '", wanted.view,
                                              "' hasn't been created. Call create_pg first."));
    return get_rank_enum(dims, view);
}

// --- live

Plan plan(const Grid& grid, const std::vector<GridGroup>& groups) {
    auto plan = Plan{};
    for (const auto& view : grid.views())
        plan.push_back({.name = view, .mesh = grid.mesh(view), .partial = true});
    for (const auto& group : groups) {
        const auto key =
            grid.key(group.dims, group.view ? std::optional<std::string_view>(*group.view) : std::nullopt);
        if (key.dims.size() < 2) continue;
        const auto wanted = key.view.empty() ? base : std::string_view(key.view);
        for (auto& declared : plan)
            if (declared.name == wanted) declared.over.push_back(Axes(key.dims));
    }
    return plan;
}

HyperCommGrid::HyperCommGrid(const Member& member, const Grid& grid) : Grid(grid), rank_(member.rank()) {
    destroy();
    for (const auto& view : views()) {
        auto own = dialect::place(member, view, grid_joined_with);
        dialect::check_mesh(own, mesh(view), grid_joined_with);
        places_.emplace_back(view, std::move(own));
    }
}

std::optional<Communicator> HyperCommGrid::create_pg(const Dims& dims, std::optional<std::string_view> view) {
    auto made = static_cast<const Grid&>(*this);
    made.create_pg(dims, view);
    auto group = std::optional<Communicator>{};
    if (is_current_rank_in_grid()) group = communicator(key(dims, view));
    static_cast<Grid&>(*this) = std::move(made);
    return group;
}

Communicator HyperCommGrid::get_pg(const Dims& dims, std::optional<std::string_view> view) const {
    Grid::get_pg(dims, view);
    if (!is_current_rank_in_grid())
        throw Error(Fault::not_member, cat("rank ", rank_, " is outside the grid, which covers ranks ",
                                           rank_offset(), "..", rank_offset() + size() - 1));
    return communicator(key(dims, view));
}

Communicator HyperCommGrid::communicator(const Key& key) const {
    const auto view = key.view.empty() ? base : std::string_view(key.view);
    const auto own =
        std::ranges::find(places_, view, [](const auto& place) { return std::string_view(place.first); });
    const auto names = std::vector<std::string_view>(key.dims.begin(), key.dims.end());
    return dialect::communicator(own->second, names, grid_joined_with);
}

}  // namespace rankmesh::megatron
