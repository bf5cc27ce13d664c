// SPDX-License-Identifier: Apache-2.0
// What OLMo-core's pipeline configuration and schedule answer.
#include <algorithm>
#include <numeric>

#include "frameworks/olmo/olmo.hpp"

namespace rankmesh::frameworks::of_olmo {

namespace {

int at_least_one(const Given& options, const char* name, std::string_view shown) {
    const auto number = options.number(name);
    if (number < 1)
        throw Refusal(Fault::sizes, "sizes-below-one", shown, " is ", number, "; it must be 1 or more");
    return number;
}

const std::string& schedule_in(const Given& options) {
    return known(options, "schedule",
                 {"1F1B", "Interleaved1F1B", "GPipe", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble",
                  "Custom1F1B", "CustomInterleaved1F1B", "Custom1F1BV"},
                 "Invalid pipeline schedule '");
}

bool has_single_stage(const Given& options) {
    const auto& schedule = schedule_in(options);
    return schedule == "1F1B" || schedule == "GPipe" || schedule == "Custom1F1B";
}

std::string style_in(const Given& options) {
    const auto& schedule = schedule_in(options);
    if (!options.has("style") || options.is_none("style"))
        return schedule == "ZBVZeroBubble" || schedule == "Custom1F1BV" ? "v" : "loop";
    const auto& style = known(options, "style", {"loop", "v"}, "Invalid pipeline split style '");
    refuse_if(schedule == "Custom1F1BV" && style != "v", Fault::exclusive,
              "custom_1F1B_V requires pipeline split style 'v'");
    refuse_if(schedule == "CustomInterleaved1F1B" && style != "loop", Fault::exclusive,
              "custom_interleaved_1F1B requires pipeline split style 'loop'; use custom_1F1B_V for "
              "V-shaped placement");
    return style;
}

std::vector<int> completion_order(const Given& options) {
    const auto degree = at_least_one(options, "degree", "PipelineParallelConfig.degree");
    auto ranks = std::vector<int>(static_cast<std::size_t>(degree));
    std::iota(ranks.begin(), ranks.end(), 0);
    if (style_in(options) == "loop") std::ranges::reverse(ranks);
    return ranks;
}

Value stage_ids(const State&, const Given& options) {
    const auto degree = at_least_one(options, "degree", "PipelineParallelConfig.degree");
    const auto stages = at_least_one(options, "num_stages", "num_stages"), rank = options.number("pp_rank");
    refuse_if(stages % degree != 0, Fault::sizes, "num_stages ", stages,
              " must be evenly divisible by pipeline size ", degree);
    const auto is_loop = style_in(options) == "loop";
    refuse_if(!is_loop && stages / degree != 2, Fault::sizes, "v schedules assume 2 stages per rank, got ",
              stages / degree);
    if (rank < 0 || rank >= degree)
        throw Refusal(Fault::out_of_range, "rank-outside", "rank ", rank, " of a pipeline of ", degree,
                      "; its ranks are 0..", degree - 1);
    if (!is_loop) return std::vector{rank, stages - 1 - rank};
    auto own = std::vector<int>{};
    for (int stage = rank; stage < stages; stage += degree) own.push_back(stage);
    return own;
}

Value p2p_process_group(const State& state, const Given& options) {
    const auto& backend = known(options, "p2p_backend", {"nccl", "nccl_rma", "nccl_rma_ack", "nccl_device"},
                                "Invalid pipeline P2P backend '");
    const auto apart = options.flag("p2p_use_separate_group");
    const auto least = options.value("p2p_nccl_min_ctas"), most = options.value("p2p_nccl_max_ctas");
    const auto is_given = least != Value() || most != Value();
    refuse_if(is_given && backend != "nccl", Fault::exclusive,
              "p2p_nccl_min_ctas/p2p_nccl_max_ctas only apply to p2p_backend='nccl'");
    for (const auto* name : {"p2p_nccl_min_ctas", "p2p_nccl_max_ctas"})
        refuse_if(!options.is_none(name) && options.number(name) <= 0, Fault::sizes, name,
                  " must be positive, and is ", options.number(name));
    if (least != Value() && most != Value() && std::get<int>(least) > std::get<int>(most))
        throw Error(Fault::sizes, "p2p_nccl_min_ctas cannot exceed p2p_nccl_max_ctas, and ",
                    std::get<int>(least), " does ", std::get<int>(most));
    refuse_if(backend == "nccl_device", Fault::exclusive,
              "p2p_backend='nccl_device' is reserved but not implemented yet");
    refuse_if(is_given && !apart, Fault::exclusive,
              "p2p_nccl_min_ctas/p2p_nccl_max_ctas require p2p_use_separate_group=True");
    if (!apart) return {};
    const auto mesh = mesh_in(state, options);
    const auto names = mesh.mesh_dim_names();
    refuse_if(!names, Fault::missing, "could not build PP P2P groups without mesh dimension names");
    if (!holds(*names, "pp"))
        throw Error(Fault::unknown, "could not build PP P2P groups from mesh with dimensions ",
                    to_string(*names));
    const auto group = mesh.get_group("pp");
    return std::vector<int>(group.begin(), group.end());
}

Value num_microbatches(const State&, const Given& options) {
    const auto stages = options.number("stages");
    const auto& schedule = schedule_in(options);
    refuse_if(stages == 0, Fault::missing, "a pipeline schedule without stages was asked for");
    refuse_if(schedule == "Custom1F1B", Fault::argument, "Custom 1F1B schedule is not implemented yet.");
    refuse_if(schedule.starts_with("Custom") && stages != 2, Fault::sizes,
              "Interleaved 1F1B requires exactly 2 stages per rank, got ", stages);
    refuse_if(has_single_stage(options) && stages > 1, Fault::sizes, "Expected a single stage for '",
              schedule, "' pipeline schedule");
    refuse_if(!has_single_stage(options) && stages < 2, Fault::sizes,
              "Multi-stage schedule expects at least two stages but got ", stages);
    return options.is_none("num_microbatches")
               ? options.value("pp_size")
               : at_least_one(options, "num_microbatches", "num_microbatches");
}

}  // namespace

std::vector<AccessorRow> of_pipelines() {
    using enum Quantity;
    const auto degree = required("degree"), schedule = required("schedule", Type::word);
    const auto style = Setting{"style", Type::maybe_word};
    auto p2p = computed("build_p2p_process_group", Type::number, p2p_process_group,
                        "The ranks of the pipeline, where its activations and gradients have a communicator "
                        "of their own; None unless `p2p_use_separate_group` is true.",
                        {required("device_mesh", Type::mesh),
                         {"p2p_use_separate_group", Type::flag},
                         {"p2p_backend", Type::word, {}, "nccl"},
                         optional("p2p_nccl_min_ctas"),
                         optional("p2p_nccl_max_ctas")},
                        ranks);
    p2p.without = Value();
    return {computed("is_single_stage", Type::flag,
                     [](const State&, const Given& options) -> Value { return has_single_stage(options); },
                     "True for schedules that run one stage a rank.", {schedule}),
            computed("infer_style", Type::word,
                     [](const State&, const Given& options) -> Value { return style_in(options); },
                     "The style given, else the schedule's own.", {schedule, style}),
            computed(
                "rank_completion_order", Type::number,
                [](const State&, const Given& options) -> Value { return completion_order(options); },
                "The ranks of the pipeline in the order in which they complete a batch.",
                {degree, schedule, style}, ranks),
            computed(
                "final_stage_rank", Type::number,
                [](const State&, const Given& options) -> Value { return completion_order(options).front(); },
                "The rank of the pipeline that has the last stage.", {degree, schedule, style}),
            computed("stage_ids_this_rank", Type::number, stage_ids,
                     "The stages of one rank of the pipeline: every degree-th, or two from both ends.",
                     {required("pp_rank"), required("num_stages"), degree, schedule, style}, ranks),
            computed("num_microbatches", Type::number, num_microbatches,
                     "The microbatches of a schedule of so many stages of this rank, which it checks.",
                     {required("stages"), required("pp_size"), schedule, optional("num_microbatches")}),
            std::move(p2p)};
}

}  // namespace rankmesh::frameworks::of_olmo
