// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/megatron/process_groups.hpp>

#include <algorithm>
#include <set>

#include <rankmesh/dialect/error.hpp>

#include "dialect/megatron/partitions.hpp"

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

/// A kind of groups, in the original's words.
struct Row {
    std::string_view desc;
    std::string_view axes;     // `expert ` before those of the experts' mesh
    std::string_view section;  // of its options in the file for NCCL; empty: it is on the host
    bool (*when)(const Sizes&) = nullptr;
    std::string_view mesh = {};  // of the plan, where that is neither the dense nor the experts'
    std::string_view name = {};  // of the pick, the channel or the part of each group there
};

bool on_host(const Sizes& s) { return s.create_gloo_process_groups; }
bool of_gathering(const Sizes& s) { return s.create_all_gather_group; }
bool of_remat(const Sizes& s) { return s.gtp_remat_size > 1; }
bool of_expert_remat(const Sizes& s) { return s.expert_gtp_remat_size > 1; }
bool of_instances(const Sizes& s) { return s.num_distributed_optimizer_instances > 1; }
bool of_instances_on_host(const Sizes& s) { return of_instances(s) && on_host(s); }

/// All of them, in the order in which the original first makes one.
const Row rows[] = {
    {"GTP_WEIGHT_REMAT_GROUP", "gtp_remat", "gtp_remat"},
    {"DATA_PARALLEL_GROUP_WITH_CP", "dp-cp", "dp_cp"},
    {"DATA_PARALLEL_GROUP_WITH_CP_AG", "dp-cp", "dp_cp", of_gathering, "", "all_gather"},
    {"DATA_PARALLEL_GROUP_WITH_CP_GLOO", "dp-cp", "", on_host},
    {"INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP", "dp-cp", "intra_dp_cp", of_instances, "partial", "intra"},
    {"INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP_GLOO", "dp-cp", "", of_instances_on_host, "partial", "intra"},
    {"HYBRID_DP_CP_GROUP", "dp-cp", "dp_cp", nullptr, "hybrid", "part"},
    {"DATA_PARALLEL_GROUP", "dp", "dp"},
    {"DATA_PARALLEL_GROUP_GLOO", "dp", "", on_host},
    {"DATA_PARALLEL_GROUP_WITH_GTP_REMAT", "dp-gtp_remat", "gtp_remat_dp", of_remat},
    {"DATA_PARALLEL_GROUP_WITH_CP_WITH_GTP_REMAT", "dp-cp-gtp_remat", "gtp_remat_dp_cp", of_remat},
    {"CONTEXT_PARALLEL_GROUP", "cp", "cp"},
    {"HIERARCHICAL_CONTEXT_PARALLEL_GROUP", "cp", "hcp", nullptr, "hierarchical", "l"},
    {"MODEL_PARALLEL_GROUP", "tp-gtp_remat-pp", "mp"},
    {"TENSOR_MODEL_PARALLEL_GROUP", "tp", "tp"},
    {"PIPELINE_MODEL_PARALLEL_GROUP", "pp", "pp"},
    {"EMBEDDING_GROUP", "pp", "embd", nullptr, "", "embedding"},
    {"POSITION_EMBEDDING_GROUP", "pp", "pos_embd", nullptr, "", "position_embedding"},
    {"TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP", "tp-gtp_remat-dp-cp", "tp_dp_cp"},
    {"TENSOR_AND_DATA_PARALLEL_GROUP", "tp-gtp_remat-dp", "tp_dp"},
    {"TENSOR_AND_CONTEXT_PARALLEL_GROUP", "tp-cp", "tp_cp"},
    {"EXPERT_GTP_WEIGHT_REMAT_GROUP", "expert gtp_remat", "expt_gtp_remat"},
    {"EXPERT_MODEL_PARALLEL_GROUP", "expert ep", "ep"},
    {"EXPERT_TENSOR_PARALLEL_GROUP", "expert tp", "ep_tp"},
    {"EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", "expert tp-ep", "tp_ep_mp"},
    {"EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP", "expert tp-ep-pp", "tp_ep_pp"},
    {"EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP_WITH_EGTP", "expert tp-ep-gtp_remat-pp",
     "tp_ep_gtp_remat_pp"},
    {"EXPERT_DATA_PARALLEL_GROUP", "expert dp", "ep_dp"},
    {"EXPERT_DATA_PARALLEL_GROUP_GLOO", "expert dp", "", on_host},
    {"HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L0", "expert dp", "intra_ep_dp", of_instances, "instances",
     "intra"},
    {"HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_GLOO_L0", "expert dp", "", of_instances_on_host, "instances",
     "intra"},
    {"HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L1", "expert dp", "inter_ep_dp", of_instances, "instances",
     "inter"},
    {"HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_GLOO_L1", "expert dp", "", of_instances_on_host, "instances",
     "inter"},
    {"EXPERT_DATA_PARALLEL_GROUP_WITH_GTP_REMAT", "expert dp-gtp_remat", "ep_gtp_remat_dp", of_expert_remat},
    {"INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP", "expert intra-tp-ep-gtp_remat-pp",
     "intra_dist_opt_instance", nullptr, "instances"},
};

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
    if (const auto own = decoder_.get_ranks("pp"), other = expert_.get_ranks("pp"); !same_groups(own, other))
        throw Error(Fault::sizes, cat("Pipeline parallel groups are expected to be the same for Non-Expert "
                                      "and Expert part, but got ",
                                      listed(own), " and ", listed(other)));
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
        auto distinct = std::set<int>{};
        for (auto stage : stages) {
            if (stage < -dense.pp || stage >= dense.pp)
                throw Error(Fault::out_of_range, cat("an embedding on stage ", stage, " of ", dense.pp,
                                                     "; stages are ", -dense.pp, "..", dense.pp - 1));
            distinct.insert(stage < 0 ? stage + dense.pp : stage);
        }
        if (distinct.size() > Group::max_picked)
            throw Error(Fault::out_of_range, cat("an embedding is on ", distinct.size(), " stages; name ",
                                                 Group::max_picked, " at most"));
    }
    if (edp % instances != 0)
        throw Error(Fault::sizes,
                    "Expert data parallel size should be divisible by partial DistOpt shard factor");
}

