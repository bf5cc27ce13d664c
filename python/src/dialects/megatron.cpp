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

/// The parallel state of any rank, whose groups are ranks, or torch's once those are given.
class PythonState final : public ParallelGroups<nb::any> {
public:
    PythonState() = default;
    void enter_world(int rank, int world_size) { enter(rank, world_size); }
    void initialize_model_parallel(const Sizes& sizes) { initialize(sizes); }
    void destroy_model_parallel() {
        destroy();
        live_.reset();
    }
    /// torch's groups by their descriptions.
    void connect(nb::object live) { live_ = std::move(live); }

private:
    nb::any handle(const Named& named) const override {
        auto own = ranks_of(ranks(named));
        if (!live_.is_valid()) return nb::borrow<nb::any>(nb::cast(std::move(own)));
        return nb::borrow<nb::any>(live_[nb::str(named.desc.data(), named.desc.size())]);
    }

    nb::object live_;
};

/// `tp` is one dimension, a sequence of str several.
Dims dims_of(nb::handle dims) { return {texts_of(dims, "the dimensions")}; }

using View = std::optional<std::string_view>;

/// An int, shown so in signatures.
using Integer = nb::typed<nb::object, int>;

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

using Bound = nb::class_<PythonState>;

/// What a getter gives, or None where there is no such group and that is no error.
template <class Get>
auto unless_missing(bool is_error, const Get& get) -> std::optional<decltype(get())> {
    try {
        return get();
    } catch (const dialect::Error& error) {
        const auto is_missing =
            error.fault == dialect::Fault::not_initialised || error.fault == dialect::Fault::not_member;
        if (is_error || !is_missing) throw;
        return std::nullopt;
    }
}

nb::any or_none(const std::optional<nb::any>& group) {
    return group ? *group : nb::borrow<nb::any>(nb::none());
}

auto check_initialized() { return nb::arg("check_initialized") = true; }
auto with_context_parallel() { return nb::arg("with_context_parallel") = false; }
auto with_gtp_remat() { return nb::arg("with_gtp_remat") = true; }
auto partial() { return nb::arg("partial_data_parallel") = false; }
auto partial_expert() { return nb::arg("partial_expert_data_parallel") = false; }

/// A getter of a number, by the options that it has.
template <class Number>
void answer(Bound& state, const char* name, Number (ParallelRanks::*get)() const, const char* doc) {
    state.def(
        name, [get](const PythonState& self) { return (self.*get)(); }, doc);
}
template <class Number>
void answer(Bound& state, const char* name, Number (ParallelRanks::*get)(bool) const, const char* doc) {
    state.def(
        name, [get](const PythonState& self, bool with_cp) { return (self.*get)(with_cp); },
        with_context_parallel(), doc);
}
template <class Number>
void answer(Bound& state, const char* name, Number (ParallelRanks::*get)(DataParallel) const,
            const char* doc) {
    state.def(
        name,
        [get](const PythonState& self, bool with_cp, bool gtp, bool part) {
            return (self.*get)({with_cp, part, gtp});
        },
        with_context_parallel(), with_gtp_remat(), partial(), doc);
}
template <class Number>
void answer(Bound& state, const char* name, Number (ParallelRanks::*get)(ExpertDataParallel) const,
            const char* doc) {
    state.def(
        name,
        [get](const PythonState& self, bool gtp, bool part) {
            return (self.*get)({part, gtp});
        },
        with_gtp_remat(), partial_expert(), doc);
}
template <class Number>
void answer(Bound& state, const char* name, Number (ParallelRanks::*get)(Stage) const, const char* doc) {
    state.def(
        name,
        [get](const PythonState& self, bool ignore_virtual, const Integer& vp_stage) {
            return (self.*get)({ignore_virtual, optional_int(vp_stage, "vp_stage")});
        },
        nb::arg("ignore_virtual") = true, nb::arg("vp_stage") = nb::none(), doc);
}

