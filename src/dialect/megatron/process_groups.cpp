// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/megatron/process_groups.hpp>

#include <algorithm>

#include <rankmesh/dialect/error.hpp>

namespace rankmesh::megatron {

using detail::cat;
using dialect::Error;
using dialect::Fault;
using dialect::Refusal;

namespace {

std::int64_t product(const std::vector<int>& sizes) {
    auto product = std::int64_t{1};
    for (auto size : sizes) product *= size;
    return product;
}

/// What is left of the world after these sizes; `what` is what the original calls them.
int rest_of(int world, const std::vector<int>& sizes, std::string_view what) {
    const auto known = product(sizes);
    if (world % known != 0)
        throw Error(Fault::sizes, cat("world_size (", world, ") is not divisible by ", what, known,
                                      what.empty() ? "" : ")"));
    return static_cast<int>(world / known);
}

int local_world(const Sizes& s, int world) {
    const auto needed = {s.tensor_model_parallel_size,
                         s.pipeline_model_parallel_size,
                         s.virtual_pipeline_model_parallel_size.value_or(1),
                         s.context_parallel_size,
                         s.expert_model_parallel_size,
                         s.gtp_remat_size,
                         s.expert_gtp_remat_size,
                         s.num_distributed_optimizer_instances,
                         s.expert_tensor_parallel_size.value_or(1),
                         s.local_world_size.value_or(1),
                         world};
    const auto least =
        std::min(std::ranges::min(needed), s.hierarchical_context_parallel_sizes.empty()
                                               ? 1
                                               : std::ranges::min(s.hierarchical_context_parallel_sizes));
    if (least < 1)
        throw Refusal(Fault::sizes, "sizes-below-one",
                      cat("a size of ", least, " was given; every size is 1 or more"));
    if ((s.gtp_remat_size > 1 || s.expert_gtp_remat_size > 1) && s.num_distributed_optimizer_instances > 1)
        throw Error(Fault::exclusive,
                    "GTP_remat with num_distributed_optimizer_instances > 1 is not yet supported.");
    return s.local_world_size.value_or(world);
}

RankGenerator decoder(const Sizes& s, int world) {
    const auto dp = rest_of(world,
                            {s.tensor_model_parallel_size, s.pipeline_model_parallel_size,
                             s.context_parallel_size, s.gtp_remat_size},
                            "");
    if (s.virtual_pipeline_model_parallel_size && s.pipeline_model_parallel_size < 2)
        throw Error(Fault::sizes,
                    "pipeline-model-parallel size should be greater than 1 with interleaved schedule");
    return RankGenerator({.tp = s.tensor_model_parallel_size,
                          .dp = dp,
                          .pp = s.pipeline_model_parallel_size,
                          .cp = s.context_parallel_size,
                          .order = inject_gtp_remat_axis(s.order, "tp"),
                          .rank_offset = s.rank_offset,
                          .gtp_remat = s.gtp_remat_size});
}

RankGenerator expert(const Sizes& s, int world) {
    const auto etp = s.expert_tensor_parallel_size.value_or(s.tensor_model_parallel_size);
    const auto dp = rest_of(
        world, {etp, s.expert_model_parallel_size, s.pipeline_model_parallel_size, s.expert_gtp_remat_size},
        "expert_tensor_model_pipeline_parallel size (");
    return RankGenerator({.tp = etp,
                          .ep = s.expert_model_parallel_size,
                          .dp = dp,
                          .pp = s.pipeline_model_parallel_size,
                          .order = inject_gtp_remat_axis(s.order, "ep"),
                          .rank_offset = s.rank_offset,
                          .gtp_remat = s.expert_gtp_remat_size});
}

/// The sizes of hybrid groups: powers of 2 from 2 on, below the last one that fits.
std::vector<int> hybrid_sizes(int ranks) {
    auto sizes = std::vector<int>{};
    for (int size = 2; size * 2 <= ranks; size *= 2) sizes.push_back(size);
    return sizes;
}

}  // namespace

ProcessGroups::ProcessGroups(const Sizes& sizes, int world_size)
    : sizes_(sizes),
      decoder_(decoder(sizes, local_world(sizes, world_size))),
      expert_(expert(sizes, local_world(sizes, world_size))),
      partial_(decoder_.world_size() != world_size) {
    check(world_size);
    instances_ =
        expert_.mesh().split("dp", {{"inter", sizes.num_distributed_optimizer_instances}, {"intra", rest}});
    add_kinds();
}

/// What the original asserts in the midst of creating groups, in its order.
void ProcessGroups::check(int world_size) const {
    const auto& dense = decoder_.arguments();
    const auto dp = dense.dp;
    const auto edp = expert_.arguments().dp;
    if (!sizes_.order.ends_with("pp") && dense.pp != 1 && edp != dp)
        throw Error(Fault::sizes,
                    "When not using pp-last rank ordering, the data parallel size of the attention and moe "
                    "layers must be the same");
    if (!same_groups(decoder_.mesh(), decoder_.axes("pp"), expert_.mesh(), expert_.axes("pp")))
        throw Error(Fault::sizes,
                    cat("Pipeline parallel groups are expected to be the same for Non-Expert "
                        "and Expert part, but got ",
                        listed(decoder_.get_ranks("pp")), " and ", listed(expert_.get_ranks("pp"))));
    const auto with_cp = dp * dense.cp;
    const auto instances = sizes_.num_distributed_optimizer_instances;
    if (with_cp % instances != 0)
        throw Error(Fault::sizes, "Data parallel size should be divisible by partial DistOpt shard factor");
    if (decoder_.mesh().extent() > world_size)
        throw Error(Fault::out_of_range,
                    cat("the groups would reach rank ", decoder_.mesh().extent() - 1, " of a world of ",
                        world_size, "; rank_offset and local_world_size stay inside it"));
    if (sizes_.hybrid_context_parallel && with_cp % 2 != 0)
        throw Error(Fault::sizes, "Hybrid context parallel requires an even number of ranks");
    const auto& levels = sizes_.hierarchical_context_parallel_sizes;
    if (!levels.empty() && product(levels) != dense.cp)
        throw Error(Fault::sizes, cat("the hierarchical_context_parallel_sizes make ", product(levels),
                                      ", not the context_parallel_size of ", dense.cp));
    for (const auto* each : {&sizes_.embedding_stages, &sizes_.position_embedding_stages}) {
        const auto& stages = *each;
        if (stages.empty()) throw Error(Fault::missing, "an embedding is on no stage; name at least one");
        for (auto stage : stages)
            if (stage < -dense.pp || stage >= dense.pp)
                throw Error(Fault::out_of_range, cat("an embedding on stage ", stage, " of ", dense.pp,
                                                     "; stages are ", -dense.pp, "..", dense.pp - 1));
    }
    if (edp % instances != 0)
        throw Error(Fault::sizes,
                    "Expert data parallel size should be divisible by partial DistOpt shard factor");
}

void ProcessGroups::add_kinds() {
    const auto& dense = decoder_.arguments();
    const auto with_cp = dense.dp * dense.cp;
    const auto instances = sizes_.num_distributed_optimizer_instances;
    const auto gloo = sizes_.create_gloo_process_groups;
    const auto add = [this](Kind kind) {
        if (kind.mesh.empty()) kind.mesh = kind.of_experts ? "expert" : "dense";
        if (kind.of_instances)
            for (const auto& name : kind.names) kind.axes.insert(instances_->axis(name));
        else
            kind.axes = (kind.of_experts ? expert_ : decoder_).axes(kind.token);
        kinds_.push_back(std::move(kind));
    };
    // Made twice: for the device, and under another name for the host.
    const auto add_both = [&](const Kind& kind, const std::string& host) {
        add(kind);
        if (!gloo) return;
        add(kind);
        kinds_.back().desc = host;
    };

    add({"GTP_WEIGHT_REMAT_GROUP", "gtp_remat"});
    add({"DATA_PARALLEL_GROUP_WITH_CP", "dp-cp"});
    if (sizes_.create_all_gather_group)
        add({.desc = "DATA_PARALLEL_GROUP_WITH_CP_AG", .token = "dp-cp", .names = {"all_gather"}});
    if (gloo) add({"DATA_PARALLEL_GROUP_WITH_CP_GLOO", "dp-cp"});
    if (instances > 1)
        add_both({.desc = "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP",
                  .token = "dp-cp",
                  .cut = {.size = with_cp / instances},
                  .mesh = "partial",
                  .names = {"intra"}},
                 "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP_GLOO");
    if (sizes_.hybrid_context_parallel)
        for (auto size : hybrid_sizes(with_cp))
            add({.desc = cat("HYBRID_DP_CP_GROUP_", size),
                 .token = "dp-cp",
                 .cut = {.size = size},
                 .mesh = cat("hybrid_", size),
                 .names = {"part"}});
    add_both({"DATA_PARALLEL_GROUP", "dp"}, "DATA_PARALLEL_GROUP_GLOO");
    if (dense.gtp_remat > 1) {
        add({"DATA_PARALLEL_GROUP_WITH_GTP_REMAT", "dp-gtp_remat"});
        add({"DATA_PARALLEL_GROUP_WITH_CP_WITH_GTP_REMAT", "dp-cp-gtp_remat"});
    }
    add({"CONTEXT_PARALLEL_GROUP", "cp"});
    auto step = 1;
    for (auto level = 0; auto size : sizes_.hierarchical_context_parallel_sizes) {
        add({.desc = cat("HIERARCHICAL_CONTEXT_PARALLEL_GROUP_L", level),
             .token = "cp",
             .cut = {.size = size, .step = step},
             .mesh = "hierarchical",
             .names = {cat("l", level)}});
        step *= size;
        ++level;
    }
    add({"MODEL_PARALLEL_GROUP", "tp-gtp_remat-pp"});
    add({"TENSOR_MODEL_PARALLEL_GROUP", "tp"});
    add({"PIPELINE_MODEL_PARALLEL_GROUP", "pp"});
    add({.desc = "EMBEDDING_GROUP",
         .token = "pp",
         .picked = &Sizes::embedding_stages,
         .names = {"embedding"}});
    add({.desc = "POSITION_EMBEDDING_GROUP",
         .token = "pp",
         .picked = &Sizes::position_embedding_stages,
         .names = {"position_embedding"}});
    add({"TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP", "tp-gtp_remat-dp-cp"});
    add({"TENSOR_AND_DATA_PARALLEL_GROUP", "tp-gtp_remat-dp"});
    add({"TENSOR_AND_CONTEXT_PARALLEL_GROUP", "tp-cp"});

    add({"EXPERT_GTP_WEIGHT_REMAT_GROUP", "gtp_remat", true});
    add({"EXPERT_MODEL_PARALLEL_GROUP", "ep", true});
    add({"EXPERT_TENSOR_PARALLEL_GROUP", "tp", true});
    add({"EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", "tp-ep", true});
    add({"EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP", "tp-ep-pp", true});
    add({"EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP_WITH_EGTP", "tp-ep-gtp_remat-pp", true});
    add_both({"EXPERT_DATA_PARALLEL_GROUP", "dp", true}, "EXPERT_DATA_PARALLEL_GROUP_GLOO");
    if (instances > 1) {
        const auto intra = expert_.arguments().dp / instances;
        add_both({.desc = "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L0",
                  .token = "dp",
                  .of_experts = true,
                  .cut = {.size = intra},
                  .mesh = "instances",
                  .names = {"intra"}},
                 "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_GLOO_L0");
        add_both({.desc = "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L1",
                  .token = "dp",
                  .of_experts = true,
                  .cut = {.size = instances, .step = intra},
                  .mesh = "instances",
                  .names = {"inter"}},
                 "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_GLOO_L1");
    }
    if (expert_.arguments().gtp_remat > 1)
        add({"EXPERT_DATA_PARALLEL_GROUP_WITH_GTP_REMAT", "dp-gtp_remat", true});
    add({.desc = "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP",
         .token = "tp-ep-gtp_remat-pp",
         .of_experts = true,
         .mesh = "instances",
         .names = {"intra", "tp", "ep", "gtp_remat", "pp"},
         .of_instances = true});
}

const ProcessGroups::Kind* ProcessGroups::find(std::string_view desc) const {
    const auto found = std::ranges::find(kinds_, desc, &Kind::desc);
    return found == kinds_.end() ? nullptr : &*found;
}

const ProcessGroups::Kind& ProcessGroups::at(std::string_view desc) const {
    if (const auto* kind = find(desc)) return *kind;
    throw Error(Fault::unknown, cat("these sizes give no group '", desc, "'"));
}

std::vector<std::string> ProcessGroups::descriptions() const {
    auto all = std::vector<std::string>{};
    for (const auto& kind : kinds_) all.push_back(kind.desc);
    return all;
}

GroupList ProcessGroups::groups(std::string_view desc) const {
    const auto& kind = at(desc);
    const auto& mesh = mesh_of(kind);
    if (kind.picked) return {mesh, kind.axes, sizes_.*kind.picked};
    if (!kind.of_instances) return {mesh, kind.axes, kind.cut};
    // The original puts the groups of the token one after the other, instance by instance.
    auto order = std::vector<AxisId>{mesh.axis("intra")};
    for (int a = 0; a < mesh.axis_count(); ++a)
        if (mesh.name(AxisId{a}) != "intra" && mesh.name(AxisId{a}) != "inter") order.push_back({a});
    return {mesh, std::span<const AxisId>(order)};
}

std::optional<GroupPart> ProcessGroups::group(std::string_view desc, int rank) const {
    // What groups(desc).of(rank) is, without the list.
    const auto& kind = at(desc);
    const auto& mesh = mesh_of(kind);
    if (!mesh.contains(rank)) return std::nullopt;
    auto whole = mesh.group(rank, kind.axes);
    if (kind.picked) whole = whole.pick(sizes_.*kind.picked);
    if (!kind.picked && kind.cut.size == 0) return GroupPart(whole, 0, 1, whole.size());
    const auto position = whole.group_rank(rank);
    return position ? std::optional(dialect::part_of(whole, kind.cut, *position)) : std::nullopt;
}

int ProcessGroups::new_group_calls() const {
    auto calls = 0;
    for (const auto& kind : kinds_) calls += groups(kind.desc).size();
    return calls;
}

std::optional<ProcessGroups::Location> ProcessGroups::location(std::string_view desc) const {
    const auto& kind = at(desc);
    const auto ranks = decoder_.arguments().dp * decoder_.arguments().cp;
    if (kind.mesh.starts_with("hybrid_") && ranks % kind.cut.size != 0) return std::nullopt;
    return Location{kind.mesh, kind.names.empty() ? tokens(kind.token) : kind.names};
}

/// The groups along a token cut into parts, as a mesh where strides say it, else rank by rank.
Declaration ProcessGroups::cut(std::string name, std::string_view token, const std::vector<Axis>& parts,
                               std::vector<std::string> axes) const {
    auto declared = Declaration{.name = std::move(name), .axes = std::move(axes), .partial = partial_};
    const auto& mesh = decoder_.mesh();
    const auto names = tokens(token);
    const auto views = std::vector<std::string_view>(names.begin(), names.end());
    try {
        declared.mesh = mesh.flatten(views, "whole").split("whole", parts);
    } catch (const UsageError&) {  // a part does not end between the digits of the flattened axis
        const auto groups = decoder_.get_ranks(token);
        declared.mesh = Mesh{{"groups", groups.size()}, {"whole", groups.group_size()}}.split("whole", parts);
        declared.placed.resize(static_cast<std::size_t>(mesh.size()));
        groups.copy_to(declared.placed);
    }
    return declared;
}

Plan ProcessGroups::plan() const {
    // Equal groups share a channel, so what these sizes do not need costs nothing.
    auto plan = Plan{
        {.name = "dense",
         .mesh = decoder_.mesh(),
         .over = {{"dp", "cp"},
                  {"dp", "gtp_remat"},
                  {"dp", "cp", "gtp_remat"},
                  {"tp", "gtp_remat", "pp"},
                  {"tp", "gtp_remat", "dp", "cp"},
                  {"tp", "gtp_remat", "dp"},
                  {"tp", "cp"}},
         .picks = {{"pp", sizes_.embedding_stages, "embedding"},
                   {"pp", sizes_.position_embedding_stages, "position_embedding"}},
         .partial = partial_},
        {.name = "expert",
         .mesh = expert_.mesh(),
         .over = {{"tp", "ep"}, {"tp", "ep", "pp"}, {"tp", "ep", "gtp_remat", "pp"}, {"dp", "gtp_remat"}},
         .partial = partial_},
        {.name = "instances",
         .mesh = *instances_,
         .over = {{"intra", "tp", "ep", "gtp_remat", "pp"}},
         .axes = {{"inter", "intra"}},
         .partial = partial_}};
    if (sizes_.create_all_gather_group) plan.front().over.push_back(Axes("dp", "cp").separate("all_gather"));
    const auto with_cp = decoder_.arguments().dp * decoder_.arguments().cp;
    if (const auto inter = sizes_.num_distributed_optimizer_instances; inter > 1)
        plan.push_back(cut("partial", "dp-cp", {{"inter", inter}, {"intra", with_cp / inter}}, {"intra"}));
    if (sizes_.hybrid_context_parallel)
        for (auto size : hybrid_sizes(with_cp))
            if (with_cp % size == 0)
                plan.push_back(cut(cat("hybrid_", size), "dp-cp", {{"parts", with_cp / size}, {"part", size}},
                                   {"part"}));
    if (const auto& sizes = sizes_.hierarchical_context_parallel_sizes; !sizes.empty()) {
        auto names = std::vector<std::string>{};
        for (std::size_t level = 0; level < sizes.size(); ++level) names.push_back(cat("l", level));
        auto parts = std::vector<Axis>{};
        for (auto level = sizes.size(); level-- > 0;) parts.push_back({names[level], sizes[level]});
        plan.push_back(cut("hierarchical", "cp", parts, names));
    }
    return plan;
}

Plan plan(const Sizes& sizes, int world_size) { return ProcessGroups(sizes, world_size).plan(); }

}  // namespace rankmesh::megatron