void ProcessGroups::add_kinds() {
    const auto ranks = decoder_.arguments().dp * decoder_.arguments().cp;
    const auto instances = sizes_.num_distributed_optimizer_instances;
    auto levels = std::vector<Split>{};
    for (const auto size : sizes_.hierarchical_context_parallel_sizes)
        levels.insert(levels.begin(), {cat("l", levels.size()), size});
    kinds_.reserve(std::size(rows));
    for (const auto& row : rows) {
        if (row.when && !row.when(sizes_)) continue;
        auto token = row.axes;
        const auto of_experts = token.starts_with("expert ");
        if (of_experts) token.remove_prefix(7);
        const auto add = [&](const std::string& number = {}, std::vector<Split> parts = {}) -> Kind& {
            auto& kind = kinds_.emplace_back();
            kind.desc = cat(row.desc, number);
            kind.token = token;
            kind.of_experts = of_experts;
            kind.on_host = row.section.empty();
            kind.mesh = !row.mesh.empty() ? row.mesh : of_experts ? "expert" : "dense";
            kind.name = row.name;
            kind.parts = std::move(parts);
            kind.of_instances = row.mesh == "instances" && row.name.empty();
            if (kind.of_instances)
                for (const auto& name : tokens(token)) kind.axes.insert(instances_->axis(name));
            else
                kind.axes = (of_experts ? expert_ : decoder_).axes(token);
            return kind;
        };
        if (row.mesh == "hybrid") {  // powers of 2 from 2 on, below the last one that fits
            for (int size = 2; sizes_.hybrid_context_parallel && size * 2 <= ranks; size *= 2) {
                auto& kind = add(cat("_", size), {{"parts", ranks / size}, {"part", size}});
                kind.mesh += cat("_", size);
                kind.is_declared = ranks % size == 0;
            }
        } else if (row.mesh == "hierarchical") {
            for (std::size_t level = 0; level < levels.size(); ++level)
                add(cat("_L", level), levels).name += cat(level);
        } else if (row.name == "intra" || row.name == "inter") {
            const auto divided = of_experts ? expert_.arguments().dp : ranks;
            add("", {{"inter", instances}, {"intra", divided / instances}});
        } else {
            auto& kind = add();
            if (kind.name == "embedding") kind.picked = &Sizes::embedding_stages;
            if (kind.name == "position_embedding") kind.picked = &Sizes::position_embedding_stages;
        }
    }
    for (auto& kind : kinds_)
        for (auto part = kind.parts.rbegin(); part != kind.parts.rend() && kind.cut.size == 0; ++part) {
            if (part->first == kind.name)
                kind.cut.size = part->second;
            else
                kind.cut.step *= part->second;
        }
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
    if (kind.picked) return {mesh.partition(kind.axes), sizes_.*kind.picked};
    if (!kind.of_instances) return GroupList(mesh.partition(kind.axes), kind.cut);
    // The original puts the groups of the token one after the other, instance by instance.
    auto order = std::vector<AxisId>{mesh.axis("intra")};
    for (int a = 0; a < mesh.axis_count(); ++a)
        if (mesh.name(AxisId{a}) != "intra" && mesh.name(AxisId{a}) != "inter") order.push_back({a});
    return GroupList(mesh.partition_in_order(std::span<const AxisId>(order)));
}

