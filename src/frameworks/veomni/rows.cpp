// SPDX-License-Identifier: Apache-2.0
// VeOmni's parallel_state: PP x replicas x shards x Ulysses x CP x TP, tp fastest; experts and other extra
// parts cut the shards in another way.
#include "frameworks/row_makers.hpp"

namespace rankmesh::frameworks::of_veomni {

const std::vector<std::string>& extras(const Given& given) {
    return std::get<std::vector<std::string>>(given.value("extra_parallel_names"));
}

/// The size of an extra part. Throws Error for a name that was not given.
int extra_size(const Given& given, std::string_view name) {
    const auto& names = extras(given);
    const auto found = std::ranges::find(names, name);
    refuse_if(found == names.end(), Fault::unknown, "extra_parallel_names does not have ",
              detail::in_quotes(name));
    return given.numbers("extra_parallel_sizes")[static_cast<std::size_t>(found - names.begin())];
}

void check_extras(const Given& given) {
    const auto& names = extras(given);
    const auto& sizes = given.numbers("extra_parallel_sizes");
    const auto& innermost = given.numbers("extra_parallel_placement_innermost");
    refuse_if(sizes.size() != names.size() || innermost.size() != names.size(), Fault::argument,
              "extra_parallel_names has ", names.size(), ", extra_parallel_sizes ", sizes.size(),
              " and extra_parallel_placement_innermost ", innermost.size(),
              "; each part has a name, a size and a placement");
    const auto shards = given.number("dp_shard_sp");
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (sizes[i] <= 1) continue;
        refuse_if(innermost[i] != 0, Fault::argument, "extra_parallel_placement_innermost is set for ",
                  names[i], "; VeOmni does not support it yet");
        refuse_if(shards % sizes[i] != 0, Fault::sizes, names[i], " is ", sizes[i],
                  "; it must divide dp_shard x ulysses x cp, which is ", shards);
        if (const auto covered = shards * given.number("dp_replicate_size"); covered < given.world_size())
            throw Refusal(Fault::sizes, "ranks-left-out", "the groups of ", names[i], " leave ranks ",
                          covered, "..", given.world_size() - 1, " out; with them pp_size and tp_size are 1");
    }
}

void check(Given& given) {
    const auto number = [&](const char* name) { return given.number(name); };
    refuse_if(!given.flag("include_sp_in_fsdp"), Fault::exclusive,
              "include_sp_in_fsdp is False; VeOmni does not support it yet");
    refuse_if(number("cp_size") > 1 && number("ulysses_size") > 1, Fault::exclusive, "cp_size is ",
              number("cp_size"), " and ulysses_size ", number("ulysses_size"), "; one of them must be 1");
    if (number("dp_size") > 1 && number("dp_shard_size") == 1 && number("dp_replicate_size") == 1)
        given.derive("dp_shard_size", number("dp_size"));
    refuse_if(std::int64_t{number("dp_replicate_size")} * number("dp_shard_size") != number("dp_size"),
              Fault::sizes, "dp_size is ", number("dp_size"), ", which is not dp_replicate_size ",
              number("dp_replicate_size"), " x dp_shard_size ", number("dp_shard_size"));
    const auto outer = std::int64_t{number("pp_size")} * number("dp_replicate_size") * number("tp_size");
    if (given.world_size() % outer == 0)  // else the mesh says so
        given.derive("dp_shard_sp", static_cast<int>(given.world_size() / outer));
    else
        given.derive("dp_shard_sp", 1);
    check_extras(given);
    const auto sp = std::max(number("ulysses_size"), number("cp_size"));
    given.derive("world_size", given.world_size());
    given.derive("sp_size", sp);
    given.derive("fsdp_size", number("dp_shard_sp") * number("dp_replicate_size"));
    given.derive("dp_shard_enabled", true);
    given.derive("any_extra_parallel_enabled", std::ranges::any_of(given.numbers("extra_parallel_sizes"),
                                                                   [](int size) { return size > 1; }));
    for (const auto& name : extras(given)) {
        const auto size = std::max(extra_size(given, name), 1);
        given.derive(name, size);
        given.derive(name + "_fsdp", number("dp_shard_sp") / size);
    }
}

/// Each extra part has its own mesh, of replicas, its shards and itself.
void extend(const Given& given, std::vector<MeshRow>& meshes, Kinds& kinds) {
    for (const auto& name : extras(given)) {
        if (extra_size(given, name) <= 1) continue;
        refuse_if(std::ranges::find(kinds.rows, name, &KindRow::name) != kinds.rows.end(), Fault::argument,
                  "extra_parallel_names has ", name, ", which is the name of other groups");
        const auto shards = name + "_fsdp";
        meshes.push_back({name, cat("dp_replicate ", shards, " ", name)});
        if (given.number("dp_replicate_size") > 1)
            kinds.add({name + "_replicate", cat(name, ": * | dp_replicate")});
        kinds.add({shards, cat(name, ": * | ", shards)});
        kinds.add({name, cat(name, ": * | ", name)});
    }
}

