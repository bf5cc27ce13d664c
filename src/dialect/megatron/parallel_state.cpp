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

const Ranks::Named Ranks::model_parallel = {"MODEL_PARALLEL_GROUP",
                                            "model parallel group is not initialized"};
const Ranks::Named Ranks::tensor_parallel = {"TENSOR_MODEL_PARALLEL_GROUP",
                                             "tensor model parallel group is not initialized"};
const Ranks::Named Ranks::pipeline_parallel = {"PIPELINE_MODEL_PARALLEL_GROUP",
                                               "pipeline_model parallel group is not initialized"};
const Ranks::Named Ranks::context_parallel = {"CONTEXT_PARALLEL_GROUP",
                                              "context parallel group is not initialized"};
const Ranks::Named Ranks::tensor_and_context = {"TENSOR_AND_CONTEXT_PARALLEL_GROUP",
                                                "tensor and context parallel group is not initialized"};
const Ranks::Named Ranks::embedding = {"EMBEDDING_GROUP", "embedding group is not initialized"};
const Ranks::Named Ranks::position_embedding = {"POSITION_EMBEDDING_GROUP",
                                                "position embedding group is not initialized"};
const Ranks::Named Ranks::expert_model = {"EXPERT_MODEL_PARALLEL_GROUP",
                                          "expert model parallel group is not initialized"};
const Ranks::Named Ranks::expert_tensor = {"EXPERT_TENSOR_PARALLEL_GROUP",
                                           "Expert tensor parallel group is not initialized"};
const Ranks::Named Ranks::expert_tensor_model = {"EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP",
                                                 "Expert tensor and model parallel group is not initialized"};
const Ranks::Named Ranks::expert_tensor_model_pipeline = {
    "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP",
    "Expert tensor-model-pipeline parallel group is not initialized"};
const Ranks::Named Ranks::expert_tensor_model_pipeline_with_egtp = {
    "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP_WITH_EGTP",
    "Expert tensor-model-pipeline parallel group with EGTP is not initialized"};
const Ranks::Named Ranks::intra_instance = {"INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP",
                                            "Intra distributed optimizer instance group is not initialized"};
const Ranks::Named Ranks::inter_instance = {
    "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L1",
    "Attention and MLP/Expert share same inter distributed optimize instance group, which has not been "
    "initialized"};
const Ranks::Named Ranks::gtp_weight_remat = {"GTP_WEIGHT_REMAT_GROUP",
                                              "generalized tensor parallel group is not initialized"};
const Ranks::Named Ranks::expert_gtp_weight_remat = {
    "EXPERT_GTP_WEIGHT_REMAT_GROUP", "expert generalized tensor parallel group is not initialized"};
const Ranks::Named Ranks::all_gather = {"DATA_PARALLEL_GROUP_WITH_CP_AG",
                                        "data parallel group with context parallel AG is not initialized"};

// --- which group an option means

Ranks::Named Ranks::data_parallel(const DataParallel& which) const {
    if (which.partial_data_parallel && !which.with_context_parallel)
        throw Error(Fault::missing, "Partial DP for Optimizer needs to include CP");
    if (which.independent_all_gather && which.with_context_parallel && !which.partial_data_parallel)
        return all_gather;
    const auto partial = which.partial_data_parallel && groups_ &&
                         groups_->contains("INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP");
    const auto gtp = which.with_gtp_remat && has_gtp();
    const auto missing = [&](std::string_view with, std::string_view without) {
        return which.with_gtp_remat ? with : without;
    };
    if (!which.with_context_parallel)
        return {gtp ? "DATA_PARALLEL_GROUP_WITH_GTP_REMAT" : "DATA_PARALLEL_GROUP",
                missing("data parallel group (with GTP_remat) is not initialized",
                        "data parallel group is not initialized")};
    return {partial ? "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP"
            : gtp   ? "DATA_PARALLEL_GROUP_WITH_CP_WITH_GTP_REMAT"
                    : "DATA_PARALLEL_GROUP_WITH_CP",
            which.partial_data_parallel
                ? missing("intra partial data parallel group with CP (with GTP_remat) is not initialized",
                          "intra partial data parallel group with CP is not initialized")
                : missing("data parallel group with CP (with GTP_remat) is not initialized",
                          "data parallel group with CP is not initialized")};
}

Ranks::Named Ranks::data_parallel_gloo(const DataParallel& which) const {
    if (which.with_context_parallel) {
        if (!which.partial_data_parallel)
            return {"DATA_PARALLEL_GROUP_WITH_CP_GLOO",
                    "data parallel group-gloo with context parallel combined is not initialized"};
        constexpr auto partial = "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP_GLOO";
        return {groups_ && groups_->contains(partial) ? partial : "DATA_PARALLEL_GROUP_WITH_CP_GLOO",
                "Intra partial data parallel group is not initialized"};
    }
    const auto named = Named{"DATA_PARALLEL_GROUP_GLOO", "data parallel group-gloo is not initialized"};
    if (which.partial_data_parallel) {
        ranks(named);
        throw Error(Fault::missing, "Partial DP for Optimizer needs to include CP");
    }
    return named;
}

