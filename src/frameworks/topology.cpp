// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/frameworks/topology.hpp>

#include <rankmesh/frameworks/error.hpp>

#include "frameworks/rows.hpp"

namespace rankmesh::frameworks {

namespace {

bool is_identifier(std::string_view name) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    return !name.empty() && !is_digit(name.front()) &&
           std::ranges::all_of(name, [](char c) { return is_name_character(c) && c != '-' && c != '.'; });
}

constexpr auto keywords =
    "False None True and as assert async await break class continue def del elif else except finally for "
    "from global if import in is lambda nonlocal not or pass raise return try while with yield";

/// What Python's namedtuple asks of its fields.
void check_names(const std::vector<std::string>& names) {
    for (const auto& name : names) {
        refuse_if(!is_identifier(name), Fault::argument,
                  "Type names and field names must be valid identifiers: '", name, "'");
        refuse_if(holds(words_of(keywords), name), Fault::argument,
                  "Type names and field names cannot be a keyword: '", name, "'");
    }
    for (auto name = names.begin(); name != names.end(); ++name) {
        refuse_if(name->starts_with("_"), Fault::argument, "Field names cannot start with an underscore: '",
                  *name, "'");
        refuse_if(std::find(names.begin(), name, *name) != name, Fault::argument,
                  "Encountered duplicate field name: '", *name, "'");
    }
}

Mesh checked_mesh(const std::vector<std::string>& axes, const std::vector<int>& dims) {
    check_names(axes);
    for (auto dim : dims)
        if (dim < 1)
            throw Refusal(Fault::sizes, "sizes-below-one", "a dim of ", dim,
                          " makes a topology without ranks; every dim is 1 or more");
    refuse_if(dims.size() < axes.size(), Fault::missing, dims.size(), " dims for ", axes.size(),
              " axes; give each axis one");
    // Dims of 1 beyond the last axis change nothing, and the original is right with them.
    for (auto i = axes.size(); i < dims.size(); ++i)
        if (dims[i] != 1)
            throw Refusal(Fault::sizes, "ranks-overwritten", dims.size(), " dims for ", axes.size(),
                          " axes put ", dims[i],
                          " ranks on each coordinate, of which the last would overwrite the others; give "
                          "each axis one");
    if (axes.empty()) return {{"world", 1}};
    auto listed = std::vector<Axis>{};
    for (std::size_t i = 0; i < axes.size(); ++i) listed.push_back({axes[i], dims[i]});
    return Mesh(std::span<const Axis>(listed));
}

/// `pipe=2, data=0`, with `quote` around each name and `is` behind it.
std::string entries(const Coordinate& coord, std::string_view quote, std::string_view is) {
    auto out = std::string{};
    for (int i = 0; i < coord.size(); ++i)
        rankmesh::detail::append(out,
                                 cat(i > 0 ? ", " : "", quote, coord.name(i), quote, is, coord[AxisId{i}]));
    return out;
}

}  // namespace

ProcessTopology::ProcessTopology(std::vector<std::string> axes, std::vector<int> dims, TopologyStyle style)
    : axes_(std::move(axes)), dims_(std::move(dims)), style_(style), mesh_(checked_mesh(axes_, dims_)) {}

int ProcessTopology::find(std::string_view axis) const {
    const auto found = std::ranges::find(axes_, axis);
    return found == axes_.end() ? -1 : static_cast<int>(found - axes_.begin());
}

int ProcessTopology::get_dim(std::string_view axis) const {
    const auto found = find(axis);
    return found < 0 ? 0 : mesh_.size(AxisId{found});
}

int ProcessTopology::get_rank(const Coordinate& coord) const {
    refuse_if(static_cast<std::size_t>(coord.size()) != axes_.size(), Fault::missing,
              "get_rank() does not support slices. Use filter_match())");
    auto indices = std::vector<int>(axes_.size() + (axes_.empty() ? 1 : 0));
    auto exists = true;
    for (int i = 0; i < coord.size(); ++i) {
        const auto axis = find(coord.name(i));
        refuse_if(axis < 0, Fault::unknown, style_.coord, ".__new__() got an unexpected keyword argument '",
                  coord.name(i), "'");
        const auto index = indices[static_cast<std::size_t>(axis)] = coord[AxisId{i}];
        if (index < 0 || index >= mesh_.size(AxisId{axis})) exists = false;
    }
    if (!exists)
        throw Error(Fault::out_of_range, "key {", entries(coord, "'", ": "),
                    "} invalid, mapping: ", to_string(mesh_));
    return mesh_.rank_at(indices);
}

Coordinate ProcessTopology::get_coord(int rank) const {
    refuse_if(!mesh_.contains(rank), Fault::out_of_range, "rank ", rank, " not found in topology.");
    return axes_.empty() ? Coordinate({}) : mesh_.coord(rank);
}

std::string ProcessTopology::get_rank_repr(int rank, const std::vector<std::string>& omit_axes,
                                           std::string_view inner_sep, std::string_view outer_sep) const {
    const auto digits = style_.world_digits ? std::to_string(world_size()).size() : 2;
    auto out = std::string{};
    auto separator = std::string_view{};
    for (const auto& axis : axes_) {
        if (holds(omit_axes, axis)) continue;
        const auto index = std::to_string(get_coord(rank)[axis]);
        const auto zeros = std::string(digits - std::min(digits, index.size()), '0');
        rankmesh::detail::append(out, cat(separator, axis, inner_sep, zeros, index));
        separator = outer_sep;
    }
    return out;
}

