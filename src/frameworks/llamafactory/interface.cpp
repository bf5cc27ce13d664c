// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/llamafactory/interface.hpp>

#include <cstdlib>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/name.hpp>
#include <rankmesh/core/text.hpp>
#include <rankmesh/dialect/error.hpp>
#include <rankmesh/dialect/member.hpp>

namespace rankmesh::llamafactory {

using detail::cat;
using dialect::Error;
using dialect::Fault;

namespace {

constexpr auto joined_with = "llamafactory::plan(config, world_size)";
constexpr auto world_group = std::size_t{4};
constexpr auto host_group = std::size_t{5};

bool is_of_model(Dim dim) { return dim == Dim::mp_replicate || dim == Dim::mp_shard; }

/// `DeviceMesh('cpu', [[0, 1], [2, 3]], mesh_dim_names=('dp', 'cp'))`, as torch prints it.
std::string device_mesh_text(const Mesh& mesh) {
    auto rows = std::vector<std::string>{};
    for (const auto& row : mesh.partition(mesh.name(AxisId{1})))
        rows.push_back(cat("[", detail::with_commas(row), "]"));
    return cat("DeviceMesh('cpu', [", detail::with_commas(rows), "], mesh_dim_names=('", mesh.name(AxisId{0}),
               "', '", mesh.name(AxisId{1}), "'))");
}

/// The environment of a rank of a world that runs.
Environment environment_of(const Member& member) {
    return {.rank = member.rank(),
            .world_size = member["world"].mesh().size(),
            .local_rank = member.local_rank(),
            .local_world_size = member.local_size()};
}

std::optional<int> number(const char* name) {
    const auto* given = std::getenv(name);
    if (!given) return std::nullopt;
    const auto value = detail::number_in(given);
    if (!value) throw Error(Fault::argument, cat(name, "='", given, "' is no whole number"));
    return value;
}

/// The other of two sizes that make up the world: what was given, or what is left.
int other(int world_size, int size, std::string_view name, std::optional<int> given, std::string_view both) {
    if (given && std::int64_t{size} * *given != world_size)
        throw Error(Fault::sizes, cat(both, " must equal to world_size, got ",
                                      name == "cp_size" ? cat(*given, " * ", size) : cat(size, " * ", *given),
                                      " != ", world_size, "."));
    if (size < 1) throw Error(Fault::sizes, cat(name, " is ", size, "; sizes are 1 or more"));
    // The older version rounds down here, and ranks stand in no group.
    if (world_size % size != 0)
        throw dialect::Refusal(
            Fault::sizes, "ranks-left-out",
            cat("world_size (", world_size, ") must be divisible by ", name, " (", size, ")."));
    return world_size / size;
}

}  // namespace

Environment Environment::from_environment() {
    return {.rank = number("RANK"),
            .world_size = number("WORLD_SIZE").value_or(1),
            .local_rank = number("LOCAL_RANK").value_or(0),
            .local_world_size = number("LOCAL_WORLD_SIZE").value_or(1)};
}

DistributedStrategy::DistributedStrategy(const Config& config, int world_size, bool is_distributed)
    : mp_replicate_size(config.mp_replicate_size), mp_shard_size(1), dp_size(1), cp_size(config.cp_size) {
    if (!is_distributed) return;
    mp_shard_size = other(world_size, mp_replicate_size, "mp_replicate_size", config.mp_shard_size,
                          "mp_replicate_size * mp_shard_size");
    dp_size = other(world_size, cp_size, "cp_size", config.dp_size, "dp_size * cp_size");
}

Plan plan(const Config& config, int world_size) {
    const auto strategy = DistributedStrategy(config, world_size, true);
    return {{.name = "model", .mesh = strategy.model_mesh(), .timeout = config.timeout},
            {.name = "data", .mesh = strategy.data_mesh(), .timeout = config.timeout},
            {.name = "world", .local = "node", .timeout = config.timeout}};
}

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
    return cat("DistributedInterface(strategy=DistributedStrategy(mp_replicate_size=", s.mp_replicate_size,
               ", mp_shard_size=", s.mp_shard_size, ", dp_size=", s.dp_size, ", cp_size=", s.cp_size,
               ")), is_distributed=", is_distributed() ? "True" : "False",
               ", current_accelerator=cpu, rank=", get_rank(), ", world_size=", get_world_size(),
               ", model_device_mesh=", is_distributed() ? device_mesh_text(model_mesh_) : "None",
               ", data_device_mesh=", is_distributed() ? device_mesh_text(data_mesh_) : "None");
}

DistributedInterface::DistributedInterface(const Member& member, const Config& config)
    : RankInfo(config, environment_of(member)) {
    const auto model = member["model"];
    const auto data = member["data"];
    dialect::check_mesh(model, strategy().model_mesh(), joined_with);
    dialect::check_mesh(data, strategy().data_mesh(), joined_with);
    for (auto dim : {Dim::mp_replicate, Dim::mp_shard, Dim::dp, Dim::cp})
        groups_.push_back(
            dialect::communicator(is_of_model(dim) ? model : data, {to_string(dim)}, joined_with));
    for (const auto* level : {"world", "node"})
        groups_.push_back(dialect::communicator(member["world"], {level}, joined_with));
}

DistributedInterface::DistributedInterface(const Config& config) : RankInfo(config, Environment{}) {}

Communicator& DistributedInterface::group(std::optional<Dim> dim) const {
    if (groups_.empty())
        throw Error(Fault::not_initialised, is_distributed()
                                                ? "the interface was destroyed"
                                                : "nothing is distributed, so there is no group");
    return groups_[dim ? static_cast<std::size_t>(*dim) : world_group];
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

void DistributedInterface::barrier() const {
    if (is_distributed()) group().barrier();
}

void DistributedInterface::main_process_first(const std::function<void()>& body, bool local_only) const {
    if (!is_distributed()) return body();
    auto& on = local_only ? (group(), groups_[host_group]) : group();
    if (on.rank() != 0) on.barrier();
    auto failed = std::exception_ptr{};
    try {
        body();
    } catch (...) {
        failed = std::current_exception();
    }
    if (on.rank() == 0) on.barrier();  // also where it failed, so that the others need not wait
    if (failed) std::rethrow_exception(failed);
}

}  // namespace rankmesh::llamafactory
