// SPDX-License-Identifier: Apache-2.0
// picotron's ProcessGroupManager: DP x PP x CP x TP, tp fastest.
#include "frameworks/row_makers.hpp"

namespace rankmesh::frameworks::of_picotron {

constexpr const char* sizes[] = {"tp_size", "cp_size", "pp_size", "dp_size"};

/// Throws where the sizes do not multiply to the world, which comes before a size below one.
void check_first(Given& given) {
    auto product = std::int64_t{1};
    auto text = cat("World size (", given.world_size(), ") != ");
    for (const auto* name : sizes) {
        product *= given.number(name);
        text += cat(name == sizes[0] ? "" : " * ", static_cast<char>(name[0] - 'a' + 'A'), "P (",
                    given.number(name), ")");
    }
    refuse_if(product != given.world_size(), Fault::sizes, text);
}

Value local_rank(const State& state, const Given&) {
    const auto* local = std::getenv("LOCAL_RANK");
    return local ? std::atoi(local) : state.rank();
}

/// The rank on a stage beside this one; None past the ends, which do not wrap.
template <int by>
Value stage_beside(const State& state, const Given&) {
    return value_of(state.groups().mesh().neighbor(state.rank(), "pp", by));
}

Value text(const State& state, const Given&) {
    auto text = std::string{};
    for (const auto* name : sizes)
        text += cat(static_cast<char>(name[0] - 'a' + 'A'), "P(", Access::given(state).number(name), ")-");
    return cat(text, "Rank(", state.rank(), ")");
}

std::vector<AccessorRow> accessors() {
    using enum Quantity;
    constexpr auto faces = "rank group_ids group world_size first_rank last_rank";
    auto rows =
        accessors_of({{"tp", "tp_group", "group that shares each layer", faces},
                      {"cp", "cp_group", "ring that shares a sequence", faces},
                      {"pp", "pp_group", "pipeline", faces},
                      {"dp", "dp_group", "group of replicas", faces},
                      {"cp_dp", "cp_dp_group", "group that averages gradients", "group_ids group world_size"},
                      {"pp_dp", "pp_dp_group", "group of the pipelines of all replicas", "group world_size"}},
                     "");
    for (auto&& row : std::initializer_list<AccessorRow>{
             {"grid", "", mesh, "The mesh dp pp cp tp; the original has a tensor of ranks."},
             {"global_rank", "*", rank, "This rank."},
             {"world_size", "*", size, "The number of ranks."},
             {"world_group", "*", group, "All ranks."},
             computed("local_rank", Type::number, local_rank, "LOCAL_RANK, else this rank."),
             {"cp_send_rank", "cp_group", next, "The next in the ring, to which this rank sends."},
             {"cp_recv_rank", "cp_group", prev, "The one before in the ring, from which this rank receives."},
             {"pp_is_first_stage", "pp_group", is_first, "True on the first stage."},
             {"pp_is_last_stage", "pp_group", is_last, "True on the last stage."},
             computed("pp_next_rank", Type::maybe_number, stage_beside<+1>,
                      "The rank on the next stage; None on the last."),
             computed("pp_prev_rank", Type::maybe_number, stage_beside<-1>,
                      "The rank on the stage before; None on the first."),
             computed("__str__", Type::word, text, "`TP(2)-CP(2)-PP(2)-DP(1)-Rank(3)`.")})
        rows.push_back(row);
    return rows;
}

Framework framework() {
    return {.name = "picotron",
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
            .accessors = accessors(),
            .check_first = check_first,
            .why = {{"ep, edp, etp", "picotron has no expert parallelism"},
                    {"dp_replicate, dp_shard",
                     "picotron has one data-parallel axis, dp, and does not shard within replicas"},
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
            .ignore = "master_addr master_port backend use_cpu world_size",
            .variable = "process_group_manager"};
}

}  // namespace rankmesh::frameworks::of_picotron
