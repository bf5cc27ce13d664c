// SPDX-License-Identifier: Apache-2.0
#include "convert/converters.hpp"

namespace rankmesh::conversion {

namespace of_torch {

Arrangement read(Settings& settings, std::optional<int> world) {
    settings.ignore({"device_type"});
    const auto shape = settings.numbers("mesh_shape");
    if (!shape || shape->empty())
        throw UsageError("torch needs mesh_shape: the sizes, outermost first, such as mesh_shape=(2,4)");
    const auto names = settings.words("mesh_dim_names");
    if (!names) throw UsageError("torch needs mesh_dim_names, which say what the dimensions are for");
    if (names->size() != shape->size())
        throw UsageError(cat("mesh_shape has ", shape->size(), " sizes and mesh_dim_names ", names->size(),
                             " names; give each size a name"));
    auto axes = std::vector<std::pair<std::string, int>>{};
    for (std::size_t i = 0; i < shape->size(); ++i) axes.emplace_back((*names)[i], (*shape)[i]);
    const auto mesh = plain_mesh(axes);
    if (const auto known = world_of(settings, world); known && *known != mesh.size())
        throw UsageError(cat("mesh_shape makes ", mesh.size(), " ranks, but the world has ", *known,
                             "; torch would leave ranks out"));
    return {{mesh}};
}

/// One mesh for dense layers and experts where dp is made of whole groups of experts; else the dense one.
Mesh one_mesh(const Arrangement& arrangement) {
    const auto roles = Arrangement{in_roles(arrangement).meshes};
    const auto* experts = roles.experts();
    if (!experts || arrangement.meshes.size() == 1) return arrangement.dense();
    const auto ep = size_of(*experts, "ep");
    const auto dp = std::string_view(size_of(roles.dense(), "dp_shard") > 1 ? "dp_shard" : "dp");
    if (!roles.dense().find(dp) || size_of(roles.dense(), dp) % ep != 0) return arrangement.dense();
    const auto split = roles.dense().split(dp, {{dp, rest}, {"ep", ep}});
    const auto same = compare(roles, in_roles({{split}}), [](auto) { return std::string{}; });
    return same.fits && same.lost.empty() ? split : arrangement.dense();
}

Document write(const Arrangement& arrangement) {
    const auto mesh = one_mesh(arrangement);
    auto names = mesh.is_plain() ? std::vector<std::string>{} : by_stride(mesh);
    if (mesh.is_plain())
        for (int a = 0; a < mesh.axis_count(); ++a) names.emplace_back(mesh.name(AxisId{a}));
    if (names.empty()) names.emplace_back(mesh.name(AxisId{0}));
    auto shape = std::vector<int>{};
    for (const auto& name : names) shape.push_back(mesh.size(name));
    const auto comma = names.size() == 1 ? "," : "";
    return {{{"mesh_shape", shape}, {"mesh_dim_names", names}},
            cat("mesh_shape=(", detail::with_commas(shape), comma, "), mesh_dim_names=(\"",
                frameworks::joined(names, "\", \""), "\"", comma, ")")};
}

}  // namespace of_torch

Converter torch() {
    return {
        .name = "torch",
        .of = "the arguments of init_device_mesh",
        .example = "'mesh_shape=(2, 4), mesh_dim_names=(\"dp\", \"tp\")'",
        .read = of_torch::read,
        .write = of_torch::write,
        .why = {{"ep, edp, etp",
                 "one mesh does not hold both; a second init_device_mesh would have to make these groups"}},
        .own_names = true};
}

}  // namespace rankmesh::conversion
