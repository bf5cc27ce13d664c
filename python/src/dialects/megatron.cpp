// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/megatron/hyper_comm_grid.hpp>
#include <rankmesh/dialect/megatron/parallel_state.hpp>

#include "dialects.hpp"

namespace rankmesh::python {

using namespace megatron;

namespace {

Ranks ranks_of(const GroupPart& part) {
    if (const auto group = part.group()) return *group;
    return Ranks(std::vector<int>(part.begin(), part.end()));
}

/// A group's description and its ranks.
using Described = std::pair<std::string, Ranks>;

/// The parallel state of any rank, whose getters tell which group they mean.
class DescribedState final : public ParallelGroups<Described> {
public:
    DescribedState() = default;
    void enter_world(int rank, int world_size) { enter(rank, world_size); }
    void initialize_model_parallel(const Sizes& sizes) { initialize(sizes); }
    void destroy_model_parallel() { destroy(); }

private:
    Described handle(const Named& named) const override {
        return {std::string(named.desc), ranks_of(ranks(named))};
    }
};

/// A setter of what wins over a group's own number, None to give that back.
auto setter(void (ParallelRanks::*set)(std::optional<int>), const char* what) {
    return [set, what](DescribedState& self, nb::handle value) { (self.*set)(optional_int(value, what)); };
}

constexpr auto data = [](bool with_cp, bool with_gtp_remat, bool partial, bool all_gather = false) {
    return DataParallel{with_cp, partial, with_gtp_remat, all_gather};
};
constexpr auto expert_data = [](bool with_gtp_remat, bool partial) {
    return ExpertDataParallel{partial, with_gtp_remat};
};

/// `tp` is one dimension, a sequence of str several.
Dims dims_of(nb::handle dims) { return {texts_of(dims, "the dimensions")}; }

using View = std::optional<std::string_view>;

std::vector<int> optional_ints(nb::handle values, const char* what) {
    return values.is_none() ? std::vector<int>{} : ints_of(values, what);
}

void bind_rank_generator(nb::module_& m) {
    nb::class_<RankGenerator>(m, "RankGenerator", "The ranks of some axes, listed innermost first.")
        .def(
            "__init__",
            [](RankGenerator* self, nb::handle tp, nb::handle ep, nb::handle dp, nb::handle pp, nb::handle cp,
               nb::handle order, nb::handle rank_offset, nb::handle gtp_remat) {
                new (self) RankGenerator({.tp = int_of(tp, "tp"),
                                          .ep = int_of(ep, "ep"),
                                          .dp = int_of(dp, "dp"),
                                          .pp = int_of(pp, "pp"),
                                          .cp = int_of(cp, "cp"),
                                          .order = text_of(order, "the order"),
                                          .rank_offset = int_of(rank_offset, "rank_offset"),
                                          .gtp_remat = int_of(gtp_remat, "gtp_remat")});
            },
            nb::arg("tp"), nb::arg("ep"), nb::arg("dp"), nb::arg("pp"), nb::arg("cp"), nb::arg("order"),
            nb::arg("rank_offset"), nb::arg("gtp_remat"))
        .def_prop_ro("world_size", &RankGenerator::world_size)
        .def_prop_ro("order", &RankGenerator::order)
        .def_prop_ro("ordered_size", &RankGenerator::ordered_size)
        .def(
            "get_mask",
            [](const RankGenerator& self, nb::handle order, nb::handle token) {
                return self.get_mask(text_of(order, "the order"), text_of(token, "the token"));
            },
            nb::arg("order"), nb::arg("token"))
        .def(
            "get_ranks",
            [](const RankGenerator& self, nb::handle token) {
                return lists_of(self.get_ranks(text_of(token, "the token")));
            },
            nb::arg("token"))
        .def(
            "group",
            [](const RankGenerator& self, nb::handle token, nb::handle rank) -> std::optional<Ranks> {
                const auto axes = self.axes(text_of(token, "the token"));
                const auto asked = int_of(rank, "a rank");
                if (!self.mesh().contains(asked)) return std::nullopt;
                return Ranks(self.mesh().group(asked, axes));
            },
            nb::arg("token"), nb::arg("rank"));
    m.def(
        "inject_gtp_remat_axis",
        [](nb::handle order, nb::handle after) {
            return inject_gtp_remat_axis(text_of(order, "the order"), text_of(after, "an axis"));
        },
        nb::arg("order"), nb::arg("after"));
    m.def(
        "default_embedding_ranks",
        [](nb::handle ranks) { return default_embedding_ranks(ints_of(ranks, "pp_ranks")); },
        nb::arg("pp_ranks"));
    m.def(
        "default_position_embedding_ranks",
        [](nb::handle ranks) { return default_position_embedding_ranks(ints_of(ranks, "pp_ranks")); },
        nb::arg("pp_ranks"));
}

void bind_grid(nb::module_& m) {
    nb::class_<Grid>(m, "Grid", "Who stands together along any dimensions of any view of some ranks.")
        .def(
            "__init__",
            [](Grid* self, nb::handle shape, nb::handle dim_names, nb::handle world_size,
               nb::handle rank_offset) {
                new (self) Grid(ints_of(shape, "the shape"), texts_of(dim_names, "dim_names"),
                                optional_int(world_size, "world_size"), int_of(rank_offset, "rank_offset"));
            },
            nb::arg("shape"), nb::arg("dim_names"), nb::arg("world_size").none(), nb::arg("rank_offset"))
        .def_prop_ro("size", &Grid::size)
        .def(
            "is_rank_in_grid",
            [](const Grid& self, nb::handle rank) { return self.is_rank_in_grid(int_of(rank, "a rank")); },
            nb::arg("rank"))
        .def(
            "register_view",
            [](Grid& self, nb::handle name, nb::handle shape, nb::handle dim_names, nb::handle shared_dims) {
                self.register_view(text_of(name, "a view"), ints_of(shape, "the shape"),
                                   texts_of(dim_names, "dim_names"), texts_of(shared_dims, "shared_dims"));
            },
            nb::arg("name"), nb::arg("shape"), nb::arg("dim_names"), nb::arg("shared_dims"))
        .def(
            "check_view", [](const Grid& self, View view) { self.mesh(view); }, nb::arg("view").none())
        .def(
            "get_rank_enum",
            [](const Grid& self, nb::handle dims, View view) {
                return lists_of(self.get_rank_enum(dims_of(dims), view));
            },
            nb::arg("dims"), nb::arg("view").none())
        .def(
            "gen_rank_enum",
            [](const Grid& self, nb::handle dims) { return lists_of(self.gen_rank_enum(dims_of(dims))); },
            nb::arg("dims"))
        .def(
            "group",
            [](const Grid& self, nb::handle dims, View view, nb::handle rank) -> std::optional<Ranks> {
                const auto asked = int_of(rank, "a rank");
                if (!self.is_rank_in_grid(asked)) return std::nullopt;
                return Ranks(self.group(asked, dims_of(dims), view));
            },
            nb::arg("dims"), nb::arg("view").none(), nb::arg("rank"))
        .def(
            "key",
            [](const Grid& self, nb::handle dims, View view) {
                const auto key = self.key(dims_of(dims), view);
                return std::make_pair(key.view, key.dims);
            },
            nb::arg("dims"), nb::arg("view").none())
        .def(
            "create_pg", [](Grid& self, nb::handle dims, View view) { self.create_pg(dims_of(dims), view); },
            nb::arg("dims"), nb::arg("view").none())
        .def(
            "get_pg", [](const Grid& self, nb::handle dims, View view) { self.get_pg(dims_of(dims), view); },
            nb::arg("dims"), nb::arg("view").none())
        .def("destroy", &Grid::destroy);
}

void bind_process_groups(nb::module_& m) {
    nb::class_<Sizes>(m, "Sizes", "The arguments of initialize_model_parallel that say who stands together.")
        .def(
            "__init__",
            [](Sizes* self, nb::handle tp, nb::handle pp, nb::handle vpp, nb::handle cp, nb::handle hcp,
               bool hybrid, nb::handle ep, nb::handle gtp, nb::handle egtp, nb::handle instances,
               nb::handle etp, nb::handle order, nb::handle embedding, nb::handle position_embedding,
               bool gloo, nb::handle rank_offset, nb::handle local_world_size, bool all_gather) {
                new (self) Sizes();
                self->tensor_model_parallel_size = int_of(tp, "tensor_model_parallel_size");
                self->pipeline_model_parallel_size = int_of(pp, "pipeline_model_parallel_size");
                self->virtual_pipeline_model_parallel_size =
                    optional_int(vpp, "virtual_pipeline_model_parallel_size");
                self->context_parallel_size = int_of(cp, "context_parallel_size");
                self->hierarchical_context_parallel_sizes =
                    optional_ints(hcp, "hierarchical_context_parallel_sizes");
                self->hybrid_context_parallel = hybrid;
                self->expert_model_parallel_size = int_of(ep, "expert_model_parallel_size");
                self->gtp_remat_size = int_of(gtp, "gtp_remat_size");
                self->expert_gtp_remat_size = int_of(egtp, "expert_gtp_remat_size");
                self->num_distributed_optimizer_instances =
                    int_of(instances, "num_distributed_optimizer_instances");
                self->expert_tensor_parallel_size = optional_int(etp, "expert_tensor_parallel_size");
                self->order = text_of(order, "the order");
                if (!embedding.is_none())
                    self->embedding_stages = ints_of(embedding, "the stages of an embedding");
                if (!position_embedding.is_none())
                    self->position_embedding_stages =
                        ints_of(position_embedding, "the stages of a position embedding");
                self->create_gloo_process_groups = gloo;
                self->rank_offset = int_of(rank_offset, "rank_offset");
                self->local_world_size = optional_int(local_world_size, "local_world_size");
                self->create_all_gather_group = all_gather;
            },
            nb::arg("tensor_model_parallel_size"), nb::arg("pipeline_model_parallel_size"),
            nb::arg("virtual_pipeline_model_parallel_size").none(), nb::arg("context_parallel_size"),
            nb::arg("hierarchical_context_parallel_sizes").none(), nb::arg("hybrid_context_parallel"),
            nb::arg("expert_model_parallel_size"), nb::arg("gtp_remat_size"),
            nb::arg("expert_gtp_remat_size"), nb::arg("num_distributed_optimizer_instances"),
            nb::arg("expert_tensor_parallel_size").none(), nb::arg("order"),
            nb::arg("embedding_stages").none(), nb::arg("position_embedding_stages").none(),
            nb::arg("create_gloo_process_groups"), nb::arg("rank_offset"), nb::arg("local_world_size").none(),
            nb::arg("create_all_gather_group"));
    nb::class_<ProcessGroups>(
        m, "ProcessGroups",
        "All process groups of a world, by the group_desc under which the original creates them.")
        .def(
            "__init__",
            [](ProcessGroups* self, const Sizes& sizes, nb::handle world_size) {
                new (self) ProcessGroups(sizes, int_of(world_size, "world_size"));
            },
            nb::arg("sizes"), nb::arg("world_size"))
        .def("descriptions", &ProcessGroups::descriptions,
             "Every description, in the order in which the original first uses it.")
        .def(
            "groups",
            [](const ProcessGroups& self, nb::handle desc) {
                return lists_of(self.groups(text_of(desc, "a description")));
            },
            nb::arg("desc"), "The groups of a description, in the order of their creation.")
        .def(
            "group",
            [](const ProcessGroups& self, nb::handle desc, nb::handle rank) -> std::optional<Ranks> {
                const auto part = self.group(text_of(desc, "a description"), int_of(rank, "a rank"));
                return part ? std::optional(ranks_of(*part)) : std::nullopt;
            },
            nb::arg("desc"), nb::arg("rank"), "The group of a rank, ascending; None where it has none.")
        .def("new_group_calls", &ProcessGroups::new_group_calls, "How many groups the original creates.");
}

void bind_state(nb::module_& m) {
    using State = DescribedState;
    auto state = nb::class_<State>(m, "State", "The parallel state of any rank.");
    state.def(nb::init<>())
        .def(
            "enter_world",
            [](State& self, nb::handle rank, nb::handle world_size) {
                self.enter_world(int_of(rank, "rank"), int_of(world_size, "world_size"));
            },
            nb::arg("rank"), nb::arg("world_size"))
        .def("initialize_model_parallel", &State::initialize_model_parallel, nb::arg("sizes"))
        .def("destroy_model_parallel", &State::destroy_model_parallel)
        .def_prop_ro("process_groups", &State::process_groups, nb::rv_policy::copy)
        .def("is_initialized", &State::is_initialized)
        .def("model_parallel_is_initialized", &State::model_parallel_is_initialized)
        .def("has_separate_all_gather_group", &State::has_separate_all_gather_group)
        .def("get_all_ranks", &State::get_all_ranks);

    state.def("get_model_parallel_group", &State::get_model_parallel_group)
        .def("get_tensor_model_parallel_group", &State::get_tensor_model_parallel_group)
        .def("get_pipeline_model_parallel_group", &State::get_pipeline_model_parallel_group)
        .def(
            "get_data_parallel_group",
            [](const State& self, bool with_cp, bool with_gtp_remat, bool partial, bool all_gather) {
                return self.get_data_parallel_group(data(with_cp, with_gtp_remat, partial, all_gather));
            },
            nb::arg("with_context_parallel"), nb::arg("with_gtp_remat"), nb::arg("partial_data_parallel"),
            nb::arg("independent_all_gather"))
        .def(
            "get_data_parallel_group_gloo",
            [](const State& self, bool with_cp, bool partial) {
                return self.get_data_parallel_group_gloo(data(with_cp, true, partial));
            },
            nb::arg("with_context_parallel"), nb::arg("partial_data_parallel"))
        .def("get_context_parallel_group", &State::get_context_parallel_group)
        .def("get_hierarchical_context_parallel_groups", &State::get_hierarchical_context_parallel_groups)
        .def(
            "get_hybrid_data_context_parallel_groups",
            [](const State& self, nb::handle group_size) {
                return self.get_hybrid_data_context_parallel_groups(int_of(group_size, "group_size"));
            },
            nb::arg("group_size"))
        .def("get_embedding_group", &State::get_embedding_group)
        .def("get_position_embedding_group", &State::get_position_embedding_group)
        .def("get_amax_reduction_group", &State::get_amax_reduction_group, nb::arg("with_context_parallel"),
             nb::arg("tp_only_amax_red"))
        .def("get_tensor_and_data_parallel_group", &State::get_tensor_and_data_parallel_group,
             nb::arg("with_context_parallel"))
        .def("get_tensor_and_context_parallel_group", &State::get_tensor_and_context_parallel_group)
        .def("get_expert_model_parallel_group", &State::get_expert_model_parallel_group)
        .def("get_expert_tensor_parallel_group", &State::get_expert_tensor_parallel_group)
        .def("get_expert_tensor_and_model_parallel_group", &State::get_expert_tensor_and_model_parallel_group)
        .def("get_expert_tensor_model_pipeline_parallel_group",
             &State::get_expert_tensor_model_pipeline_parallel_group, nb::arg("with_egtp_remat"))
        .def(
            "get_expert_data_parallel_group",
            [](const State& self, bool with_gtp_remat, bool partial) {
                return self.get_expert_data_parallel_group(expert_data(with_gtp_remat, partial));
            },
            nb::arg("with_gtp_remat"), nb::arg("partial_expert_data_parallel"))
        .def(
            "get_expert_data_parallel_group_gloo",
            [](const State& self, bool partial) {
                return self.get_expert_data_parallel_group_gloo(expert_data(true, partial));
            },
            nb::arg("partial_expert_data_parallel"))
        .def("get_intra_distributed_optimizer_instance_group",
             &State::get_intra_distributed_optimizer_instance_group)
        .def("get_inter_distributed_optimizer_instance_group",
             &State::get_inter_distributed_optimizer_instance_group)
        .def("get_gtp_weight_remat_group", &State::get_gtp_weight_remat_group)
        .def("get_expert_gtp_weight_remat_group", &State::get_expert_gtp_weight_remat_group);

    state.def("get_tensor_model_parallel_rank", &State::get_tensor_model_parallel_rank)
        .def("get_tensor_model_parallel_world_size", &State::get_tensor_model_parallel_world_size)
        .def("get_pipeline_model_parallel_rank", &State::get_pipeline_model_parallel_rank)
        .def("get_pipeline_model_parallel_world_size", &State::get_pipeline_model_parallel_world_size)
        .def(
            "get_data_parallel_rank",
            [](const State& self, bool with_cp, bool with_gtp_remat, bool partial) {
                return self.get_data_parallel_rank(data(with_cp, with_gtp_remat, partial));
            },
            nb::arg("with_context_parallel"), nb::arg("with_gtp_remat"), nb::arg("partial_data_parallel"))
        .def(
            "get_data_parallel_world_size",
            [](const State& self, bool with_cp, bool with_gtp_remat, bool partial) {
                return self.get_data_parallel_world_size(data(with_cp, with_gtp_remat, partial));
            },
            nb::arg("with_context_parallel"), nb::arg("with_gtp_remat"), nb::arg("partial_data_parallel"))
        .def("get_context_parallel_rank", &State::get_context_parallel_rank)
        .def("get_context_parallel_world_size", &State::get_context_parallel_world_size)
        .def("get_tensor_and_context_parallel_rank", &State::get_tensor_and_context_parallel_rank)
        .def("get_tensor_and_context_parallel_world_size", &State::get_tensor_and_context_parallel_world_size)
        .def("get_expert_model_parallel_rank", &State::get_expert_model_parallel_rank)
        .def("get_expert_model_parallel_world_size", &State::get_expert_model_parallel_world_size)
        .def("get_expert_tensor_parallel_rank", &State::get_expert_tensor_parallel_rank)
        .def("get_expert_tensor_parallel_world_size", &State::get_expert_tensor_parallel_world_size)
        .def("get_expert_tensor_and_model_parallel_rank", &State::get_expert_tensor_and_model_parallel_rank)
        .def("get_expert_tensor_and_model_parallel_world_size",
             &State::get_expert_tensor_and_model_parallel_world_size)
        .def(
            "get_expert_data_parallel_rank",
            [](const State& self, bool with_gtp_remat, bool partial) {
                return self.get_expert_data_parallel_rank(expert_data(with_gtp_remat, partial));
            },
            nb::arg("with_gtp_remat"), nb::arg("partial_expert_data_parallel"))
        .def(
            "get_expert_data_parallel_world_size",
            [](const State& self, bool with_gtp_remat, bool partial) {
                return self.get_expert_data_parallel_world_size(expert_data(with_gtp_remat, partial));
            },
            nb::arg("with_gtp_remat"), nb::arg("partial_expert_data_parallel"))
        .def("get_gtp_weight_remat_rank", &State::get_gtp_weight_remat_rank)
        .def("get_gtp_weight_remat_world_size", &State::get_gtp_weight_remat_world_size)
        .def("get_expert_gtp_weight_remat_rank", &State::get_expert_gtp_weight_remat_rank)
        .def("get_expert_gtp_weight_remat_world_size", &State::get_expert_gtp_weight_remat_world_size);

    const auto value = nb::arg("value").none();
    state
        .def("set_tensor_model_parallel_rank", setter(&ParallelRanks::set_tensor_model_parallel_rank, "rank"),
             value)
        .def("set_tensor_model_parallel_world_size",
             setter(&ParallelRanks::set_tensor_model_parallel_world_size, "world_size"), value)
        .def("set_pipeline_model_parallel_rank",
             setter(&ParallelRanks::set_pipeline_model_parallel_rank, "rank"), value)
        .def("set_pipeline_model_parallel_world_size",
             setter(&ParallelRanks::set_pipeline_model_parallel_world_size, "world_size"), value)
        .def("set_data_parallel_rank", setter(&ParallelRanks::set_data_parallel_rank, "rank"), value)
        .def("set_expert_model_parallel_rank", setter(&ParallelRanks::set_expert_model_parallel_rank, "rank"),
             value)
        .def("set_expert_model_parallel_world_size",
             setter(&ParallelRanks::set_expert_model_parallel_world_size, "world_size"), value)
        .def("set_expert_tensor_parallel_rank",
             setter(&ParallelRanks::set_expert_tensor_parallel_rank, "rank"), value)
        .def("set_expert_tensor_parallel_world_size",
             setter(&ParallelRanks::set_expert_tensor_parallel_world_size, "world_size"), value)
        .def("set_virtual_pipeline_model_parallel_rank",
             setter(&ParallelRanks::set_virtual_pipeline_model_parallel_rank, "rank"), value)
        .def("set_virtual_pipeline_model_parallel_world_size",
             setter(&ParallelRanks::set_virtual_pipeline_model_parallel_world_size, "world_size"), value)
        .def("get_virtual_pipeline_model_parallel_rank", &State::get_virtual_pipeline_model_parallel_rank)
        .def("get_virtual_pipeline_model_parallel_world_size",
             &State::get_virtual_pipeline_model_parallel_world_size);

    const auto stage = [](bool ignore_virtual, nb::handle vp_stage) {
        return Stage{ignore_virtual, optional_int(vp_stage, "vp_stage")};
    };
    state
        .def(
            "is_pipeline_first_stage",
            [stage](const State& self, bool ignore_virtual, nb::handle vp_stage) {
                return self.is_pipeline_first_stage(stage(ignore_virtual, vp_stage));
            },
            nb::arg("ignore_virtual"), nb::arg("vp_stage").none())
        .def(
            "is_pipeline_last_stage",
            [stage](const State& self, bool ignore_virtual, nb::handle vp_stage) {
                return self.is_pipeline_last_stage(stage(ignore_virtual, vp_stage));
            },
            nb::arg("ignore_virtual"), nb::arg("vp_stage").none())
        .def(
            "is_rank_in_embedding_group",
            [stage](const State& self, bool ignore_virtual, nb::handle vp_stage) {
                return self.is_rank_in_embedding_group(stage(ignore_virtual, vp_stage));
            },
            nb::arg("ignore_virtual"), nb::arg("vp_stage").none())
        .def("is_rank_in_position_embedding_group", &State::is_rank_in_position_embedding_group)
        .def("get_tensor_model_parallel_src_rank", &State::get_tensor_model_parallel_src_rank)
        .def("get_model_parallel_src_rank", &State::get_model_parallel_src_rank)
        .def("get_expert_model_parallel_src_rank", &State::get_expert_model_parallel_src_rank)
        .def("get_data_parallel_src_rank", &State::get_data_parallel_src_rank,
             nb::arg("with_context_parallel"))
        .def("get_pipeline_model_parallel_first_rank", &State::get_pipeline_model_parallel_first_rank)
        .def("get_pipeline_model_parallel_last_rank", &State::get_pipeline_model_parallel_last_rank)
        .def("get_pipeline_model_parallel_next_rank", &State::get_pipeline_model_parallel_next_rank)
        .def("get_pipeline_model_parallel_prev_rank", &State::get_pipeline_model_parallel_prev_rank);
}

}  // namespace

void bind_megatron(nb::module_& m) {
    auto own = m.def_submodule("megatron", "Megatron-core of August 2026, without a process.");
    bind_rank_generator(own);
    bind_grid(own);
    bind_process_groups(own);
    bind_state(own);
}

}  // namespace rankmesh::python
