// SPDX-License-Identifier: Apache-2.0
// picotron's ProcessGroupManager: DP x PP x CP x TP, tp fastest.
#include <cstdlib>

#include <rankmesh/dialect/picotron/process_group_manager.hpp>

#include "frameworks/rows.hpp"

namespace rankmesh::frameworks {

namespace of_picotron {

/// Throws where the sizes do not multiply to the world, which comes before a size below one.
void check_first(Given& given) {
    const auto sizes = picotron::Sizes{.tp = given.number("tp_size"),
                                       .cp = given.number("cp_size"),
                                       .pp = given.number("pp_size"),
                                       .dp = given.number("dp_size")};
    if (std::int64_t{sizes.tp} * sizes.cp * sizes.pp * sizes.dp != given.world_size())
        static_cast<void>(picotron::mesh(sizes, given.world_size()));
}

int local_rank(int rank) {
    const auto* given = std::getenv("LOCAL_RANK");
    return given ? std::atoi(given) : rank;
}

/// The rank `by` stages on; None beyond the ends.
Value stage(const State& state, int by) {
    const auto pipeline = *state.groups().of("pp_group", state.rank());
    const auto at = *pipeline.group_rank(state.rank()) + by;
    return at < 0 || at >= pipeline.size() ? Value() : Value(pipeline[at]);
}

std::string str(const State& state) {
    const auto size = [&](const char* kind) { return state.groups().of(kind, state.rank())->size(); };
    return detail::cat("TP(", size("tp_group"), ")-CP(", size("cp_group"), ")-PP(", size("pp_group"), ")-DP(",
                       size("dp_group"), ")-Rank(", state.rank(), ")");
}

AccessorRow of_rank(std::string name, std::string doc,
                    Value (*code)(const State&, const Given&, const Given&), Type type = Type::number) {
    return {.name = std::move(name),
            .quantity = Quantity::value,
            .doc = std::move(doc),
            .code = code,
            .type = type};
}

}  // namespace of_picotron

Framework picotron() {
    using namespace of_picotron;
    using enum Quantity;
    constexpr auto experts = "picotron has no expert parallelism";
    constexpr auto replicas = "picotron has one data-parallel axis, dp, and does not shard within replicas";
    return {
        .name = "picotron",
        .original = "picotron.process_group_manager",
        .title = "picotron's groups of tensor, context, pipeline and data parallel ranks.",
        .settings_of = "`distributed` of its configuration: tp_size, cp_size, pp_size, dp_size",
        .example = "tp_size=2 pp_size=2 dp_size=2",
        .settings = {{.name = "tp_size", .axis = "tp", .needed = true},
                     {.name = "cp_size", .axis = "cp", .needed = true},
                     {.name = "pp_size", .axis = "pp", .needed = true},
                     {.name = "dp_size", .axis = "dp", .needed = true},
                     // All forward then all backward is what torch calls GPipe.
                     {.name = "pp_engine",
                      .otherwise = {},
                      .type = Type::maybe_word,
                      .only_configured = true,
                      .extra = "pipeline schedule",
                      .words = {{"1f1b", "1F1B"}, {"afab", "GPipe"}}}},
        .meshes = {{"grid", "dp pp cp tp"}},
        .kinds = {{"tp_group", "dp pp cp | tp"},
                  {"cp_group", "dp pp tp | cp"},
                  {"pp_group", "dp cp tp | pp"},
                  {"dp_group", "pp cp tp | dp"},
                  {"cp_dp_group", "pp tp | dp cp"},
                  {"pp_dp_group", "cp tp | dp pp"}},
        .accessors =
            {{"grid", "", mesh, "The mesh dp pp cp tp; the original has a tensor of ranks."},
             of_rank("global_rank", "This rank.",
                     [](const State& s, const Given&, const Given&) -> Value { return s.rank(); }),
             of_rank(
                 "world_size", "The number of ranks.",
                 [](const State& s, const Given&, const Given&) -> Value { return s.groups().world_size(); }),
             of_rank(
                 "local_rank", "LOCAL_RANK, else this rank.",
                 [](const State& s, const Given&, const Given&) -> Value { return local_rank(s.rank()); }),
             {"dp_rank", "dp_group", rank, "Where this rank is among the replicas."},
             {"pp_rank", "pp_group", rank, "This rank's stage."},
             {"cp_rank", "cp_group", rank, "Where this rank is among those of its sequences."},
             {"tp_rank", "tp_group", rank, "Where this rank is among those of its layers."},
             {"tp_group_ids", "tp_group", ranks, "The ranks of `tp_group`."},
             {"cp_group_ids", "cp_group", ranks, "The ranks of `cp_group`."},
             {"pp_group_ids", "pp_group", ranks, "The ranks of `pp_group`."},
             {"dp_group_ids", "dp_group", ranks, "The ranks of `dp_group`."},
             {"cp_dp_group_ids", "cp_dp_group", ranks, "The ranks of `cp_dp_group`."},
             {"tp_group", "tp_group", group, "The ranks that share each layer."},
             {"cp_group", "cp_group", group, "The ranks that share a sequence."},
             {"pp_group", "pp_group", group, "The stages of this rank's pipeline."},
             {"dp_group", "dp_group", group, "The replicas of this rank's part."},
             {"cp_dp_group", "cp_dp_group", group, "The ranks among which gradients are averaged."},
             {"pp_dp_group", "pp_dp_group", group, "The pipelines of all replicas."},
             {"world_group", "*", group, "All ranks."},
             {"tp_world_size", "tp_group", size, "The size of `tp_group`."},
             {"tp_first_rank", "tp_group", first, "The first rank of `tp_group`."},
             {"tp_last_rank", "tp_group", last, "The last rank of `tp_group`."},
             {"cp_world_size", "cp_group", size, "The size of `cp_group`."},
             {"cp_first_rank", "cp_group", first, "The first rank of `cp_group`."},
             {"cp_last_rank", "cp_group", last, "The last rank of `cp_group`."},
             {"cp_send_rank", "cp_group", next, "The next in the ring, to which this rank sends."},
             {"cp_recv_rank", "cp_group", prev, "The one before in the ring, from which this rank receives."},
             {"pp_world_size", "pp_group", size, "The number of stages."},
             {"pp_first_rank", "pp_group", first, "The rank on the first stage."},
             {"pp_last_rank", "pp_group", last, "The rank on the last stage."},
             {"pp_is_first_stage", "pp_group", is_first, "True on the first stage."},
             {"pp_is_last_stage", "pp_group", is_last, "True on the last stage."},
             of_rank(
                 "pp_next_rank", "The rank on the next stage; None on the last.",
                 [](const State& s, const Given&, const Given&) { return stage(s, +1); }, Type::maybe_number),
             of_rank(
                 "pp_prev_rank", "The rank on the stage before; None on the first.",
                 [](const State& s, const Given&, const Given&) { return stage(s, -1); }, Type::maybe_number),
             {"dp_world_size", "dp_group", size, "The size of `dp_group`."},
             {"dp_first_rank", "dp_group", first, "The first rank of `dp_group`."},
             {"dp_last_rank", "dp_group", last, "The last rank of `dp_group`."},
             {"cp_dp_world_size", "cp_dp_group", size, "The size of `cp_dp_group`."},
             {"pp_dp_world_size", "pp_dp_group", size, "The size of `pp_dp_group`."},
             of_rank(
                 "__str__", "`TP(2)-CP(2)-PP(2)-DP(1)-Rank(3)`.",
                 [](const State& s, const Given&, const Given&) -> Value { return str(s); }, Type::word)},
        .check_first = check_first,
        .why = {{"ep", experts},
                {"edp", experts},
                {"etp", experts},
                {"dp_replicate", replicas},
                {"dp_shard", replicas},
                {"virtual pipeline stages", "picotron's pipeline has one stage a rank"},
                {"pipeline schedule", "picotron's pp_engine is 1f1b or afab, which is 1F1B or GPipe"}},
        .raises = {{"", "ValueError"},
                   {"sizes", "AssertionError"},
                   {"sizes-below-one", "RuntimeError"},
                   {"no world", "ValueError"}},
        .initialize = "ProcessGroupManager",
        .maker = "setup_process_group_manager",
        .module = "process_group_manager",
        .table = "distributed",
        .let_be = "master_addr master_port backend use_cpu world_size",
        .variable = "process_group_manager"};
}

}  // namespace rankmesh::frameworks
