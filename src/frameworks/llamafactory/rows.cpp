// SPDX-License-Identifier: Apache-2.0
// LlamaFactory's DistributedInterface: the data mesh dp x cp, and over the same ranks the model mesh
// mp_replicate x mp_shard.
#include "frameworks/row_makers.hpp"

namespace rankmesh::frameworks::of_llamafactory {

constexpr const char* dims[] = {"mp_replicate", "mp_shard", "dp", "cp"};

/// `get_rank(Dim.DP)`.
std::string call_of(std::string_view accessor, const std::string& dim) {
    return cat(accessor, "(Dim.", upper(dim), ")");
}

KindRow along(const char* dim, const char* groups) {
    return {.name = dim, .groups = groups, .shown = call_of("get_group", dim)};
}

/// What the world leaves beside the size `known`: `a` times `b` are all ranks, and one of them is `known`.
int beside(const Given& given, std::string_view known, std::string_view a, std::string_view b) {
    const auto world = given.world_size(), size = given.number(known);
    refuse_if(!given.is_none(a == known ? b : a) && std::int64_t{given.number(a)} * given.number(b) != world,
              Fault::sizes, a, " * ", b, " must equal to world_size, got ", given.number(a), " * ",
              given.number(b), " != ", world, ".");
    refuse_if(size < 1, Fault::sizes, known, " is ", size, "; sizes are 1 or more");
    // The older version rounds down here, and ranks stand in no group.
    if (world % size != 0)
        throw Refusal(Fault::sizes, "ranks-left-out", "world_size (", world, ") must be divisible by ", known,
                      " (", size, ").");
    return world / size;
}

void check_first(Given& given) {
    given.derive("mp_replicate", given.value("mp_replicate_size"));
    given.derive("mp_shard", beside(given, "mp_replicate_size", "mp_replicate_size", "mp_shard_size"));
    given.derive("dp", beside(given, "cp_size", "dp_size", "cp_size"));
    const auto dp = given.number("dp"), ep = given.number("ep_size");
    refuse_if(ep < 1 || dp % ep != 0, Fault::sizes, "dp_size must be divisible by ep_size, got ", dp, " % ",
              ep, " != 0.");
    if (ep > 1 && !given.is_none("plugin") && given.word("plugin") != "fsdpturbo")
        throw Error(Fault::sizes, "ep_size is ", ep, ", but dist_config.name is ", given.word("plugin"),
                    ", which ignores it; leave ep_size out, or name fsdpturbo");
}

/// dp times cp, or replicas times shards, where the settings say both; else nothing.
std::optional<std::int64_t> ranks(const Given& given) {
    const auto product = [&](const char* maybe, const char* other) -> std::optional<std::int64_t> {
        const auto ranks = std::int64_t{given.number(maybe)} * given.number(other);
        return ranks >= 1 && ranks <= Mesh::max_size ? std::optional(ranks) : std::nullopt;
    };
    const auto by_data = product("dp_size", "cp_size");
    return by_data ? by_data : product("mp_shard_size", "mp_replicate_size");
}

/// FSDPTurbo cuts dp into parts of `ep_size`; each cp rank has such groups of its own.
std::optional<Mesh> experts(const Given& given, const Mesh& data) {
    const auto ep = given.number("ep_size");
    if (ep == 1) return std::nullopt;
    auto mesh = data.split("dp", {{"edp", rest}, {"ep", ep}});
    return mesh.size("cp") > 1 ? mesh : Mesh{{"edp", mesh.size("edp")}, {"ep", ep}};
}

std::vector<Mesh> read(const Given& given, const Mesh& data) {
    const auto replicas = given.number("mp_replicate_size");
    auto meshes = std::vector{data, Mesh{{"mp_replicate", replicas}, {"mp_shard", given.number("mp_shard")}}};
    // Where a replica is a run of whole dp ranks, its shards are dp's and cp's, as others shard.
    if (data.size("dp") % replicas == 0)
        meshes = {data.split("dp", {{"dp_replicate", replicas}, {"dp_shard", rest}})};
    if (const auto of_experts = experts(given, data)) meshes.push_back(*of_experts);
    return meshes;
}

Values write(const std::vector<Mesh>& meshes) {
    const auto& data = meshes.front();
    auto replicas = size_of(data, "dp_replicate");
    for (const auto& mesh : meshes)
        if (mesh.find("mp_replicate")) replicas = mesh.size("mp_replicate");
    const auto cp = size_of(data, "cp");
    auto values = Values{{"mp_replicate_size", replicas},
                         {"mp_shard_size", data.size() / replicas},
                         {"dp_size", data.size() / cp},
                         {"cp_size", cp}};
    for (const auto& mesh : meshes)
        if (&mesh != &data && size_of(mesh, "ep") > 1) {
            values.emplace_back("plugin", std::string("fsdpturbo"));
            values.emplace_back("ep_size", mesh.size("ep"));
        }
    return values;
}

/// The kind of the groups along a dimension.
std::string kind_of(const Given&, const Given& options) {
    return options.is_none("dim") ? "*" : options.word("dim");
}

std::string mesh_of(std::string_view dim) { return dim == "dp" || dim == "cp" ? "data" : "model"; }

constexpr const char* meshes[] = {"model", "data"};
template <int mesh>
Value whole_mesh(const State& state, const Given&) {
    return state.is_initialized() ? Value(std::vector{Access::device_mesh(state, meshes[mesh])}) : Value();
}

Value mesh_along(const State& state, const Given& options) {
    refuse_if(options.is_none("dim"), Fault::missing, "dim must be specified.");
    if (!state.is_initialized()) return {};
    const auto& dim = options.word("dim");
    return std::vector{Access::device_mesh(state, mesh_of(dim))[dim]};
}

/// What the launcher says of this process's host.
Value of_host(const State& state, const char* variable, int alone, std::string_view member) {
    if (const auto number = number_in_environment(variable)) return *number;
    if (state.world_size() <= 1) return alone;
    throw Error(Fault::missing, variable, " is not set; start with torchrun, or ask Member::", member);
}

Value local_rank(const State& state, const Given&) { return of_host(state, "LOCAL_RANK", 0, "local_rank"); }
Value local_world_size(const State& state, const Given&) {
    return of_host(state, "LOCAL_WORLD_SIZE", 1, "local_size");
}

/// As torch prints `DeviceMesh('cpu', [[0, 1], [2, 3]], mesh_dim_names=('dp', 'cp'))`.
std::string mesh_text(const DeviceMesh& mesh, const std::string& device) {
    auto rows = std::vector<std::string>{};
    for (const auto& row : mesh.root().partition(mesh.root().name(AxisId{1})))
        rows.push_back(cat("[", detail::with_commas(row), "]"));
    return cat("DeviceMesh('", device, "', [", detail::with_commas(rows),
               "], mesh_dim_names=", to_string(*mesh.mesh_dim_names()), ")");
}

Value text(const State& state, const Given& options) {
    const auto& device = options.word("device");
    const auto is_distributed = state.is_initialized();
    auto said = std::string("DistributedInterface(strategy=DistributedStrategy(");
    for (const auto* dim : dims)
        said += cat(dim, "_size=", std::get<int>(state.ask("get_world_size", {{"dim", dim}})),
                    dim == dims[3] ? ")" : ", ");
    said += cat("), is_distributed=", is_distributed ? "True" : "False", ", current_accelerator=", device,
                ", rank=", state.rank(), ", world_size=", std::max(state.world_size(), 1));
    for (const auto* mesh : meshes)
        said += cat(", ", mesh, "_device_mesh=",
                    is_distributed ? mesh_text(Access::device_mesh(state, mesh), device) : "None");
    return said;
}

std::vector<AccessorRow> accessors() {
    using enum Quantity;
    auto dim = Setting{"dim", Type::maybe_word};
    for (const auto* each : dims) dim.words.emplace_back(each, "");
    auto rows = std::vector{
        computed("model_device_mesh", Type::number, whole_mesh<0>,
                 "The mesh `mp_replicate mp_shard`; None where nothing is distributed.", {},
                 Quantity::device_mesh),
        computed("data_device_mesh", Type::number, whole_mesh<1>,
                 "The mesh `dp cp`; None where nothing is distributed.", {}, Quantity::device_mesh),
        computed("get_device_mesh", Type::number, mesh_along,
                 "This rank's mesh along a dimension; None where nothing is distributed.", {dim},
                 Quantity::device_mesh),
        chosen("get_group", group, kind_of, "This rank's group along a dimension, or the world's.", {dim}),
        chosen("get_rank", rank, kind_of,
               "This rank's place in its group along a dimension, or in the world.", {dim}, 0),
        chosen("get_world_size", size, kind_of, "The number of ranks along a dimension, or in the world.",
               {dim}, 1),
        computed("get_local_rank", Type::number, local_rank, "This rank's place on its host, by LOCAL_RANK."),
        computed("get_local_world_size", Type::number, local_world_size,
                 "The number of ranks on its host, by LOCAL_WORLD_SIZE."),
        computed("__str__", Type::word, text,
                 "`DistributedInterface(strategy=DistributedStrategy(...)), is_distributed=True, ...`.",
                 {{"device", Type::word, {}, "cpu"}})};
    for (auto& row : rows) row.called = row.name.starts_with("get_");
    return rows;
}

std::vector<Call> calls(const Given&) {
    auto all = std::vector<Call>{};
    for (const auto* dim : dims)
        for (const auto* accessor : {"get_rank", "get_world_size"})
            all.push_back({call_of(accessor, dim), accessor, {{"dim", dim}}});
    return all;
}

Framework framework() {
    return {.name = "llamafactory",
            .version = "August 2026",
            .original = "llamafactory.v1.accelerator.interface",
            .title = "LlamaFactory's model mesh and data mesh over the same ranks.",
            .settings_of =
                "mp_replicate_size, mp_shard_size, dp_size, cp_size of LlamaFactory v1; needs the world's "
                "size",
            .example = "mp_replicate_size=2 cp_size=2 world_size=16",
            .settings = {{.name = "mp_replicate_size"},
                         {"mp_shard_size", Type::maybe_number},
                         {"dp_size", Type::maybe_number},
                         {.name = "cp_size", .axis = "cp"},
                         {.name = "plugin",  // which is written for ep_size alone
                          .type = Type::maybe_word,
                          .flag = "dist_config.name",
                          .apart = true,
                          .only_configured = true},
                         {.name = "ep_size",
                          .doc = "ranks with other experts, of fsdpturbo alone",
                          .flag = "dist_config.ep_size",
                          .apart = true,
                          .only_configured = true}},
            .meshes = {{"data", "dp cp"}, {"model", "mp_replicate mp_shard"}},
            .kinds = {along("mp_replicate", "model: mp_shard | mp_replicate"),
                      along("mp_shard", "model: mp_replicate | mp_shard"), along("dp", "data: cp | dp"),
                      along("cp", "data: dp | cp")},
            .accessors = accessors(),
            .check_first = check_first,
            .why = {{"pp, tp", "LlamaFactory shards and replicates a model; it does not split it over ranks"},
                    {"etp", "LlamaFactory does not split an expert"}},
            .read = read,
            .write = write,
            .ranks = ranks,
            .calls = calls,
            .initialize = "DistributedInterface",
            .base = "Answers",
            .table = "dist_config",
            .start = {.programs = "llamafactory-cli"},
            .ignore = "world_size timeout dist_timeout cp_mode dist_config.ep_dispatcher",
            .written = Written::json_without_table,
            .leaves = "LlamaFactory's mp_shard_size"};
}

}  // namespace rankmesh::frameworks::of_llamafactory