Ranks::Named Ranks::expert_data_parallel(const ExpertDataParallel& which) const {
    constexpr auto partial = "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L0";
    constexpr auto gtp = "EXPERT_DATA_PARALLEL_GROUP_WITH_GTP_REMAT";
    const auto desc = which.partial_expert_data_parallel && groups_ && groups_->contains(partial) ? partial
                      : which.with_gtp_remat && groups_ && groups_->contains(gtp)
                          ? gtp
                          : "EXPERT_DATA_PARALLEL_GROUP";
    const auto missing = [&](std::string_view with, std::string_view without) {
        return which.with_gtp_remat ? with : without;
    };
    return {desc,
            which.partial_expert_data_parallel
                ? missing("Intra partial expert data parallel group (with GTP_remat) is not initialized",
                          "Intra partial expert data parallel group is not initialized")
                : missing("Expert data parallel group (with GTP_remat) is not initialized",
                          "Expert data parallel group is not initialized")};
}

Ranks::Named Ranks::expert_data_parallel_gloo(const ExpertDataParallel& which) const {
    if (!which.partial_expert_data_parallel)
        return {"EXPERT_DATA_PARALLEL_GROUP_GLOO", "Expert data parallel group-gloo is not initialized"};
    constexpr auto partial = "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_GLOO_L0";
    return {groups_ && groups_->contains(partial) ? partial : "EXPERT_DATA_PARALLEL_GROUP_GLOO",
            "Intra partial expert data parallel group-gloo is not initialized"};
}

Ranks::Named Ranks::tensor_and_data(bool with_context_parallel) const {
    return {
        with_context_parallel ? "TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP" : "TENSOR_AND_DATA_PARALLEL_GROUP",
        "tensor and data parallel group is not initialized"};
}

Ranks::Named Ranks::amax_reduction(bool with_context_parallel, bool tp_only_amax_red) const {
    auto named = !tp_only_amax_red       ? tensor_and_data(with_context_parallel)
                 : with_context_parallel ? tensor_and_context
                                         : tensor_parallel;
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
    if (groups_ && groups_->contains(named.desc))
        throw Error(Fault::not_member, cat(named.missing, ": rank ", rank_, " is in none of the groups"));
    throw Error(Fault::not_initialised, std::string(named.missing));
}

// --- made, unmade

void Ranks::enter(int rank, int world_size) {
    if (rank < 0 || rank >= world_size)
        throw Error(Fault::out_of_range,
                    cat("rank ", rank, " of a world of ", world_size, "; ranks are 0..", world_size - 1));
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
        virtual_rank_ = 0;
        virtual_size_ = sizes.virtual_pipeline_model_parallel_size;
    }
}

void Ranks::destroy() {
    groups_.reset();
    virtual_rank_.reset();
    virtual_size_.reset();
    set_ = {};
}

const ProcessGroups& Ranks::process_groups() const {
    if (!groups_) throw Error(Fault::not_initialised, "model parallel group is not initialized");
    return *groups_;
}

bool Ranks::model_parallel_is_initialized() const {
    return find(tensor_parallel.desc) && find(pipeline_parallel.desc) && is_initialized();
}

// --- ranks and sizes

int Ranks::get_tensor_model_parallel_rank() const {
    return set_.tp_rank ? *set_.tp_rank : position(tensor_parallel);
}
int Ranks::get_tensor_model_parallel_world_size() const {
    return set_.tp_size ? *set_.tp_size : ranks(tensor_parallel).size();
}
int Ranks::get_pipeline_model_parallel_rank() const {
    return set_.pp_rank ? *set_.pp_rank : position(pipeline_parallel);
}
int Ranks::get_pipeline_model_parallel_world_size() const {
    return set_.pp_size ? *set_.pp_size : ranks(pipeline_parallel).size();
}
int Ranks::get_data_parallel_rank(DataParallel which) const {
    if (set_.dp_rank) return *set_.dp_rank;
    return world_size_ ? position(data_parallel(which)) : 0;
}
int Ranks::get_data_parallel_world_size(DataParallel which) const {
    return world_size_ ? ranks(data_parallel(which)).size() : 0;
}
int Ranks::get_context_parallel_rank() const { return position_in_world(context_parallel); }
int Ranks::get_context_parallel_world_size() const { return size_in_world(context_parallel); }
int Ranks::get_tensor_and_context_parallel_rank() const { return position_in_world(tensor_and_context); }
int Ranks::get_tensor_and_context_parallel_world_size() const { return size_in_world(tensor_and_context); }
int Ranks::get_expert_model_parallel_rank() const {
    return set_.ep_rank ? *set_.ep_rank : position_in_world(expert_model);
}
int Ranks::get_expert_model_parallel_world_size() const {
    return set_.ep_size ? *set_.ep_size : size_in_world(expert_model);
}
int Ranks::get_expert_tensor_and_model_parallel_rank() const {
    return position_in_world(expert_tensor_model);
}
int Ranks::get_expert_tensor_and_model_parallel_world_size() const {
    return size_in_world(expert_tensor_model);
}
int Ranks::get_expert_data_parallel_rank(ExpertDataParallel which) const {
    return position_in_world(expert_data_parallel(which));
}
int Ranks::get_expert_data_parallel_world_size(ExpertDataParallel which) const {
    return size_in_world(expert_data_parallel(which));
}
int Ranks::get_gtp_weight_remat_rank() const { return position_or_0(gtp_weight_remat); }
int Ranks::get_gtp_weight_remat_world_size() const { return size_or_0(gtp_weight_remat); }
int Ranks::get_expert_gtp_weight_remat_rank() const { return position_or_0(expert_gtp_weight_remat); }
int Ranks::get_expert_gtp_weight_remat_world_size() const { return size_or_0(expert_gtp_weight_remat); }
std::optional<int> Ranks::get_expert_tensor_parallel_rank() const {
    if (set_.etp_rank) return set_.etp_rank;
    return find(expert_tensor.desc) ? position(expert_tensor) : set_.tp_rank;
}
std::optional<int> Ranks::get_expert_tensor_parallel_world_size() const {
    if (set_.etp_size) return set_.etp_size;
    return find(expert_tensor.desc) ? ranks(expert_tensor).size() : set_.tp_size;
}

