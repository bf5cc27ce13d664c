// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/megatron2022/parallel_state.hpp>

#include "dialects.hpp"

namespace rankmesh::python {

using namespace megatron2022;

namespace {

/// A state whose world is known later.
class EnteringState final : public State {
public:
    void enter_world(int rank, int world_size) { enter(rank, world_size); }
};

/// A getter of a group.
auto group(Group (State::*get)() const) {
    return [get](const EnteringState& self) { return Ranks((self.*get)()); };
}

/// A setter of what wins over the groups, None to give that back.
auto setter(void (State::*set)(std::optional<int>), const char* what) {
    return [set, what](EnteringState& self, nb::handle value) { (self.*set)(optional_int(value, what)); };
}

/// A part of every pipeline.
auto of_pipelines(Group (Groups::*part)(const Group&) const) {
    return [part](const Groups& self) {
        auto groups = std::vector<Group>{};
        for (const auto& pipeline : self.pipeline()) groups.push_back((self.*part)(pipeline));
        return lists_of(groups);
    };
}

void bind_groups_of(nb::module_& m) {
    nb::class_<Sizes>(m, "Sizes", "The arguments of initialize_model_parallel.")
        .def(
            "__init__",
            [](Sizes* self, nb::handle tp, nb::handle pp, nb::handle vpp, nb::handle split) {
                new (self) Sizes{int_of(tp, "tensor_model_parallel_size"),
                                 int_of(pp, "pipeline_model_parallel_size"),
                                 optional_int(vpp, "virtual_pipeline_model_parallel_size"),
                                 optional_int(split, "pipeline_model_parallel_split_rank")};
            },
            nb::arg("tensor_model_parallel_size"), nb::arg("pipeline_model_parallel_size"),
            nb::arg("virtual_pipeline_model_parallel_size").none(),
            nb::arg("pipeline_model_parallel_split_rank").none());
    nb::class_<Groups>(m, "Groups",
                       "Every group of a world by kind, each kind in the order in which the original makes "
                       "its groups.")
        .def(
            "__init__",
            [](Groups* self, const Sizes& sizes, nb::handle world_size) {
                new (self) Groups(sizes, int_of(world_size, "world_size"));
            },
            nb::arg("sizes"), nb::arg("world_size"))
        .def("data", [](const Groups& self) { return lists_of(self.data()); })
        .def("model", [](const Groups& self) { return lists_of(self.model()); })
        .def("tensor", [](const Groups& self) { return lists_of(self.tensor()); })
        .def("pipeline", [](const Groups& self) { return lists_of(self.pipeline()); })
        .def("embedding", of_pipelines(&Groups::embedding))
        .def("position_embedding", of_pipelines(&Groups::position_embedding))
        .def("new_group_calls", &Groups::count, "How many groups the original makes.");
}

}  // namespace

void bind_megatron2022(nb::module_& parent) {
    auto m = parent.def_submodule("megatron2022", "Megatron of October 2022, without a process.");
    bind_groups_of(m);
    const auto value = nb::arg("value").none();
    const auto ignore_virtual = nb::arg("ignore_virtual");
    nb::class_<EnteringState>(m, "State", "What the original's module knows in one process.")
        .def(nb::init<>())
        .def(
            "enter_world",
            [](EnteringState& self, nb::handle rank, nb::handle world_size) {
                self.enter_world(int_of(rank, "rank"), int_of(world_size, "world_size"));
            },
            nb::arg("rank"), nb::arg("world_size"))
        .def("initialize_model_parallel", &EnteringState::initialize_model_parallel, nb::arg("sizes"))
        .def("model_parallel_is_initialized", &EnteringState::model_parallel_is_initialized)
        .def("destroy_model_parallel", &EnteringState::destroy_model_parallel)
        .def("get_model_parallel_group", group(&State::get_model_parallel_group))
        .def("get_tensor_model_parallel_group", group(&State::get_tensor_model_parallel_group))
        .def("get_pipeline_model_parallel_group", group(&State::get_pipeline_model_parallel_group))
        .def("get_data_parallel_group", group(&State::get_data_parallel_group))
        .def("get_embedding_group", group(&State::get_embedding_group))
        .def("get_position_embedding_group", group(&State::get_position_embedding_group))
        .def("pipeline_global_ranks", group(&State::pipeline_global_ranks))
        .def("data_parallel_global_ranks", group(&State::data_parallel_global_ranks))
        .def("embedding_global_ranks", group(&State::embedding_global_ranks))
        .def("position_embedding_global_ranks", group(&State::position_embedding_global_ranks))
        .def("set_tensor_model_parallel_world_size",
             setter(&State::set_tensor_model_parallel_world_size, "world_size"), value)
        .def("set_pipeline_model_parallel_world_size",
             setter(&State::set_pipeline_model_parallel_world_size, "world_size"), value)
        .def("set_tensor_model_parallel_rank", setter(&State::set_tensor_model_parallel_rank, "rank"), value)
        .def("set_pipeline_model_parallel_rank", setter(&State::set_pipeline_model_parallel_rank, "rank"),
             value)
        .def("set_pipeline_model_parallel_split_rank",
             setter(&State::set_pipeline_model_parallel_split_rank, "rank"), value)
        .def("set_virtual_pipeline_model_parallel_rank",
             setter(&State::set_virtual_pipeline_model_parallel_rank, "rank"), value)
        .def("get_virtual_pipeline_model_parallel_rank",
             &EnteringState::get_virtual_pipeline_model_parallel_rank)
        .def("get_virtual_pipeline_model_parallel_world_size",
             &EnteringState::get_virtual_pipeline_model_parallel_world_size)
        .def("get_tensor_model_parallel_world_size", &EnteringState::get_tensor_model_parallel_world_size)
        .def("get_pipeline_model_parallel_world_size", &EnteringState::get_pipeline_model_parallel_world_size)
        .def("get_data_parallel_world_size", &EnteringState::get_data_parallel_world_size)
        .def("get_tensor_model_parallel_rank", &EnteringState::get_tensor_model_parallel_rank)
        .def("get_pipeline_model_parallel_rank", &EnteringState::get_pipeline_model_parallel_rank)
        .def("get_data_parallel_rank", &EnteringState::get_data_parallel_rank)
        .def("get_tensor_model_parallel_src_rank", &EnteringState::get_tensor_model_parallel_src_rank)
        .def("get_data_parallel_src_rank", &EnteringState::get_data_parallel_src_rank)
        .def("get_pipeline_model_parallel_first_rank", &EnteringState::get_pipeline_model_parallel_first_rank)
        .def("get_pipeline_model_parallel_last_rank", &EnteringState::get_pipeline_model_parallel_last_rank)
        .def("get_pipeline_model_parallel_next_rank", &EnteringState::get_pipeline_model_parallel_next_rank)
        .def("get_pipeline_model_parallel_prev_rank", &EnteringState::get_pipeline_model_parallel_prev_rank)
        .def("is_pipeline_first_stage", &EnteringState::is_pipeline_first_stage, ignore_virtual)
        .def("is_pipeline_last_stage", &EnteringState::is_pipeline_last_stage, ignore_virtual)
        .def("is_rank_in_embedding_group", &EnteringState::is_rank_in_embedding_group, ignore_virtual)
        .def("is_rank_in_position_embedding_group", &EnteringState::is_rank_in_position_embedding_group)
        .def(
            "is_pipeline_stage_before_split",
            [](const EnteringState& self, nb::handle rank) {
                return self.is_pipeline_stage_before_split(optional_int(rank, "rank"));
            },
            nb::arg("rank").none())
        .def(
            "is_pipeline_stage_after_split",
            [](const EnteringState& self, nb::handle rank) {
                return self.is_pipeline_stage_after_split(optional_int(rank, "rank"));
            },
            nb::arg("rank").none())
        .def("is_pipeline_stage_at_split", &EnteringState::is_pipeline_stage_at_split)
        .def("pipeline_model_parallel_split_rank", &EnteringState::pipeline_model_parallel_split_rank);
}

}  // namespace rankmesh::python
