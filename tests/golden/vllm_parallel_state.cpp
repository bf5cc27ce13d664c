// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/frameworks/megatron2022.hpp>

#include "check.hpp"

namespace golden {
namespace {

using namespace rankmesh::megatron2022;

using Answers = std::map<std::string, std::function<Json()>>;

Json or_null(const std::optional<int>& value) { return value ? Json(*value) : Json(nullptr); }

std::optional<int> int_or_nothing(const Json& value) {
    return value.is_null() ? std::nullopt : std::optional(value.get<int>());
}

Settings sizes_of(const Json& config) {
    const auto at = [&](const char* name) { return config.value(name, Json(nullptr)); };
    return {at("tp"), at("pp"), int_or_nothing(at("vpp")), int_or_nothing(at("split"))};
}

/// `[tp, pp, vpp, split]`.
Settings sizes_in_order(const Json& list) {
    return {list[0], list[1], int_or_nothing(list[2]), int_or_nothing(list[3])};
}

Json split_queries(const State& mpu) {
    return {mpu.is_pipeline_stage_before_split(), mpu.is_pipeline_stage_after_split(),
            mpu.is_pipeline_stage_at_split()};
}

/// What the module's accessors say, each alone.
Json asked_of(const Answers& answers, const Json& names) {
    auto said = Json::object();
    for (const auto& [name, value] : names.items()) said[name] = attempt_or_refuse(answers.at(name));
    return said;
}

/// An answer of the module by its name.
std::function<Json()> by_name(const State& mpu, const std::string& name) {
    return [&mpu, name] { return json_of(mpu.ask(name)); };
}

/// A list of answers, by their names.
std::function<Json()> by_names(const State& mpu, const std::vector<std::string>& names) {
    return [&mpu, names] {
        auto list = Json::array();
        for (const auto& name : names) list.push_back(json_of(mpu.ask(name)));
        return list;
    };
}

Json virtual_rows(State mpu, const std::optional<int>& virtual_size) {
    auto rows = Json::array();
    const auto add = [&](const std::optional<int>& rank) {
        rows.push_back({or_null(rank), mpu.is_pipeline_first_stage(), mpu.is_pipeline_last_stage(),
                        mpu.is_rank_in_embedding_group()});
    };
    if (!virtual_size) add(std::nullopt);
    for (int rank = 0; rank < virtual_size.value_or(0); ++rank) {
        mpu.set_virtual_pipeline_model_parallel_rank(rank);
        add(rank);
    }
    return rows;
}

Json one_rank(const State& mpu, const Settings& sizes, const Json& names) {
    const Answers answers = {
        {"data", by_name(mpu, "get_data_parallel_group")},
        {"model", by_name(mpu, "get_model_parallel_group")},
        {"tensor", by_name(mpu, "get_tensor_model_parallel_group")},
        {"pipeline", by_name(mpu, "get_pipeline_model_parallel_group")},
        {"embedding", by_name(mpu, "get_embedding_group")},
        {"position_embedding", by_name(mpu, "get_position_embedding_group")},
        {"embedding_global_ranks", by_name(mpu, "_EMBEDDING_GLOBAL_RANKS")},
        {"position_embedding_global_ranks", by_name(mpu, "_POSITION_EMBEDDING_GLOBAL_RANKS")},
        {"sizes_tp_pp_dp",
         by_names(mpu, {"get_tensor_model_parallel_world_size", "get_pipeline_model_parallel_world_size",
                        "get_data_parallel_world_size"})},
        {"ranks_tp_pp_dp", by_names(mpu, {"get_tensor_model_parallel_rank",
                                          "get_pipeline_model_parallel_rank", "get_data_parallel_rank"})},
        {"src_tp_dp", by_names(mpu, {"get_tensor_model_parallel_src_rank", "get_data_parallel_src_rank"})},
        {"pp_first_last_next_prev",
         by_names(mpu, {"get_pipeline_model_parallel_first_rank", "get_pipeline_model_parallel_last_rank",
                        "get_pipeline_model_parallel_next_rank", "get_pipeline_model_parallel_prev_rank"})},
        {"virtual_rank_size", by_names(mpu, {"get_virtual_pipeline_model_parallel_rank",
                                             "get_virtual_pipeline_model_parallel_world_size"})},
        {"before_after_at_split", [&] { return split_queries(mpu); }},
        {"first_last_ignore_virtual",
         [&] {
             return Json{mpu.is_pipeline_first_stage(true), mpu.is_pipeline_last_stage(true)};
         }},
        {"in_embedding_ignore_virtual", [&] { return mpu.is_rank_in_embedding_group(true); }},
        {"in_position_embedding", [&] { return mpu.is_rank_in_position_embedding_group(); }},
        {"virtual", [&] { return virtual_rows(mpu, sizes.virtual_pipeline_model_parallel_size); }}};
    return asked_of(answers, names);
}

State made(const Settings& sizes, int rank, int world) {
    auto mpu = State(rank, world);
    mpu.initialize_model_parallel(sizes);
    return mpu;
}

/// How many groups the original makes.
int count_of(const rankmesh::frameworks::Groups& all) {
    auto count = 0;
    for (const auto& kind : all.kinds()) count += all.count(kind);
    return count;
}

Json init(const Case& test) {
    const auto sizes = sizes_of(test.config);
    const int world = test.config["world_size"];
    const auto all = rankmesh::megatron2022::groups(sizes, world);
    const auto of = [&](const char* kind) { return [&all, kind] { return golden::groups(all, kind); }; };
    const Answers kinds = {{"data", of("_DATA_PARALLEL_GROUP")},
                           {"model", of("_MODEL_PARALLEL_GROUP")},
                           {"tensor", of("_TENSOR_MODEL_PARALLEL_GROUP")},
                           {"pipeline", of("_PIPELINE_MODEL_PARALLEL_GROUP")},
                           {"embedding", of("_EMBEDDING_GROUP")},
                           {"position_embedding", of("_POSITION_EMBEDDING_GROUP")}};
    auto rows = Json::array();
    for (const auto& row : test.expect["per_rank"])
        rows.push_back({row[0], one_rank(made(sizes, row[0], world), sizes, row[1])});
    return {{"groups", asked_of(kinds, test.expect["groups"])},
            {"n_new_group_calls", count_of(all)},
            {"initialized", made(sizes, 0, world).model_parallel_is_initialized()},
            {"per_rank", rows}};
}

/// Settings of which the original says no, or should have.
Json doubtful_init(const Case& test) {
    const auto sizes = sizes_of(test.config);
    const int world = test.config["world_size"];
    const auto mpu = made(sizes, 0, world);
    return {{"ok", true},
            {"n_new_group_calls", count_of(mpu.groups())},
            {"initialized_after", mpu.model_parallel_is_initialized()},
            {"vpp_size_after", or_null(mpu.get_virtual_pipeline_model_parallel_world_size())},
            {"split_after", or_null(mpu.pipeline_model_parallel_split_rank())}};
}

Json not_initialized_dist(const Case&) {
    auto mpu = State();
    mpu.initialize_model_parallel();
    return mpu.model_parallel_is_initialized();
}

Json double_init(const Case& test) {
    auto mpu = made(sizes_in_order(test.config["first"]), 0, test.config["world_size"]);
    mpu.initialize_model_parallel(sizes_in_order(test.config["second"]));
    return {{"vpp_rank_size_split_after",
             {or_null(mpu.get_virtual_pipeline_model_parallel_rank()),
              or_null(mpu.get_virtual_pipeline_model_parallel_world_size()),
              or_null(mpu.pipeline_model_parallel_split_rank())}},
            {"pp_size", mpu.get_pipeline_model_parallel_world_size()}};
}

Json uninitialized_accessors(const Case& test) {
    const auto mpu = State(test.config["rank"], test.config["world_size"]);
    auto accessors = Answers{};
    for (const auto& [name, value] : test.expect.items()) accessors[name] = by_name(mpu, name);
    accessors["model_parallel_is_initialized"] = [&] { return mpu.model_parallel_is_initialized(); };
    return asked_of(accessors, test.expect);
}

/// What is set, in the order in which the original was asked: sizes and ranks are set, used, and taken back.
Json overrides(const Case& test) {
    auto mpu = made(sizes_of(test.config), test.config["rank"], test.config["world_size"]);
    auto said = Json::object();
    const auto next_and_previous = [&] {
        return Json{mpu.get_pipeline_model_parallel_next_rank(), mpu.get_pipeline_model_parallel_prev_rank()};
    };
    mpu.set_tensor_model_parallel_world_size(4);
    said["tp_size"] = mpu.get_tensor_model_parallel_world_size();
    said["tp_src"] = mpu.get_tensor_model_parallel_src_rank();
    mpu.set_tensor_model_parallel_rank(3);
    said["tp_rank"] = mpu.get_tensor_model_parallel_rank();
    mpu.set_pipeline_model_parallel_world_size(2);
    said["pp_size"] = mpu.get_pipeline_model_parallel_world_size();
    said["pp_last"] = attempt([&] { return mpu.get_pipeline_model_parallel_last_rank(); });
    said["next_prev"] = attempt(next_and_previous);
    mpu.set_pipeline_model_parallel_rank(1);
    said["pp_rank"] = mpu.get_pipeline_model_parallel_rank();
    said["is_last"] = mpu.is_pipeline_last_stage();
    said["next_prev2"] = attempt(next_and_previous);
    mpu.set_pipeline_model_parallel_split_rank(0);
    said["split_setter_effect_before_after"] = {mpu.is_pipeline_stage_before_split(),
                                                mpu.is_pipeline_stage_after_split()};
    said["split_global"] = or_null(mpu.pipeline_model_parallel_split_rank());
    mpu.set_tensor_model_parallel_world_size(std::nullopt);
    mpu.set_tensor_model_parallel_rank(std::nullopt);
    mpu.set_pipeline_model_parallel_world_size(std::nullopt);
    mpu.set_pipeline_model_parallel_rank(std::nullopt);
    said["restored"] = {mpu.get_tensor_model_parallel_world_size(), mpu.get_tensor_model_parallel_rank(),
                        mpu.get_pipeline_model_parallel_world_size(), mpu.get_pipeline_model_parallel_rank()};
    said["split_query"] = Json::array();
    for (const auto& row : test.expect["split_query"])
        said["split_query"].push_back({row[0], mpu.is_pipeline_stage_before_split(row[0].get<int>()),
                                       mpu.is_pipeline_stage_after_split(row[0].get<int>())});
    return said;
}

/// The value, null where nothing is initialised that has it.
Json or_cleared(const std::function<Json()>& value) {
    try {
        return value();
    } catch (const rankmesh::frameworks::Error& error) {
        if (error.fault == Fault::not_initialised) return nullptr;
        throw;
    }
}

Json destroy(const Case& test) {
    auto mpu = made(sizes_in_order(test.config["first"]), test.config["rank"], test.config["world_size"]);
    mpu.set_tensor_model_parallel_world_size(1);
    mpu.set_pipeline_model_parallel_world_size(1);
    mpu.set_tensor_model_parallel_rank(0);
    mpu.set_pipeline_model_parallel_rank(0);
    mpu.destroy_model_parallel();
    auto stale = Answers{};
    for (const auto& [name, value] : test.expect["stale"].items()) stale[name] = by_name(mpu, name);
    const auto cleared = std::map<std::string, std::string>{
        {"_MODEL_PARALLEL_GROUP", "get_model_parallel_group"},
        {"_TENSOR_MODEL_PARALLEL_GROUP", "get_tensor_model_parallel_group"},
        {"_PIPELINE_MODEL_PARALLEL_GROUP", "get_pipeline_model_parallel_group"},
        {"_DATA_PARALLEL_GROUP", "get_data_parallel_group"},
        {"_EMBEDDING_GROUP", "get_embedding_group"},
        {"_POSITION_EMBEDDING_GROUP", "get_position_embedding_group"},
        {"_VIRTUAL_PIPELINE_MODEL_PARALLEL_RANK", "get_virtual_pipeline_model_parallel_rank"},
        {"_VIRTUAL_PIPELINE_MODEL_PARALLEL_WORLD_SIZE", "get_virtual_pipeline_model_parallel_world_size"},
        {"_MPU_TENSOR_MODEL_PARALLEL_WORLD_SIZE", "get_tensor_model_parallel_world_size"},
        {"_MPU_PIPELINE_MODEL_PARALLEL_WORLD_SIZE", "get_pipeline_model_parallel_world_size"},
        {"_MPU_TENSOR_MODEL_PARALLEL_RANK", "get_tensor_model_parallel_rank"},
        {"_MPU_PIPELINE_MODEL_PARALLEL_RANK", "get_pipeline_model_parallel_rank"}};
    auto said = Json{{"initialized", mpu.model_parallel_is_initialized()},
                     {"stale", asked_of(stale, test.expect["stale"])},
                     {"cleared", Json::object()}};
    for (const auto& [name, value] : test.expect["cleared"].items())
        said["cleared"][name] = or_cleared(by_name(mpu, cleared.at(name)));
    mpu.initialize_model_parallel(sizes_in_order(test.config["second"]));
    said["reinit_ok"] = mpu.model_parallel_is_initialized();
    said["split_leaks_into_reinit_before_after_at"] = attempt_or_refuse([&] { return split_queries(mpu); });
    said["reinit_embedding"] = json_of(mpu.ask("_EMBEDDING_GLOBAL_RANKS"));
    return said;
}

std::vector<Fault> faults(const Case& test, std::string_view type, std::string_view message) {
    const auto says = [&](std::string_view part) { return message.find(part) != message.npos; };
    if (type == "ZeroDivisionError") return {Fault::sizes};
    if (type == "RuntimeError" && (says("is not divisible by") || says("pipeline-model-parallel size")))
        return {Fault::sizes};
    if (type == "IndexError") return {Fault::out_of_range};
    if (type == "TypeError") return {Fault::not_initialised};  // a list that is still None
    if (type != "AssertionError") return {};
    if (says("already initialized")) return {Fault::exists};
    // The same words for a stage that is not in the group.
    if (test.kind == "init" && says("embedding group is not initialized")) return {Fault::not_member};
    if (message.empty() || says("not initialized")) return {Fault::not_initialised};
    return {};
}

}  // namespace

System vllm_parallel_state() {
    return {.name = "vllm_parallel_state",
            .kinds = {{"init", init},
                      {"init_error", doubtful_init},
                      {"split_out_of_range", doubtful_init},
                      {"not_initialized_dist", not_initialized_dist},
                      {"double_init", double_init},
                      {"uninitialized_accessors", uninitialized_accessors},
                      {"overrides", overrides},
                      {"destroy", destroy}},
            .faults = faults};
}

}  // namespace golden
