// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/megatron/hyper_comm_grid.hpp>
#include <rankmesh/dialect/megatron/parallel_state.hpp>

#include "dialects.hpp"

namespace rankmesh::python {

using namespace megatron;

namespace {

/// The parallel state of any rank, whose groups are ranks, or torch's once those are given.
class PythonState final : public ParallelGroups<nb::any> {
public:
    PythonState() = default;
    using ParallelRanks::enter;
    using ParallelRanks::initialize;
    void end() {
        destroy();
        live_.reset();
    }
    /// torch's groups by their descriptions.
    void connect(nb::object live) { live_ = std::move(live); }

private:
    nb::any handle(const Named& named) const override {
        auto own = handle_of(ranks(named));
        if (!live_.is_valid()) return nb::borrow<nb::any>(nb::cast(std::move(own)));
        return nb::borrow<nb::any>(live_[nb::str(named.desc.data(), named.desc.size())]);
    }

    nb::object live_;
};

/// The arguments of initialize_model_parallel by name.
using Given = nb::typed<nb::dict, std::string, nb::any>;

/// Those that say who stands together.
Sizes sizes_of(const Given& given) {
    auto sizes = Sizes{};
    const auto take = [&](const char* name, auto& size) {
        using Size = std::remove_reference_t<decltype(size)>;
        const auto value = given.contains(name) ? nb::object(given[name]) : nb::none();
        if constexpr (std::is_same_v<Size, bool>)
            size = nb::cast<bool>(nb::bool_(value));
        else if (!std::is_same_v<Size, std::vector<int>> || !value.is_none())
            size = argument<Size>(value, name);
    };
#define RANKMESH_SIZE(type, name, ...) take(#name, sizes.name);
    RANKMESH_MEGATRON_SIZES(RANKMESH_SIZE)
#undef RANKMESH_SIZE
    return sizes;
}

/// An int, shown so in signatures.
using Integer = nb::typed<nb::object, int>;

using View = std::optional<std::string_view>;

void bind_rank_generator(nb::module_& m) {
    using Own = RankGenerator;
    const auto order = Parameter("order", "the order"), token = Parameter("token", "the token");
    auto own = nb::class_<Own>(m, "RankGenerator", "The ranks of some axes, listed innermost first.");
    def_constructor<int, int, int, int, int, std::string, int, int>(
        own, {"tp", "ep", "dp", "pp", "cp", order, "rank_offset", "gtp_remat"});
    own.def_prop_ro("world_size", &Own::world_size)
        .def_prop_ro("order", &Own::order)
        .def_prop_ro("ordered_size", &Own::ordered_size);
    def_method(own, "get_mask", &Own::get_mask, {order, token},
               "For each axis of `order` whether `token`, one or several with `-` between them, lists it.");
    def_method(own, "get_ranks", &Own::get_ranks, {token},
               "All groups along the axes of `token`, whose order does not matter, by their first ranks.");
    def_method(
        own, "group",
        +[](const Own& self, std::string_view along, int rank) -> std::optional<Ranks> {
            const auto axes = self.axes(along);
            if (!self.mesh().contains(rank)) return std::nullopt;
            return Ranks(self.mesh().group(rank, axes));
        },
        {token, Parameter("rank", "a rank")},
        "The group of one rank in closed form, None outside; an addition to the original.");
    def_named(m, "inject_gtp_remat_axis", inject_gtp_remat_axis, {"order", "after"});
    using Picked = std::vector<int>;
    def_named(m, "default_embedding_ranks", +[](Picked of) { return default_embedding_ranks(of); },
              {"pp_ranks"});
    def_named(m, "default_position_embedding_ranks",
              +[](Picked of) { return default_position_embedding_ranks(of); }, {"pp_ranks"});
}

void bind_grid(nb::module_& m) {
    const auto dims = Parameter("dims", "the dimensions"), view = Parameter("view", "a view");
    const auto rank = Parameter("rank", "a rank"), shape = Parameter("shape", "the shape");
    auto own = nb::class_<Grid>(
        m, "Grid", "A grid over a range of ranks, with groups along any dimensions of any view.");
    def_constructor<std::vector<int>, std::vector<std::string>, std::optional<int>, int>(
        own, {shape, "dim_names", "world_size", "rank_offset"});
    own.def_prop_ro("size", &Grid::size).def("destroy", &Grid::destroy);
    def_method(own, "is_rank_in_grid", &Grid::is_rank_in_grid, {rank});
    def_method(own, "register_view", &Grid::register_view,
               {Parameter("name", "a view"), shape, "dim_names", "shared_dims"});
    def_method(own, "mesh", &Grid::mesh, {view});
    def_method(own, "get_rank_enum", &Grid::get_rank_enum, {dims, view});
    def_method(own, "gen_rank_enum", &Grid::gen_rank_enum, {dims});
    def_method(own, "group",
               +[](const Grid& self, Dims along, View of, int asked) {
                   const auto is_inside = self.is_rank_in_grid(asked);
                   return is_inside ? std::optional(Ranks(self.group(asked, along, of))) : std::nullopt;
               },
               {dims, view, rank});
    def_method(own, "key",
               +[](const Grid& self, Dims along, View of) {
                   const auto key = self.key(along, of);
                   return std::make_pair(key.view, key.dims);
               },
               {dims, view});
    def_method(own, "create_pg", +[](Grid& self, Dims along, View of) { self.create_pg(along, of); },
               {dims, view});
    def_method(own, "get_pg", +[](const Grid& self, Dims along, View of) { self.get_pg(along, of); },
               {dims, view});
}

void bind_process_groups(nb::module_& m) {
    using Own = ProcessGroups;
    const auto desc = Parameter("desc", "a description");
    auto own = nb::class_<Own>(
        m, "ProcessGroups",
        "All process groups of a world, by the group_desc under which the original creates them.");
    own.def(
           "__init__",
           [](Own* self, const Given& sizes, nb::handle world_size) {
               new (self) Own(sizes_of(sizes), int_of(world_size, "world_size"));
           },
           nb::arg("sizes"), nb::arg("world_size"))
        .def("descriptions", &Own::descriptions,
             "Every description, in the order in which the original first uses it.")
        .def("new_group_calls", &Own::new_group_calls, "How many groups the original creates.");
    def_method(own, "groups", &Own::groups, {desc},
               "The groups of a description, in the order of their creation.");
    def_method(
        own, "group",
        +[](const Own& self, std::string_view of, int rank) { return handle_of(self.group(of, rank)); },
        {desc, Parameter("rank", "a rank")}, "The group of a rank, ascending; None where it has none.");
    m.def(
        "nccl_sections",
        [] {
            auto sections = nb::typed<nb::dict, std::string, std::string>(nb::dict());
            for (const auto& [of, section] : nccl_sections()) sections[nb::cast(of)] = section;
            return sections;
        },
        "The section of each description's options for NCCL, empty for groups on the host.");
}

/// What a getter gives, or None where there is no such group and that is no error.
template <class Get, class Group = std::invoke_result_t<Get>>
auto or_none(bool is_error, const Get& get) {
    constexpr auto is_any = std::is_same_v<Group, nb::any>;
    using Answer = std::conditional_t<is_any, nb::any, std::optional<Group>>;
    try {
        return Answer(get());
    } catch (const dialect::Error& error) {
        const auto is_missing =
            error.fault == dialect::Fault::not_initialised || error.fault == dialect::Fault::not_member;
        if (is_error || !is_missing) throw;
        if constexpr (is_any)
            return nb::borrow<nb::any>(nb::none());
        else
            return Answer();
    }
}

/// Binds getters of the parallel state.
class Getters {
public:
    explicit Getters(nb::module_& m)
        : state_(m, "State", "The parallel state of any rank, under the names of parallel_state.") {
        state_.def(nb::init<>());
        bind_groups();
        bind_numbers();
    }

private:
    using Self = const PythonState&;

