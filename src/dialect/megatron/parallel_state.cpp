// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/megatron/parallel_state.hpp>

#include <algorithm>

#include <rankmesh/dialect/error.hpp>
#include <rankmesh/dialect/member.hpp>

namespace rankmesh::megatron {

using detail::cat;
using dialect::Error;
using dialect::Fault;

using Ranks = ParallelRanks;

#define RANKMESH_GROUP(name, desc, missing, sentence) const Ranks::Named Ranks::name = {desc, missing};
RANKMESH_MEGATRON_GROUPS(RANKMESH_GROUP)
#undef RANKMESH_GROUP
const Ranks::Named Ranks::all_gather = {"DATA_PARALLEL_GROUP_WITH_CP_AG",
                                        "data parallel group with context parallel AG is not initialized"};

// --- which group an option means

std::string_view Ranks::made_of(std::initializer_list<std::string_view> descriptions) const {
    for (const auto desc : descriptions)
        if (!desc.empty() && groups_ && groups_->contains(desc)) return desc;
    return *(descriptions.end() - 1);
}

Ranks::Named Ranks::data_parallel(const DataParallel& which) const {
    const auto gtp = which.with_gtp_remat;
    if (which.partial_data_parallel && !which.with_context_parallel)
        throw Error(Fault::missing, "Partial DP for Optimizer needs to include CP");
    if (which.independent_all_gather && which.with_context_parallel && !which.partial_data_parallel)
        return all_gather;
    if (!which.with_context_parallel)
        return {made_of({gtp ? "DATA_PARALLEL_GROUP_WITH_GTP_REMAT" : "", "DATA_PARALLEL_GROUP"}),
                "data parallel group is not initialized", gtp};
    return {made_of({which.partial_data_parallel ? "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP" : "",
                     gtp ? "DATA_PARALLEL_GROUP_WITH_CP_WITH_GTP_REMAT" : "", "DATA_PARALLEL_GROUP_WITH_CP"}),
            which.partial_data_parallel ? "intra partial data parallel group with CP is not initialized"
                                        : "data parallel group with CP is not initialized",
            gtp};
}

Ranks::Named Ranks::data_parallel_gloo(const DataParallel& which) const {
    if (which.with_context_parallel && which.partial_data_parallel)
        return {
            made_of({"INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP_GLOO", "DATA_PARALLEL_GROUP_WITH_CP_GLOO"}),
            "Intra partial data parallel group is not initialized"};
    if (which.with_context_parallel)
        return {"DATA_PARALLEL_GROUP_WITH_CP_GLOO",
                "data parallel group-gloo with context parallel combined is not initialized"};
    const auto named = Named{"DATA_PARALLEL_GROUP_GLOO", "data parallel group-gloo is not initialized"};
    if (which.partial_data_parallel) {
        ranks(named);
        throw Error(Fault::missing, "Partial DP for Optimizer needs to include CP");
    }
    return named;
}

Ranks::Named Ranks::data_parallel_src(bool with_context_parallel) {
    if (with_context_parallel)
        return {"DATA_PARALLEL_GROUP_WITH_CP",
                "Data parallel group with context parallel combined is not initialized"};
    return {"DATA_PARALLEL_GROUP", "Data parallel group is not initialized"};
}

Ranks::Named Ranks::expert_data_parallel(const ExpertDataParallel& which) const {
    const auto partial = which.partial_expert_data_parallel;
    const auto gtp = which.with_gtp_remat;
    return {made_of({partial ? "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L0" : "",
                     gtp ? "EXPERT_DATA_PARALLEL_GROUP_WITH_GTP_REMAT" : "", "EXPERT_DATA_PARALLEL_GROUP"}),
            partial ? "Intra partial expert data parallel group is not initialized"
                    : "Expert data parallel group is not initialized",
            gtp};
}

Ranks::Named Ranks::expert_data_parallel_gloo(const ExpertDataParallel& which) const {
    if (!which.partial_expert_data_parallel)
        return {"EXPERT_DATA_PARALLEL_GROUP_GLOO", "Expert data parallel group-gloo is not initialized"};
    return {made_of({"HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_GLOO_L0", "EXPERT_DATA_PARALLEL_GROUP_GLOO"}),
            "Intra partial expert data parallel group-gloo is not initialized"};
}

Ranks::Named Ranks::expert_tensor_model_pipeline(bool with_egtp_remat) {
    if (with_egtp_remat)
        return {"EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP_WITH_EGTP",
                "Expert tensor-model-pipeline parallel group with EGTP is not initialized"};
    return {"EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP",
            "Expert tensor-model-pipeline parallel group is not initialized"};
}

Ranks::Named Ranks::tensor_and_data(bool with_context_parallel) {
    return {
        with_context_parallel ? "TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP" : "TENSOR_AND_DATA_PARALLEL_GROUP",
        "tensor and data parallel group is not initialized"};
}

Ranks::Named Ranks::amax_reduction(bool with_context_parallel, bool tp_only_amax_red) {
    auto named = !tp_only_amax_red       ? tensor_and_data(with_context_parallel)
                 : with_context_parallel ? tensor_and_context_parallel
                                         : tensor_model_parallel;
    named.missing = "FP8 amax reduction group is not initialized";
    return named;
}

std::vector<std::string> Ranks::hierarchical() const {
    auto levels = std::vector<std::string>{};
    if (groups_)
        for (auto& desc : groups_->descriptions())
            if (desc.starts_with("HIERARCHICAL_CONTEXT_PARALLEL_GROUP_L")) levels.push_back(std::move(desc));
    if (levels.empty() || !find(levels[0]))
        throw Error(Fault::not_initialised,
                    "hierarchical context parallel groups are not initialized; give "
                    "hierarchical_context_parallel_sizes");
    return levels;
}

std::string Ranks::hybrid(int group_size) const {
    if (get_data_parallel_world_size({.with_context_parallel = true}) == group_size)
        return "DATA_PARALLEL_GROUP_WITH_CP";
    auto desc = cat("HYBRID_DP_CP_GROUP_", group_size);
    if (!groups_ || !groups_->contains(desc))
        throw Error(Fault::unknown, cat("there is no hybrid group of size ", group_size));
    return desc;
}

std::optional<GroupPart> Ranks::find(std::string_view desc) const {
    if (!groups_ || !groups_->contains(desc)) return std::nullopt;
    return groups_->group(desc, rank_);
}

GroupPart Ranks::ranks(const Named& named) const {
    if (const auto found = find(named.desc)) return *found;
    auto text = std::string(named.missing);
    if (named.with_gtp_remat) text.insert(text.find(" is not"), " (with GTP_remat)");
    if (groups_ && groups_->contains(named.desc))
        throw Error(Fault::not_member, cat(text, ": rank ", rank_, " is in none of the groups"));
    throw Error(Fault::not_initialised, text);
}

// --- made, unmade

void Ranks::enter(int rank, int world_size) {
    dialect::check_rank(rank, world_size);
    if (groups_) throw Error(Fault::exists, "data parallel group is already initialized");
    rank_ = rank;
    world_size_ = world_size;
}

void Ranks::initialize(const Sizes& sizes) {
    if (!world_size_)
        throw Error(Fault::not_initialised, "no world is known; give the rank and the size of the world");
    auto groups = ProcessGroups(sizes, *world_size_);
    if (is_initialized()) throw Error(Fault::exists, "data parallel group is already initialized");
    groups_ = std::move(groups);
    if (sizes.virtual_pipeline_model_parallel_size) {
        set_.virtual_pipeline_model_parallel_rank = 0;
        set_.virtual_pipeline_model_parallel_world_size = sizes.virtual_pipeline_model_parallel_size;
    }
}

void Ranks::destroy() {
    groups_.reset();
    set_ = {};
}

const ProcessGroups& Ranks::process_groups() const {
    if (!groups_) throw Error(Fault::not_initialised, "model parallel group is not initialized");
    return *groups_;
}

// --- stages

bool Ranks::is_virtual_stage(const Stage& stage, int wanted) const {
    if (stage.ignore_virtual || !set_.virtual_pipeline_model_parallel_world_size) return true;
    if (!stage.vp_stage)
        throw Error(Fault::missing, "vp_stage must be passed if virtual pipeline is enabled");
    return *stage.vp_stage == wanted;
}

bool Ranks::is_last_stage(const Stage& stage) const {
    return is_virtual_stage(stage, set_.virtual_pipeline_model_parallel_world_size.value_or(0) - 1) &&
           get_pipeline_model_parallel_rank() == get_pipeline_model_parallel_world_size() - 1;
}

bool Ranks::holds_embedding(const Stage& stage) const {
    if (!find(embedding.desc)) return false;
    if (stage.ignore_virtual) return true;
    const auto& listed = process_groups().sizes().embedding_stages;  // in the order of get_embedding_ranks
    if (rank_ == in_pipeline(listed.front())) return is_pipeline_first_stage(stage);
    if (rank_ == in_pipeline(listed.back())) return is_pipeline_last_stage(stage);
    return true;
}

/// A stage may be counted from the end, as an index in Python.
int Ranks::in_pipeline(int stage) const {
    const auto pipeline = ranks({pipeline_model_parallel.desc, "Pipeline parallel group is not initialized"});
    if (stage < -pipeline.size() || stage >= pipeline.size())
        throw Error(Fault::out_of_range, cat("stage ", stage, " of a pipeline of ", pipeline.size()));
    return pipeline[stage < 0 ? stage + pipeline.size() : stage];
}

int Ranks::last_in_pipeline() const {
    in_pipeline(0);
    return in_pipeline(get_pipeline_model_parallel_world_size() - 1);
}

int Ranks::around_pipeline(int by) const {
    in_pipeline(0);
    const auto stages = get_pipeline_model_parallel_world_size();
    if (stages == 0) throw Error(Fault::sizes, "the next stage of 0 stages");
    const auto left = (get_pipeline_model_parallel_rank() + by) % stages;
    return in_pipeline(left != 0 && (left < 0) != (stages < 0) ? left + stages : left);
}

std::string Ranks::all_ranks() const {
    return cat(get_tensor_model_parallel_rank(), "_", get_gtp_weight_remat_rank(), "_",
               get_data_parallel_rank(), "_", get_context_parallel_rank(), "_",
               get_pipeline_model_parallel_rank(), "_", get_expert_model_parallel_rank());
}

// --- live

namespace {

constexpr auto joined_with = "megatron::plan(sizes, world_size)";

/// Without a local world the groups cover the whole one.
int world_of(const Member& member, const Sizes& sizes) {
    if (sizes.local_world_size)
        return std::max(member.rank() + 1, sizes.rank_offset + *sizes.local_world_size);
    return dialect::place(member, "dense", joined_with).mesh().size();
}

}  // namespace

ParallelState::ParallelState(const Member& member, const Sizes& sizes)
    : ParallelGroups(member.rank(), world_of(member, sizes)) {
    initialize(sizes);
    const auto& groups = process_groups();
    for (const auto& declared : groups.plan()) {
        auto own = dialect::place(member, declared.name, joined_with);
        dialect::check_mesh(own, declared.mesh.resolve(), joined_with);
        places_.emplace_back(declared.name, std::move(own));
    }
    const auto& dense = groups.decoder_rank_generator();
    if (!dense.mesh().contains(rank())) return;
    const auto pipeline = dense.mesh().group(rank(), dense.axes("pp"));
    const auto& member_of_dense = places_.front().second;
    dialect::pick(member_of_dense, "embedding", pipeline.pick(sizes.embedding_stages), joined_with);
    dialect::pick(member_of_dense, "position_embedding", pipeline.pick(sizes.position_embedding_stages),
                  joined_with);
    for (const auto& desc : groups.descriptions())
        if (find(desc) && groups.location(desc)) handle({desc, {}});
}

Communicator ParallelState::handle(const Named& named) const {
    ranks(named);
    const auto found = process_groups().location(named.desc);
    if (!found)
        throw Error(Fault::not_member, cat("the last group of ", named.desc,
                                           " is shorter, which no plan declares; make it with World::sub"));
    const auto own = std::ranges::find(places_, found->mesh, &std::pair<std::string, Member>::first);
    const auto names = std::vector<std::string_view>(found->names.begin(), found->names.end());
    auto group = dialect::communicator(own->second, names, joined_with);
    return named.desc.find("_GLOO") == std::string_view::npos ? std::move(group) : group.host();
}

}  // namespace rankmesh::megatron