std::optional<Partition> ProcessTopology::get_axis_comm_lists(std::string_view axis) const {
    const auto found = find(axis);
    if (found < 0) return std::nullopt;
    return mesh_.partition(AxisId{found});
}

std::optional<Group> ProcessTopology::get_axis_list(std::string_view axis, int idx) const {
    refuse_if(find(axis) < 0, Fault::unknown, "'", axis, "' is not in list");
    return filter_match({{axis, idx}});
}

std::optional<Group> ProcessTopology::filter_match(const Coordinate& filter) const {
    auto indices = std::vector<int>(static_cast<std::size_t>(mesh_.axis_count()));
    auto fixed = AxisSet{};
    for (int i = 0; i < filter.size(); ++i) {
        const auto axis = find(filter.name(i));
        refuse_if(axis < 0, Fault::unknown, "'", style_.coord, "' object has no attribute '", filter.name(i),
                  "'");
        const auto index = filter[AxisId{i}];
        if (index < 0 || index >= mesh_.size(AxisId{axis})) return std::nullopt;
        indices[static_cast<std::size_t>(axis)] = index;
        fixed.insert(AxisId{axis});
    }
    auto free = AxisSet{};
    for (int a = 0; a < mesh_.axis_count(); ++a)
        if (!fixed.contains({a})) free.insert({a});
    return mesh_.group(mesh_.rank_at(indices), free);
}

int ProcessTopology::stage_to_global(int rank, int stage, const Coordinate& kwargs) const {
    const auto me = get_coord(rank);
    auto unknown = std::string{};
    for (int i = 0; i < kwargs.size(); ++i)
        if (me.find(kwargs.name(i)) < 0)
            rankmesh::detail::append(unknown, cat(unknown.empty() ? "'" : ", '", kwargs.name(i), "'"));
    refuse_if(kwargs.find("pipe") >= 0, Fault::argument,
              "stage_to_global() got multiple values for keyword argument 'pipe'");
    refuse_if(!unknown.empty(), Fault::unknown, "Got unexpected field names: [", unknown, "]");
    auto there = Coordinate({});
    for (int i = 0; i < me.size(); ++i) {
        const auto given = kwargs.find(me.name(i));
        const auto index = given >= 0 ? kwargs[AxisId{given}] : me[AxisId{i}];
        there.push_back(me.name(i), me.name(i) == "pipe" ? stage : index);
    }
    return get_rank(there);
}

std::string ProcessTopology::str() const {
    auto out = std::string("{");
    for (int rank = 0; rank < world_size(); ++rank)
        rankmesh::detail::append(out, cat(rank > 0 ? ", " : "", style_.coord, "(",
                                          entries(get_coord(rank), "", "="), "): ", rank));
    return out + "}";
}

std::vector<int> _prime_factors(int N) {
    refuse_if(N <= 0, Fault::argument, "Values must be strictly positive.");
    auto primes = std::vector<int>{};
    for (int candidate = 2; candidate <= N / candidate; ++candidate)
        for (; N % candidate == 0; N /= candidate) primes.push_back(candidate);
    if (N > 1) primes.push_back(N);
    return primes;
}

}  // namespace rankmesh::frameworks

namespace rankmesh::areal {

using detail::cat;
using frameworks::Error;
using frameworks::Fault;
using frameworks::list_of;

namespace {

/// What AReaL calls a coordinate of these axes; throws for axes that it does not know.
std::string_view coord_of(const std::vector<std::string>& axes) {
    if (axes == std::vector<std::string>{"pipe", "data", "tensor"}) return "PipeDataTensorProcessCoord";
    if (axes == std::vector<std::string>{"data", "pipe", "tensor"}) return "DataPipeTensorProcessCoord";
    throw Error(Fault::unknown, "Corresponding coordinate namedtuple not implemented for axes ",
                list_of(axes), ". Check base/topology.py and implement explicitly.");
}

}  // namespace

ProcessTopology::ProcessTopology(const std::vector<std::string>& axes, const std::vector<int>& dims)
    : frameworks::ProcessTopology(axes, dims, {.coord = coord_of(axes), .world_digits = true}) {}

std::string ProcessTopology::repr() const {
    return cat("ProcessTopology(axes=", list_of(axes()), ", dims=", list_of(dims()), ")");
}

std::vector<std::array<int, 3>> decompose_to_three_factors(int n) {
    refuse_if(n < 0, Fault::argument, "decompose ", n, " to three factors; give 0 or more");
    auto factors = std::vector<std::array<int, 3>>{};
    for (int i = 1; i <= n / i; ++i)
        for (int j = i; n % i == 0 && j <= n / i / j; ++j) {
            if (n / i % j != 0) continue;
            auto triple = std::array{i, j, n / i / j};  // rising: the first of its permutations
            do factors.push_back(triple);
            while (std::ranges::next_permutation(triple).found);
        }
    return factors;
}

}  // namespace rankmesh::areal

namespace rankmesh::deepspeed {

ProcessTopology default_topology(int world_size) {
    auto num_pp = 1;
    auto num_dp = 1;
    auto to_pipe = true;
    for (auto prime : _prime_factors(world_size)) {
        (to_pipe ? num_pp : num_dp) *= prime;
        to_pipe = !to_pipe;
    }
    return PipeDataParallelTopology(num_pp, num_dp);
}

}  // namespace rankmesh::deepspeed