/// The part that an accessor with a parameter is about, else that of experts.
std::string part(const Given&, const Given& options) {
    return options.has("para_name") ? options.word("para_name") : "ep";
}
std::string known_part(const Given& given, const Given& options) {
    auto name = part(given, options);
    static_cast<void>(extra_size(given, name));
    return name;
}
Value part_size(const State& state, const Given& options) {
    const auto& given = Access::given(state);
    return extra_size(given, part(given, options));
}
Value part_enabled(const State& state, const Given& options) {
    return std::get<int>(part_size(state, options)) > 1;
}
Value part_shards(const State& state, const Given& options) {
    const auto& given = Access::given(state);
    const auto size = std::get<int>(part_size(state, options));
    refuse_if(size <= 1, Fault::not_initialised, part(given, options),
              " has a size of 1, and no shards of its own");
    return given.number("fsdp_size") / size;
}
Value part_divides(const State& state, const Given&) {
    const auto& given = Access::given(state);
    refuse_if(given.number("tp_size") * given.number("pp_size") != 1, Fault::exclusive,
              "gradients are divided by the world's size only where tp_size and pp_size are 1");
    return given.world_size();
}

std::optional<Mesh> experts(const Given& given, const Mesh&) {
    if (!given.has("ep") || given.number("ep") == 1) return std::nullopt;
    return Mesh{{"edp", given.world_size() / given.number("ep")}, {"ep", given.number("ep")}};
}
Values write_experts(const Mesh& experts) {
    return {{"extra_parallel_sizes", std::vector{size_of(experts, "ep")}}};
}

/// _validate_accelerator of arguments_types.py: sizes of replicas and shards that are not given follow from
/// the world; `ep_size` is the last of the extra parts.
void configure(Values& values, int world) {
    const auto size = [&](std::string_view name, int otherwise) { return size_in(values, name, otherwise); };
    const auto others = std::int64_t{1} * size("pp_size", 1) * size("ulysses_size", 1) * size("cp_size", 1) *
                        size("tp_size", 1);
    const auto data = static_cast<int>(world / others);
    refuse_if(others < 1 || world % others != 0, Fault::sizes,
              "pp_size x ulysses_size x cp_size x tp_size is ", others,
              "; it must divide the world, which has ", world, " ranks");
    auto replicas = size("dp_replicate_size", -1);
    auto shards = size("dp_shard_size", -1);
    if (replicas <= 0) replicas = shards > 0 ? std::max(data / shards, 1) : 1;
    if (shards <= 0) shards = std::max(data / replicas, 1);
    set_in(values, "dp_size", data);
    set_in(values, "dp_replicate_size", replicas);
    set_in(values, "dp_shard_size", shards);
    const auto list_of = [&](auto otherwise, std::string_view name) {
        const auto* found = find_in(values, name);
        return found ? std::get<decltype(otherwise)>(*found) : otherwise;
    };
    auto sizes = list_of(std::vector<int>{}, "extra_parallel_sizes");
    auto names = list_of(std::vector<std::string>{}, "extra_parallel_names");
    auto innermost = list_of(std::vector<int>{}, "extra_parallel_placement_innermost");
    sizes.push_back(size("ep_size", 1));
    names.emplace_back("ep");
    innermost.push_back(0);
    set_in(values, "ep_size", {});
    set_in(values, "extra_parallel_sizes", std::move(sizes));
    set_in(values, "extra_parallel_names", std::move(names));
    set_in(values, "extra_parallel_placement_innermost", std::move(innermost));
}

