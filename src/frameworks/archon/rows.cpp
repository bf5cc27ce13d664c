// SPDX-License-Identifier: Apache-2.0
// ArchonParallelDims of AReaL's engine Archon: PP x DP-shard x CP x TP; experts take their ranks from the
// shards and CP, and from TP too where an expert is not split.
#include "frameworks/row_makers.hpp"

namespace rankmesh::frameworks::of_archon {

bool has_experts(const Given& given) { return given.number("ep") > 1; }
/// True where tp splits experts as it splits all else.
bool splits(const Given& given) { return has_experts(given) && given.number("etp") == given.number("tp"); }

/// The ranks of a shard's ranks that experts share, and how many of them an expert's ranks take at least.
void check_experts(Given& given) {
    const auto ep = given.number("ep"), cp = given.number("cp"), tp = given.number("tp");
    const auto least = splits(given) ? cp : cp * tp;
    const auto most = given.number("dp_shard") * least;
    const auto* rule = splits(given) ? "When etp=tp, " : "When etp=1, ";
    const auto* of = splits(given) ? "cp" : "cp * tp";
    refuse_if(has_experts(given) && ep % least != 0, Fault::sizes, rule, "ep must be divisible by ", of,
              ", got ep=", ep, ", cp=", cp, splits(given) ? "" : cat(", tp=", tp));
    refuse_if(has_experts(given) && most % ep != 0, Fault::sizes, rule, "dp_shard * ", of,
              " must be divisible by ep, got ", most, ", ep=", ep);
    given.derive("dp_shard_mod_ep", has_experts(given) ? most / ep : given.number("dp_shard"));
    given.derive("dp_shard_in_ep", has_experts(given) ? ep / least : 1);
}

void check(Given& given) {
    const auto number = [&](const char* name) { return given.number(name); };
    const auto others = std::int64_t{number("tp")} * number("cp") * number("pp");
    if (number("dp_shard") < 0) given.derive("dp_shard", static_cast<int>(given.world_size() / others));
    if (const auto ranks = number("dp_shard") * others; ranks != given.world_size())
        throw Error(Fault::sizes, "dp_shard * tp * cp * pp must equal world_size, got ", number("dp_shard"),
                    " * ", number("tp"), " * ", number("cp"), " * ", number("pp"), " = ", ranks,
                    ", world_size=", given.world_size());
    refuse_if(number("etp") != 1 && number("etp") != number("tp"), Fault::sizes,
              "etp must be 1 or equal to tp, got etp=", number("etp"), ", tp=", number("tp"));
    check_experts(given);
    given.derive("dp_enabled", number("dp_replicate") > 1 || number("dp_shard") > 1);
    given.derive("dp_cp_enabled", given.flag("dp_enabled") || number("cp") > 1);
    given.derive("fsdp_gradient_divide_factor", number("dp_shard") * number("cp"));
    given.derive("seq_len_divisor", number("tp") * number("cp") * 2);
    given.derive("context_and_model_parallel_size", static_cast<int>(others));
    given.derive("world_size", given.world_size());
}

std::optional<Mesh> experts(const Given& given, const Mesh&) {
    if (!has_experts(given)) return std::nullopt;
    return Mesh{{"pp", given.number("pp")},
                {"edp", given.number("dp_shard_mod_ep")},
                {"ep", given.number("ep")},
                {"etp", splits(given) ? given.number("tp") : 1}};
}
Values write_experts(const Mesh& experts) {
    return {{"ep", size_of(experts, "ep")}, {"etp", size_of(experts, "etp")}};
}

std::string named(const Given&, const Given& options) { return options.word("name"); }

std::vector<AccessorRow> accessors() {
    auto rows = std::vector{
        chosen("get_group", Quantity::group, named, "This rank's group of a kind; None where there is none.",
               {required("name", Type::word)}, Value()),
        said("dp_replicate", "Always 1: there are no replicas."),
        said("dp_shard", "The number of ranks that share the model's state."),
        said("cp", "The number of context-parallel ranks."),
        said("tp", "The number of tensor-parallel ranks."),
        said("pp", "The number of stages."),
        said("ep", "The number of ranks with other experts."),
        said("etp", "The number of ranks that share an expert."),
        said("world_size", "The number of all ranks."),
        said("dp_enabled", "True if there are data-parallel ranks.", Type::flag),
        said("dp_cp_enabled", "True if there are data-parallel or context-parallel ranks.", Type::flag),
        said("fsdp_enabled", "True if shards are of several ranks, context-parallel ones included.",
             Type::flag, "fsdp_gradient_divide_factor > 1"),
        said("fsdp_gradient_divide_factor", "What FSDP divides gradients by."),
        said("seq_len_divisor", "What divides the length of a sequence."),
        said("context_and_model_parallel_size", "The number of ranks that share a sample.")};
    add_enabled(rows, "dp_replicate dp_shard cp tp pp ep etp");
    return rows;
}

Framework framework() {
    return {
        .name = "archon",
        .version = "1.0.4",
        .original = "areal.experimental.models.archon.parallel_dims",
        .title = "The groups of AReaL's engine Archon: stages, shards, context, tensor and expert ranks.",
        .settings_of = "the arguments of AReaL's ArchonParallelDims",
        .example = "-- dp_shard=4 tp=2 ep=2",
        .settings = {{"dp_replicate", Type::number, "always 1: the groups have no replicas"},
                     {"dp_shard", Type::number,
                      "ranks that share the model's state; -1: all that the other sizes leave", -1,
                      "dp_shard"},
                     {.name = "cp", .axis = "cp"},
                     {.name = "tp", .axis = "tp"},
                     {.name = "pp", .axis = "pp"},
                     {"ep", Type::number, "ranks with other experts"},
                     {"etp", Type::number, "ranks that share an expert: 1 or tp"}},
        .meshes = {{"ranks", "pp dp_shard cp tp"}, {"experts", "pp dp_shard_mod_ep dp_shard_in_ep cp tp"}},
        .kinds = {along("pp"),
                  along("dp_shard", "ep <= 1"),
                  along("dp_shard_mod_ep", "ep > 1", "experts: "),
                  along("dp_shard_in_ep", "ep > 1", "experts: "),
                  along("cp"),
                  along("tp"),
                  {"dp", "pp cp tp | dp_shard"},
                  {"dp_shard_cp", "pp tp | dp_shard cp"},
                  {"dp_cp", "pp tp | dp_shard cp"},
                  {"pp_cp_tp", "dp_shard | pp cp tp"},
                  {"ep", "experts: pp dp_shard_mod_ep tp | dp_shard_in_ep cp", "", "ep > 1 and etp == tp"},
                  {"ep", "experts: pp dp_shard_mod_ep | dp_shard_in_ep cp tp", "", "ep > 1 and etp != tp"}},
        .accessors = accessors(),
        .check = check,
        .why = {{"virtual pipeline stages", "Archon's stages are not interleaved by these settings"},
                {"dp_replicate", "Archon has no replicas; its data-parallel ranks share the model's state"}},
        .experts = experts,
        .write_experts = write_experts,
        .initialize = "ArchonParallelDims",
        .by_value = true};
}

}  // namespace rankmesh::frameworks::of_archon