std::optional<GroupPart> ProcessGroups::group(std::string_view desc, int rank) const {
    const auto& kind = at(desc);
    const auto& mesh = mesh_of(kind);
    if (!mesh.contains(rank)) return std::nullopt;
    auto whole = mesh.group(rank, kind.axes);
    if (kind.picked) whole = whole.pick(sizes_.*kind.picked);
    if (!kind.picked && kind.parts.empty()) return GroupPart(whole, 0, 1, whole.size());
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
    if (!kind.is_declared) return std::nullopt;
    return Location{kind.mesh, kind.name.empty() ? tokens(kind.token) : std::vector{kind.name}};
}

/// The groups along the axes of a kind cut into parts, as a mesh where strides say it, else rank by rank.
Declaration ProcessGroups::cut(const Kind& kind) const {
    auto declared = Declaration{.name = kind.mesh, .axes = std::vector<std::string>{}, .partial = partial_};
    auto parts = std::vector<Axis>{};
    for (const auto& [name, size] : kind.parts) parts.push_back({name, size});
    const auto names = tokens(kind.token);
    const auto views = std::vector<std::string_view>(names.begin(), names.end());
    try {
        declared.mesh = decoder_.mesh().flatten(views, "whole").split("whole", parts);
    } catch (const UsageError&) {  // a part does not end between the digits of the flattened axis
        const auto groups = decoder_.get_ranks(kind.token);
        declared.mesh = Mesh{{"groups", groups.size()}, {"whole", groups.group_size()}}.split("whole", parts);
        declared.placed.resize(groups.rank_count());
        groups.copy_to(declared.placed);
    }
    return declared;
}

Plan ProcessGroups::plan() const {
    auto plan =
        Plan{{.name = "dense",
              .mesh = decoder_.mesh(),
              .picks = {{"pp", sizes_.embedding_stages, "embedding"},
                        {"pp", sizes_.position_embedding_stages, "position_embedding"}},
              .partial = partial_},
             {.name = "expert", .mesh = expert_.mesh(), .partial = partial_},
             {.name = "instances", .mesh = *instances_, .axes = {{"inter", "intra"}}, .partial = partial_}};
    for (const auto& kind : kinds_) {
        if (kind.on_host || !kind.is_declared) continue;
        auto declared = std::ranges::find(plan, kind.mesh, &Declaration::name);
        if (declared == plan.end()) declared = plan.insert(plan.end(), cut(kind));
        if (kind.name.empty()) {
            if (const auto names = tokens(kind.token); names.size() > 1)
                declared->over.push_back(Axes(names));
        } else if (kind.name == "all_gather") {
            declared->over.push_back(Axes("dp", "cp").separate("all_gather"));
        } else if (!kind.picked && kind.mesh != "instances") {
            declared->axes->push_back(kind.name);
        }
    }
    return plan;
}

Plan plan(const Sizes& sizes, int world_size) { return ProcessGroups(sizes, world_size).plan(); }

std::vector<std::pair<std::string_view, std::string_view>> nccl_sections() {
    auto sections = std::vector<std::pair<std::string_view, std::string_view>>{};
    for (const auto& row : rows) sections.emplace_back(row.desc, row.section);
    return sections;
}

}  // namespace rankmesh::megatron