std::vector<AccessorRow> accessors() {
    using enum Quantity;
    auto rows = accessors_of(
        {{"dp", "dp", "group with other data", "group rank size"},
         {"dp_replicate", "dp_replicate", "group of replicas of its shard", "group rank size"},
         {"dp_shard", "dp_shard", "group of the shards of its replica", "group rank size"},
         {"dp_shard_sp", "dp_shard_sp", "group that shares the model's state", "group"},
         {"fsdp", "dp_sp", "group of replicas and shards, which share a loss", "group rank size"},
         {"tp", "tp", "tensor-parallel group", "rank size"},
         {"pp", "pp", "pipeline", "rank size"},
         {"sp", "sp", "group that shares a sequence", "group rank size", "", true},
         {"ulysses", "ulysses", "group that exchanges a sequence for heads", "group rank size", "", true},
         {"cp", "cp", "context-parallel group", "group rank size", "", true}},
        "");
    add_enabled(rows, "dp dp_replicate fsdp tp pp sp ulysses cp", "_size");
    const auto add = [&](AccessorRow row) { rows.push_back(std::move(row)); };
    add(said("dp_shard_enabled", "True: there are always shards, of one rank at least.", Type::flag));
    add(said("dp_shard_sp_enabled", "True if ranks that share a sequence share the model's state.",
             Type::flag, "sp_size > 1"));
    add({"is_first_pp_stage", "pp", is_first, "True on the first stage."});
    add({"is_last_pp_stage", "pp", is_last, "True on the last stage."});
    add(computed("ep_size", Type::number, part_size, "The number of ranks with other experts."));
    add(said("any_extra_parallel_enabled", "True if there are experts or other extra parts.", Type::flag));
    for (const std::string name : {"ep", "extra_parallel"}) {
        auto options = std::vector<Setting>{{"para_name", Type::word, {}, "ep"}};
        if (name == "ep") options.clear();
        const auto what = std::string(name == "ep" ? "experts" : "the parts of that name");
        add(chosen(name + "_group", group, known_part,
                   cat("The ranks with others of ", what, "; None where each has all."), options, Value()));
        add(chosen(name + "_rank", rank, known_part,
                   cat("This rank's place among those with others of ", what, "."), options));
        for (auto i = rows.size() - 2; i < rows.size(); ++i) rows[i].kind = "ep";
        add(computed(name + "_enabled", Type::flag, part_enabled,
                     cat("True if ranks have others of ", what, "."), options));
        add(computed(name + "_fsdp_size", Type::number, part_shards,
                     cat("The number of replicas and shards of ", what, "."), options));
        add(computed(name + "_gradient_divide_factor", Type::number, part_divides,
                     cat("What the gradients of ", what, " are divided by."), options));
    }
    add(computed(
        "global_rank", Type::number, [](const State& state, const Given&) { return Value(state.rank()); },
        "This rank."));
    add(said("world_size", "The number of all ranks."));
    return rows;
}

Framework framework() {
    return {
        .name = "veomni",
        .version = "0.1.12",
        .original = "veomni.distributed.parallel_state",
        .title = "VeOmni's groups of replicas, shards, sequence, tensor, pipeline and expert ranks.",
        .settings_of = "the arguments of init_parallel_state, or train.accelerator of a configuration",
        .example = "-- dp_size=8 dp_replicate_size=2 dp_shard_size=4 ulysses_size=2",
        .settings = {{"dp_size", Type::number, "replicas times shards", 1, "dp_replicate dp_shard"},
                     {.name = "dp_replicate_size", .axis = "dp_replicate"},
                     {"dp_shard_size", Type::number,
                      "ranks that share the model's state; where it and dp_replicate_size are 1, dp_size", 1,
                      "dp_shard"},
                     {.name = "tp_size", .axis = "tp"},
                     {.name = "pp_size", .axis = "pp"},
                     {.name = "cp_size", .axis = "cp"},
                     {"ulysses_size", Type::number,
                      "ranks that share a sequence and exchange it for heads; cp_size is 1 then", 1,
                      "ulysses"},
                     {"dp_mode", Type::word, {}, "fsdp2"},
                     {"include_sp_in_fsdp", Type::flag, {}, true},
                     {"extra_parallel_sizes", Type::numbers,
                      "the sizes of other parts of the shards, such as experts", std::vector{1}},
                     {"extra_parallel_placement_innermost", Type::numbers, {}, std::vector{0}},
                     {"extra_parallel_names", Type::words, {}, std::vector<std::string>{"ep"}},
                     configured("ep_size", Type::number, "of a configuration: the last of the extra parts"),
                     {"async_enabled", Type::flag}},
        .meshes = {{"ranks", "pp dp_replicate dp_shard ulysses cp tp"}},
        .kinds = {along("pp", "pp_size > 1"),
                  along("dp_replicate", "dp_replicate_size > 1"),
                  along("dp_shard"),
                  along("ulysses", "ulysses_size > 1"),
                  along("cp", "cp_size > 1"),
                  along("tp", "tp_size > 1"),
                  {"dp", "pp ulysses cp tp | dp_replicate dp_shard"},
                  {"dp_shard_sp", "pp dp_replicate tp | dp_shard ulysses cp"},
                  {"dp_sp", "pp tp | dp_replicate dp_shard ulysses cp"},
                  {"sp", "pp dp_replicate dp_shard tp | ulysses cp", "", "sp_size > 1"}},
        .accessors = accessors(),
        .check = check,
        .extend = extend,
        .roles = {{"ulysses", "cp"}},
        .why = {{"virtual pipeline stages", "VeOmni's pipeline has one stage a rank"}},
        .experts = experts,
        .write_experts = write_experts,
        .raises = {{"", "ValueError"}, {"exclusive", "NotImplementedError"}},
        .initialize = "ParallelState",
        .maker = "init_parallel_state",
        .getter = "get_parallel_state",
        .by_value = true,
        .places = "train.accelerator",
        .configure = configure};
}

}  // namespace rankmesh::frameworks::of_veomni
