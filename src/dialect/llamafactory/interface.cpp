// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/llamafactory/interface.hpp>

#include <rankmesh/core/text.hpp>
#include <rankmesh/dialect/error.hpp>
#include <rankmesh/dialect/member.hpp>

namespace rankmesh::llamafactory {

using detail::append;
using detail::cat;
using dialect::Error;
using dialect::Fault;

namespace {

constexpr auto joined_with = "llamafactory::plan(config, world_size)";
constexpr auto world_group = std::size_t{4};
constexpr auto host_group = std::size_t{5};

bool is_of_model(Dim dim) { return dim == Dim::mp_replicate || dim == Dim::mp_shard; }

/// `DeviceMesh('cpu', [[0, 1], [2, 3]], mesh_dim_names=('dp', 'cp'))`, as torch prints it.
std::string device_mesh_text(const std::string& device, const Mesh& mesh) {
    auto text = cat("DeviceMesh('", device, "', [");
    const auto rows = mesh.size(AxisId{0});
    const auto columns = mesh.size(AxisId{1});
    for (int row = 0; row < rows; ++row) {
        append(text, row > 0 ? ", [" : "[");
        for (int column = 0; column < columns; ++column)
            append(text, cat(column > 0 ? ", " : "", row * columns + column));
        append(text, "]");
    }
    return cat(text, "], mesh_dim_names=('", mesh.name(AxisId{0}), "', '", mesh.name(AxisId{1}), "'))");
}

/// The environment of a rank of a world that runs.
Environment environment_of(const Member& member) {
    return {.rank = member.rank(),
            .world_size = member["world"].mesh().size(),
            .local_rank = member.local_rank(),
            .local_world_size = member.local_size()};
}

}  // namespace

RankInfo::RankInfo(const Config& config, const Environment& environment)
    : environment_(environment),
      strategy_(config, environment.world_size, environment.is_distributed()),
      model_mesh_(strategy_.model_mesh()),
      data_mesh_(strategy_.data_mesh()),
      timeout_(config.timeout) {}

const Mesh& RankInfo::mesh_of(Dim dim) const { return is_of_model(dim) ? model_mesh_ : data_mesh_; }

std::optional<Mesh> RankInfo::get_device_mesh(std::optional<Dim> dim) const {
    if (!dim) throw Error(Fault::missing, "dim must be specified.");
    if (!is_distributed()) return std::nullopt;
    const auto& mesh = mesh_of(*dim);
    const auto other = mesh.name(AxisId{mesh.axis(to_string(*dim)).index == 0 ? 1 : 0});
    return mesh.slice({{other, mesh.index(*environment_.rank, other)}});
}

std::optional<Group> RankInfo::get_group(std::optional<Dim> dim) const {
    if (!dim || !is_distributed()) return std::nullopt;
    return mesh_of(*dim).group(*environment_.rank, to_string(*dim));
}

int RankInfo::get_rank(std::optional<Dim> dim) const {
    if (!is_distributed()) return 0;
    return dim ? mesh_of(*dim).index(*environment_.rank, to_string(*dim)) : *environment_.rank;
}

int RankInfo::get_world_size(std::optional<Dim> dim) const {
    if (!is_distributed()) return 1;
    return dim ? mesh_of(*dim).size(to_string(*dim)) : environment_.world_size;
}

std::string RankInfo::str() const {
    const auto& s = strategy_;
    return cat(
        "DistributedInterface(strategy=DistributedStrategy(mp_replicate_size=", s.mp_replicate_size,
        ", mp_shard_size=", s.mp_shard_size, ", dp_size=", s.dp_size, ", cp_size=", s.cp_size,
        ")), is_distributed=", is_distributed() ? "True" : "False",
        ", current_accelerator=", current_accelerator, ", rank=", get_rank(),
        ", world_size=", get_world_size(), ", model_device_mesh=",
        is_distributed() ? device_mesh_text(current_accelerator, model_mesh_) : "None",
        ", data_device_mesh=", is_distributed() ? device_mesh_text(current_accelerator, data_mesh_) : "None");
}

DistributedInterface::DistributedInterface(const Member& member, const Config& config)
    : RankInfo(config, environment_of(member)) {
    const auto model = member["model"];
    const auto data = member["data"];
    dialect::check_mesh(model, strategy().model_mesh(), joined_with);
    dialect::check_mesh(data, strategy().data_mesh(), joined_with);
    groups_.push_back(dialect::communicator(model, {"mp_replicate"}, joined_with));
    groups_.push_back(dialect::communicator(model, {"mp_shard"}, joined_with));
    groups_.push_back(dialect::communicator(data, {"dp"}, joined_with));
    groups_.push_back(dialect::communicator(data, {"cp"}, joined_with));
    groups_.push_back(dialect::communicator(member["world"], {"world"}, joined_with));
    groups_.push_back(dialect::communicator(member["world"], {"node"}, joined_with));
}

DistributedInterface::DistributedInterface(const Config& config) : RankInfo(config, Environment{}) {}

Communicator& DistributedInterface::group(std::optional<Dim> dim) const {
    if (groups_.empty())
        throw Error(Fault::not_initialised, is_distributed()
                                                ? "the interface was destroyed"
                                                : "nothing is distributed, so there is no group");
    return groups_[dim ? static_cast<std::size_t>(*dim) : world_group];
}

namespace {

template <class T>
void reduce_over(Communicator& on, std::span<T> data, ReduceOp op) {
    switch (op) {
        case ReduceOp::sum:
            return on.all_reduce(data, rankmesh::sum);
        case ReduceOp::mean:
            return on.all_reduce(data, rankmesh::mean);
        case ReduceOp::max:
            return on.all_reduce(data, rankmesh::max);
        case ReduceOp::min:
            return on.all_reduce(data, rankmesh::min);
    }
}

template <class T>
std::vector<T> gather_over(Communicator& on, std::span<const T> data) {
    auto all = std::vector<T>(data.size() * static_cast<std::size_t>(on.size()));
    on.all_gather(data, all);
    return all;
}

}  // namespace

void DistributedInterface::reduce(std::span<double> data, ReduceOp op, std::optional<Dim> dim) const {
    if (is_distributed()) reduce_over(group(dim), data, op);
}
void DistributedInterface::reduce(std::span<float> data, ReduceOp op, std::optional<Dim> dim) const {
    if (is_distributed()) reduce_over(group(dim), data, op);
}

std::vector<double> DistributedInterface::all_gather(double value, std::optional<Dim> dim) const {
    return all_gather(std::vector<double>{value}, dim);
}
std::vector<double> DistributedInterface::all_gather(const std::vector<double>& list,
                                                     std::optional<Dim> dim) const {
    return is_distributed() ? gather_over(group(dim), std::span<const double>(list)) : list;
}
std::vector<float> DistributedInterface::all_gather(std::span<const float> data,
                                                    std::optional<Dim> dim) const {
    return is_distributed() ? gather_over(group(dim), data) : std::vector<float>(data.begin(), data.end());
}

int DistributedInterface::group_rank_of(int src, std::optional<Dim> dim) const {
    const auto& on = group(dim);
    if (const auto position = on.group_rank_of(src)) return *position;
    // The original hands this to the backend, whose groups without rank `src` then fail or hang.
    throw Error(Fault::not_member,
                cat("broadcast from global rank ", src, " along ", dim ? to_string(*dim) : "the world",
                    ", but the group of rank ", get_rank(), " is ", ranks_to_string(on.world_ranks()),
                    "; src must be one of these"));
}

double DistributedInterface::broadcast(double value, int src, std::optional<Dim> dim) const {
    return broadcast(std::vector<double>{value}, src, dim).front();
}
std::vector<double> DistributedInterface::broadcast(std::vector<double> list, int src,
                                                    std::optional<Dim> dim) const {
    if (is_distributed()) group(dim).broadcast(list, group_rank_of(src, dim));
    return list;
}
std::string DistributedInterface::broadcast(std::string text, int src, std::optional<Dim> dim) const {
    if (is_distributed()) group(dim).broadcast_object(text, group_rank_of(src, dim));
    return text;
}
void DistributedInterface::broadcast(std::span<float> data, int src, std::optional<Dim> dim) const {
    if (is_distributed()) group(dim).broadcast(data, group_rank_of(src, dim));
}

void DistributedInterface::barrier() const {
    if (is_distributed()) group().barrier();
}

void DistributedInterface::main_process_first(const std::function<void()>& body, bool local_only) const {
    if (!is_distributed()) return body();
    auto& on = local_only ? (group(), groups_[host_group]) : group();
    if (on.rank() != 0) on.barrier();
    try {
        body();
    } catch (...) {
        if (on.rank() == 0) on.barrier();  // the others need not wait for what has failed
        throw;
    }
    if (on.rank() == 0) on.barrier();
}

}  // namespace rankmesh::llamafactory