void bind_groups(Bound& state) {
    state
#define RANKMESH_GROUP(name, desc, missing, sentence)                                         \
    .def(                                                                                     \
        "get_" #name "_group",                                                                \
        [](const PythonState& self, bool check) {                                             \
            return or_none(unless_missing(check, [&] { return self.get_##name##_group(); })); \
        },                                                                                    \
        check_initialized(), sentence)
        RANKMESH_MEGATRON_GROUPS(RANKMESH_GROUP)
#undef RANKMESH_GROUP
#define RANKMESH_RANKS(name)                                                                         \
    .def(                                                                                            \
        "get_" #name "_global_ranks",                                                                \
        [](const PythonState& self, bool check) {                                                    \
            return unless_missing(check, [&] { return list_of(self.get_##name##_global_ranks()); }); \
        },                                                                                           \
        check_initialized(), "The ranks of the group that get_" #name "_group gives.")
            RANKMESH_MEGATRON_RANKS(RANKMESH_RANKS)
#undef RANKMESH_RANKS
                .def(
                    "get_data_parallel_group",
                    [](const PythonState& self, bool with_cp, bool gtp, bool part, bool all_gather) {
                        return self.get_data_parallel_group({with_cp, part, gtp, all_gather});
                    },
                    with_context_parallel(), with_gtp_remat(), partial(), nb::kw_only(),
                    nb::arg("independent_all_gather") = false,
                    "Those who hold other samples: also along cp, along gtp_remat, or of one optimizer "
                    "instance only.\n"
                    "\n"
                    "With context parallelism `independent_all_gather` is the second group of "
                    "`create_all_gather_group`.")
                .def(
                    "get_data_parallel_group_gloo",
                    [](const PythonState& self, bool with_cp, bool part) {
                        return self.get_data_parallel_group_gloo({with_cp, part});
                    },
                    with_context_parallel(), partial(), "The same on the host.")
                .def(
                    "get_hierarchical_context_parallel_groups",
                    [](const PythonState& self, bool check) {
                        return unless_missing(
                            check, [&] { return self.get_hierarchical_context_parallel_groups(); });
                    },
                    check_initialized(), "A list of one group a level, innermost first.")
                .def(
                    "get_hybrid_data_context_parallel_groups",
                    [](const PythonState& self, bool check, const Integer& group_size) {
                        const auto size = optional_int(group_size, "group_size");
                        if (!size)
                            throw dialect::Error(dialect::Fault::unknown,
                                                 "give the group_size of a hybrid group");
                        return or_none(unless_missing(
                            check, [&] { return self.get_hybrid_data_context_parallel_groups(*size); }));
                    },
                    check_initialized(), nb::arg("group_size") = nb::none(),
                    "The group of `group_size` consecutive data and context parallel ranks.")
                .def("get_amax_reduction_group", &PythonState::get_amax_reduction_group,
                     with_context_parallel(), nb::arg("tp_only_amax_red") = false,
                     "The ranks that agree on a largest value: tensor with data or context parallel ranks.")
                .def(
                    "get_tensor_and_data_parallel_group",
                    [](const PythonState& self, bool check, bool with_cp) {
                        return or_none(unless_missing(
                            check, [&] { return self.get_tensor_and_data_parallel_group(with_cp); }));
                    },
                    check_initialized(), with_context_parallel(),
                    "The tensor and data parallel ranks of one stage.")
                .def(
                    "get_expert_tensor_model_pipeline_parallel_group",
                    [](const PythonState& self, bool check, bool egtp) {
                        return or_none(unless_missing(check, [&] {
                            return self.get_expert_tensor_model_pipeline_parallel_group(egtp);
                        }));
                    },
                    check_initialized(), nb::arg("with_egtp_remat") = false,
                    "All ranks that hold one set of experts on any stage.")
                .def(
                    "get_expert_data_parallel_group",
                    [](const PythonState& self, bool check, bool gtp, bool part) {
                        return or_none(unless_missing(check, [&] {
                            return self.get_expert_data_parallel_group({part, gtp});
                        }));
                    },
                    check_initialized(), with_gtp_remat(), partial_expert(),
                    "The ranks that hold the same experts: also along gtp_remat, or of one optimizer "
                    "instance only.")
                .def(
                    "get_expert_data_parallel_group_gloo",
                    [](const PythonState& self, bool part) {
                        return self.get_expert_data_parallel_group_gloo({part});
                    },
                    partial_expert(), "The same on the host.");
}

void bind_state(nb::module_& m) {
    auto state = Bound(m, "State", "The parallel state of any rank, under the names of parallel_state.");
    state.def(nb::init<>());
    bind_groups(state);
#define RANKMESH_ANSWER(type, name, parameters, value, sentence) \
    answer(state, #name, &ParallelRanks::name, sentence);
    RANKMESH_MEGATRON_ANSWERS(RANKMESH_ANSWER)
    RANKMESH_MEGATRON_OTHER_ANSWERS(RANKMESH_ANSWER)
#undef RANKMESH_ANSWER
#define RANKMESH_SLOT(name, parameter)                                                                     \
    state.def(                                                                                             \
        "set_" #name,                                                                                      \
        [](PythonState& self, const Integer& value) { self.set_##name(optional_int(value, #parameter)); }, \
        nb::arg(#parameter).none(), "What the getter answers from now on; None: the group's own again.");
    RANKMESH_MEGATRON_SLOTS(RANKMESH_SLOT)
#undef RANKMESH_SLOT
    // What changes a state, apart from the original's names.
    m.def(
        "enter_world",
        [](PythonState& self, nb::handle rank, nb::handle world_size) {
            self.enter_world(int_of(rank, "rank"), int_of(world_size, "world_size"));
        },
        nb::arg("state"), nb::arg("rank"), nb::arg("world_size"),
        "Speaks for this rank of this world from now on.");
    m.def("initialize", &PythonState::initialize_model_parallel, nb::arg("state"), nb::arg("sizes"),
          "Makes the groups.");
    m.def("connect", &PythonState::connect, nb::arg("state"), nb::arg("live"),
          "Gives torch's groups, by description, to the getters.");
    m.def("destroy", &PythonState::destroy_model_parallel, nb::arg("state"),
          "Forgets the groups and what was set.");
    m.def(
        "process_groups", [](const PythonState& self) { return self.process_groups(); }, nb::arg("state"),
        "All process groups of the world.");
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