// --- stages

bool Ranks::is_virtual_stage(const Stage& stage, int wanted) const {
    if (stage.ignore_virtual || !virtual_size_) return true;
    if (!stage.vp_stage)
        throw Error(Fault::missing, "vp_stage must be passed if virtual pipeline is enabled");
    return *stage.vp_stage == wanted;
}

bool Ranks::is_pipeline_first_stage(Stage stage) const {
    return is_virtual_stage(stage, 0) && get_pipeline_model_parallel_rank() == 0;
}

bool Ranks::is_pipeline_last_stage(Stage stage) const {
    return is_virtual_stage(stage, virtual_size_.value_or(0) - 1) &&
           get_pipeline_model_parallel_rank() == get_pipeline_model_parallel_world_size() - 1;
}

bool Ranks::is_rank_in_embedding_group(Stage stage) const {
    const auto members = find(embedding.desc);
    if (!members) return false;
    if (stage.ignore_virtual) return true;
    if (rank_ == members->front()) return is_pipeline_first_stage(stage);
    if (rank_ == members->back()) return is_pipeline_last_stage(stage);
    return true;
}

bool Ranks::is_rank_in_position_embedding_group() const { return find(position_embedding.desc).has_value(); }

// --- whose first, who is next

int Ranks::get_tensor_model_parallel_src_rank() const {
    return ranks({tensor_parallel.desc, "Tensor model parallel group is not initialized"}).front();
}
int Ranks::get_model_parallel_src_rank() const {
    return ranks({model_parallel.desc, "Model parallel group is not initialized"}).front();
}
int Ranks::get_expert_model_parallel_src_rank() const {
    return ranks({expert_model.desc, "Expert model parallel group is not initialized"}).front();
}
int Ranks::get_data_parallel_src_rank(bool with_context_parallel) const {
    if (with_context_parallel)
        return ranks({"DATA_PARALLEL_GROUP_WITH_CP",
                      "Data parallel group with context parallel combined is not initialized"})
            .front();
    return ranks({"DATA_PARALLEL_GROUP", "Data parallel group is not initialized"}).front();
}

/// A stage may be counted from the end, as an index in Python.
int Ranks::in_pipeline(int stage) const {
    const auto pipeline = ranks({pipeline_parallel.desc, "Pipeline parallel group is not initialized"});
    if (stage < -pipeline.size() || stage >= pipeline.size())
        throw Error(Fault::out_of_range, cat("stage ", stage, " of a pipeline of ", pipeline.size()));
    return pipeline[stage < 0 ? stage + pipeline.size() : stage];
}

int Ranks::around_pipeline(int by) const {
    in_pipeline(0);
    const auto stages = get_pipeline_model_parallel_world_size();
    if (stages == 0) throw Error(Fault::sizes, "the next stage of 0 stages");
    const auto left = (get_pipeline_model_parallel_rank() + by) % stages;
    return in_pipeline(left != 0 && (left < 0) != (stages < 0) ? left + stages : left);
}

int Ranks::get_pipeline_model_parallel_first_rank() const { return in_pipeline(0); }
int Ranks::get_pipeline_model_parallel_last_rank() const {
    in_pipeline(0);
    return in_pipeline(get_pipeline_model_parallel_world_size() - 1);
}
int Ranks::get_pipeline_model_parallel_next_rank() const { return around_pipeline(+1); }
int Ranks::get_pipeline_model_parallel_prev_rank() const { return around_pipeline(-1); }

GroupPart Ranks::get_context_parallel_global_ranks() const { return ranks(context_parallel); }
GroupPart Ranks::get_gtp_weight_remat_global_ranks() const { return ranks(gtp_weight_remat); }
GroupPart Ranks::get_expert_gtp_weight_remat_global_ranks() const { return ranks(expert_gtp_weight_remat); }

std::string Ranks::get_all_ranks() const {
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
