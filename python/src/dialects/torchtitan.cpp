// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <rankmesh/dialect/torchtitan/rank_info.hpp>

#include "dialects.hpp"

namespace rankmesh::python {

using namespace torchtitan;
using dialect::NameList;

namespace {

/// Python's ParallelDims: the degrees, and the meshes of a rank once they are built.
struct Dims : ParallelDims {
    using ParallelDims::ParallelDims;
    std::optional<torchtitan::RankInfo> built = {};
};

constexpr auto degrees =
    std::array<std::pair<const char*, int Degrees::*>, 6>{{{"dp_replicate", &Degrees::dp_replicate},
                                                           {"dp_shard", &Degrees::dp_shard},
                                                           {"cp", &Degrees::cp},
                                                           {"tp", &Degrees::tp},
                                                           {"pp", &Degrees::pp},
                                                           {"ep", &Degrees::ep}}};

/// The degrees by name, as a dataclass has them.
void make(Dims* self, const nb::dict& given) {
    auto of = Degrees{};
    for (const auto& [name, degree] : degrees) of.*degree = int_of(given[name], name);
    new (self) Dims(of, int_of(given["world_size"], "world_size"),
                    spmd_backend(text_of(given["spmd_backend"], "spmd_backend")));
}

NameList names_of(nb::handle names) {
    if (nb::isinstance<nb::str>(names)) return text_of(names, "dims");
    return texts_of(names, "dims");
}

/// The object of Python that stands for a mesh.
nb::any kept(nb::handle self, const DeviceMesh& mesh) {
    return nb::borrow<nb::any>(self.attr("_same")(mesh));
}
nb::any kept(nb::handle self, const std::optional<DeviceMesh>& mesh) {
    return mesh ? kept(self, *mesh) : nb::borrow<nb::any>(nb::none());
}
nb::any kept(nb::handle self, const std::vector<DeviceMesh>& meshes) {
    auto list = nb::list();
    for (const auto& mesh : meshes) list.append(kept(self, mesh));
    return nb::borrow<nb::any>(list);
}
nb::any kept(nb::handle self, const Meshes& meshes) {
    auto by_name = nb::dict();
    for (const auto& [name, mesh] : meshes) by_name[name.c_str()] = kept(self, mesh);
    return nb::borrow<nb::any>(by_name);
}

/// What a function of the meshes answers, which are built first where nobody has done it.
template <auto function>
nb::any asked(nb::handle self, const auto&... arguments) {
    if (!nb::cast<Dims&>(self).built) self.attr("build_mesh")();
    return kept(self, (*nb::cast<Dims&>(self).built.*function)(arguments...));
}
template <auto function>
nb::any asked_along(nb::handle self, nb::handle axes) {
    return asked<function>(self, NameList(texts_of(axes, "axes")));
}

}  // namespace

void bind_torchtitan(nb::module_& parent) {
    using Info = torchtitan::RankInfo;
    auto m = parent.def_submodule("torchtitan", "torchtitan's degrees and meshes.");
    m.def(
        "unfold_dp_axis", [](nb::handle axis) { return unfold_dp_axis(text_of(axis, "axis")); },
        nb::arg("axis").none());
    nb::class_<Dims>(m, "Dims", "Degrees that fit a world, all of them known, and the meshes of a rank.")
        .def("__init__", &make, nb::sig("def __init__(self, given: dict[str, typing.Any]) -> None"))
        .def_prop_ro("dp_enabled", &Dims::dp_enabled, "True for several replicas or shards.")
        .def_prop_ro("dp_replicate_enabled", &Dims::dp_replicate_enabled, "True for several replicas.")
        .def_prop_ro("dp_shard_enabled", &Dims::dp_shard_enabled, "True for several shards.")
        .def_prop_ro("cp_enabled", &Dims::cp_enabled, "True where several ranks share a sequence.")
        .def_prop_ro("dp_cp_enabled", &Dims::dp_cp_enabled, "True where dp or cp is.")
        .def_prop_ro("fsdp_enabled", &Dims::fsdp_enabled, "True where dp_shard or cp is.")
        .def_prop_ro("tp_enabled", &Dims::tp_enabled, "True where several ranks share a tensor.")
        .def_prop_ro("pp_enabled", &Dims::pp_enabled, "True for several stages.")
        .def_prop_ro("ep_enabled", &Dims::ep_enabled, "True where experts are sharded.")
        .def_prop_ro("non_data_parallel_size", &Dims::non_data_parallel_size,
                     "The ranks of one replica's shard: cp times tp times pp.")
        .def_prop_ro("seq_len_divisor", &Dims::seq_len_divisor, "What a sequence's length is a multiple of.")
        .def_prop_ro("world_mesh", &asked<&Info::world_mesh>, "All ranks along one axis, `world`.")
        .def(
            "get_optional_mesh",
            [](nb::handle self, nb::handle dims, nb::handle include_singleton_axes) {
                return asked<&Info::get_optional_mesh>(self, names_of(dims),
                                                       nb::cast<bool>(nb::bool_(include_singleton_axes)));
            },
            nb::arg("dims").none(), nb::kw_only(), nb::arg("include_singleton_axes").none() = false,
            nb::sig("def get_optional_mesh(self, dims: str | list[str], *, include_singleton_axes: bool = "
                    "False) -> typing.Any"),
            "The mesh along one name, or along several of one mesh; None where one of them is not enabled.")
        .def(
            "get_mesh",
            [](nb::handle self, nb::handle dims) { return asked<&Info::get_mesh>(self, names_of(dims)); },
            nb::arg("dims").none(), nb::sig("def get_mesh(self, dims: str | list[str]) -> typing.Any"),
            "The same; ValueError where there is none.")
        .def("spmd_meshes", &asked<&Info::spmd_meshes>,
             "The meshes of dense layers and of experts along what is enabled of them.")
        .def("spmd_dense_mesh", &asked<&Info::spmd_dense_mesh>, "dp, cp and tp under spmd_types.")
        .def("spmd_sparse_mesh", &asked<&Info::spmd_sparse_mesh>,
             "dp_replicate, efsdp and ep where experts are parallel under spmd_types.")
        .def("get_dense_tp_mesh", &asked<&Info::get_dense_tp_mesh>, "The tp of the dense mesh.")
        .def("get_all_one_dimensional_meshes", &asked<&Info::get_all_one_dimensional_meshes>,
             "The enabled meshes of several ranks along one name, by that name.")
        .def("get_activated_mesh", &asked_along<&Info::get_activated_mesh>, nb::arg("axes").none(),
             nb::sig("def get_activated_mesh(self, axes: list[str]) -> typing.Any"),
             "The mesh along those of these axes that exist and are enabled; None where none is.")
        .def("resolve_mesh", &asked_along<&Info::resolve_mesh>, nb::arg("axes").none(),
             nb::sig("def resolve_mesh(self, axes: collections.abc.Iterable[str]) -> typing.Any"),
             "The same along those of dp, cp, tp and ep, or of tp and ep under partial_dtensor.\n\nUnder "
             "full_dtensor dp is dp_replicate and dp_shard, and a mesh that is none of spmd_meshes() a "
             "ValueError.")
        .def(
            "resolve_shared_mesh",
            [](nb::handle self, nb::handle placements) {
                auto listed = std::vector<std::optional<AxisNames>>{};
                for (nb::handle layout : placements)
                    listed.push_back(layout.is_none()
                                         ? std::nullopt
                                         : std::optional(texts_of(layout.attr("axes")(), "placements")));
                return asked<&Info::resolve_shared_mesh>(self, listed);
            },
            nb::arg("placements").none(),
            nb::sig("def resolve_shared_mesh(self, placements: collections.abc.Iterable[typing.Any]) -> "
                    "typing.Any"),
            "The mesh of the axes that all given layouts have, each by its `axes()`.");
    m.def("dp_shard_of", [](const Dims& dims) { return dims.dp_shard; });
    m.def(
        "build", [](Dims& dims, nb::handle rank) { dims.built.emplace(dims, int_of(rank, "rank")); },
        nb::arg("dims"), nb::arg("rank").none());
    m.def("roots", [](const Dims& dims) {
        const auto info = Info(dims, 0);
        auto meshes = std::vector<Mesh>{};
        for (const auto& [name, mesh] : info.roots()) meshes.push_back(mesh.root());
        return meshes;
    });
    m.def(
        "single_axis_meshes",
        [](nb::handle dims) {
            const auto& built = nb::cast<Dims&>(dims).built;
            auto meshes = Meshes{};
            for (const auto& name : built ? built->mesh_dim_names() : AxisNames{})
                meshes.emplace_back(name, *built->get_optional_mesh(name, true));
            return kept(dims, meshes);
        },
        "The mesh along each name, enabled or not; none before they are built.");
}

}  // namespace rankmesh::python