    static auto with_cp() { return nb::arg("with_context_parallel") = false; }
    static auto with_gtp() { return nb::arg("with_gtp_remat") = true; }
    static auto partial() { return nb::arg("partial_data_parallel") = false; }
    static auto partial_expert() { return nb::arg("partial_expert_data_parallel") = false; }

    /// One with `check_initialized`, which is first, and options of these types.
    template <class... Of, class Get, class... Extra>
    void checked(const char* name, const Get& get, const Extra&... extra) {
        state_.def(
            name,
            [get](Self self, bool check, Of... options) {
                return or_none(check, [&] { return std::invoke(get, self, options...); });
            },
            nb::arg("check_initialized") = true, extra...);
    }

    void bind_groups() {
        using Groups = ParallelGroups<nb::any>;
#define RANKMESH_GROUP(name, desc, missing, sentence) \
    checked("get_" #name "_group", &Groups::get_##name##_group, sentence);
        RANKMESH_MEGATRON_GROUPS(RANKMESH_GROUP)
#undef RANKMESH_GROUP
#define RANKMESH_RANKS(name)                                                                               \
    checked(                                                                                               \
        "get_" #name "_global_ranks", [](Self self) { return list_of(self.get_##name##_global_ranks()); }, \
        "The ranks of the group that get_" #name "_group gives.");
        RANKMESH_MEGATRON_RANKS(RANKMESH_RANKS)
#undef RANKMESH_RANKS
        state_
            .def(
                "get_data_parallel_group",
                [](Self self, bool cp, bool gtp, bool part, bool gather) {
                    return self.get_data_parallel_group({cp, part, gtp, gather});
                },
                with_cp(), with_gtp(), partial(), nb::kw_only(), nb::arg("independent_all_gather") = false,
                "Those who hold other samples: also along cp, along gtp_remat, or of one optimizer "
                "instance only.\n\nWith context parallelism `independent_all_gather` is the second group of "
                "`create_all_gather_group`.")
            .def(
                "get_data_parallel_group_gloo",
                [](Self self, bool cp, bool part) {
                    return self.get_data_parallel_group_gloo({cp, part});
                },
                with_cp(), partial(), "The same on the host.");
        checked("get_hierarchical_context_parallel_groups", &Groups::get_hierarchical_context_parallel_groups,
                "A list of one group a level, innermost first.");
        checked<const Integer&>(
            "get_hybrid_data_context_parallel_groups",
            [](Self self, const Integer& group_size) {
                const auto size = optional_int(group_size, "group_size");
                if (!size)
                    throw dialect::Error(dialect::Fault::unknown, "give the group_size of a hybrid group");
                return self.get_hybrid_data_context_parallel_groups(*size);
            },
            nb::arg("group_size") = nb::none(),
            "The group of `group_size` consecutive data and context parallel ranks.");
        state_.def("get_amax_reduction_group", &PythonState::get_amax_reduction_group, with_cp(),
                   nb::arg("tp_only_amax_red") = false,
                   "The ranks that agree on a largest value: tensor with data or context parallel ranks.");
        checked<bool>("get_tensor_and_data_parallel_group", &Groups::get_tensor_and_data_parallel_group,
                      with_cp(), "The tensor and data parallel ranks of one stage.");
        checked<bool>("get_expert_tensor_model_pipeline_parallel_group",
                      &Groups::get_expert_tensor_model_pipeline_parallel_group,
                      nb::arg("with_egtp_remat") = false,
                      "All ranks that hold one set of experts on any stage.");
        checked<bool, bool>(
            "get_expert_data_parallel_group",
            [](Self self, bool gtp, bool part) {
                return self.get_expert_data_parallel_group({part, gtp});
            },
            with_gtp(), partial_expert(),
            "The ranks that hold the same experts: also along gtp_remat, or of one optimizer instance only.");
        state_.def(
            "get_expert_data_parallel_group_gloo",
            [](Self self, bool part) { return self.get_expert_data_parallel_group_gloo({part}); },
            partial_expert(), "The same on the host.");
    }

    /// A getter of a number, by the options that it has.
    template <class Number, class... Of>
    void number(const char* name, Number (ParallelRanks::*get)(Of...) const, const char* doc) {
        using Options = std::tuple<Of..., void>;
        const auto def = [&](auto call, const auto&... extra) { state_.def(name, call, extra..., doc); };
        if constexpr (std::is_same_v<Options, std::tuple<void>>)
            def([get](Self self) { return (self.*get)(); });
        else if constexpr (std::is_same_v<Options, std::tuple<bool, void>>)
            def([get](Self self, bool cp) { return (self.*get)(cp); }, with_cp());
        else if constexpr (std::is_same_v<Options, std::tuple<DataParallel, void>>)
            def(
                [get](Self self, bool cp, bool gtp, bool part) {
                    return (self.*get)({cp, part, gtp});
                },
                with_cp(), with_gtp(), partial());
        else if constexpr (std::is_same_v<Options, std::tuple<ExpertDataParallel, void>>)
            def(
                [get](Self self, bool gtp, bool part) {
                    return (self.*get)({part, gtp});
                },
                with_gtp(), partial_expert());
        else
            def(
                [get](Self self, bool ignore_virtual, const Integer& stage) {
                    return (self.*get)({ignore_virtual, optional_int(stage, "vp_stage")});
                },
                nb::arg("ignore_virtual") = true, nb::arg("vp_stage") = nb::none());
    }

    void bind_numbers() {
#define RANKMESH_ANSWER(type, name, parameters, value, sentence) \
    number(#name, &ParallelRanks::name, sentence);
        RANKMESH_MEGATRON_ANSWERS(RANKMESH_ANSWER)
        RANKMESH_MEGATRON_OTHER_ANSWERS(RANKMESH_ANSWER)
#undef RANKMESH_ANSWER
#define RANKMESH_SLOT(name, parameter)                                                                     \
    state_.def(                                                                                            \
        "set_" #name,                                                                                      \
        [](PythonState& self, const Integer& value) { self.set_##name(optional_int(value, #parameter)); }, \
        nb::arg(#parameter).none(), "What the getter answers from now on; None: the group's own again.");
        RANKMESH_MEGATRON_SLOTS(RANKMESH_SLOT)
#undef RANKMESH_SLOT
    }

    nb::class_<PythonState> state_;
};

/// What changes a state, apart from the original's names.
void bind_state(nb::module_& m) {
    m.def(
         "enter_world",
         [](PythonState& self, nb::handle rank, nb::handle world_size) {
             self.enter(int_of(rank, "rank"), int_of(world_size, "world_size"));
         },
         nb::arg("state"), nb::arg("rank"), nb::arg("world_size"),
         "Speaks for this rank of this world from now on.")
        .def(
            "initialize", [](PythonState& self, const Given& sizes) { self.initialize(sizes_of(sizes)); },
            nb::arg("state"), nb::arg("sizes"), "Makes the groups.")
        .def("connect", &PythonState::connect, nb::arg("state"), nb::arg("live"),
             "Gives torch's groups, by description, to the getters.")
        .def("destroy", &PythonState::end, nb::arg("state"), "Forgets the groups and what was set.")
        .def(
            "group",
            [](const PythonState& self, nb::handle desc) {
                return self.group(text_of(desc, "a description"));
            },
            nb::arg("state"), nb::arg("desc"), "This rank's group of a description; None where it has none.")
        .def(
            "process_groups", [](const PythonState& self) { return self.process_groups(); }, nb::arg("state"),
            "All process groups of the world.");
}

}  // namespace

void bind_megatron(nb::module_& m) {
    auto own = m.def_submodule("megatron", "Megatron-core of August 2026, without a process.");
    bind_rank_generator(own);
    bind_grid(own);
    bind_process_groups(own);
    Getters{own};
    bind_state(own);
}

}  // namespace rankmesh::python
