// SPDX-License-Identifier: Apache-2.0
#include "convert/frameworks/topology_settings.hpp"

namespace rankmesh::conversion {

using detail::cat;

namespace {

void check_world(std::int64_t ranks, std::optional<int> known) {
    if (known && ranks != *known)
        throw UsageError(
            cat("the topology has ", ranks, " ranks, but the world ", *known, "; they must be equal"));
}

}  // namespace

Arrangement of_topology(const Mesh& mesh, Settings& settings, std::optional<int> world) {
    check_world(mesh.size(), world_of(settings, world));
    return {{mesh}};
}

TopologySettings topology_of(Settings& settings, std::optional<int> world, std::string_view tensor) {
    auto given = TopologySettings{};
    const auto known = world_of(settings, world);
    if (const auto axes = settings.words("axes")) {
        const auto dims = settings.numbers("dims");
        if (!dims) throw UsageError("a topology needs dims beside axes: a size for each axis");
        given = {*axes, *dims};
    } else {
        if (settings.has("dims")) throw UsageError("a topology needs axes beside dims: a name for each size");
        for (const auto& [name, value] : settings.values().items())
            if (name != "world_size") {
                // A file may say other things too, of which sizes of any name cannot be told apart.
                if (settings.is_file() && role_of(name) == name && name != "dp" && name != "pp" &&
                    name != "tp")
                    throw UsageError(cat(detail::in_quotes(name),
                                         " is no axis of a topology that is known here, such as pipe, data, ",
                                         tensor, "; for axes of other names give axes and dims"));
                if (given.axes.size() == max_axes)
                    throw UsageError(cat("a topology has at most ", max_axes, " axes; ",
                                         detail::in_quotes(name), " is one more"));
                given.axes.push_back(name);
                given.dims.push_back(settings.size(name));
            }
        if (given.axes.empty())
            throw UsageError(
                cat("a topology needs axes and their sizes, such as pipe=2 data=4 ", tensor, "=2"));
    }
    auto ranks = std::int64_t{1};
    for (auto dim : given.dims) ranks *= dim;
    check_world(ranks, known);
    return given;
}

Document topology_document(const Mesh& mesh, const std::vector<std::string>& order, std::string_view tensor) {
    auto values = Json{{"axes", Json::array()}, {"dims", Json::array()}};
    auto axes = std::string{};
    auto dims = std::string{};
    for (const auto& name : order) {
        const auto axis = name == "pp"   ? std::string("pipe")
                          : name == "dp" ? std::string("data")
                          : name == "tp" ? std::string(tensor)
                                         : name;
        const auto size = size_of(mesh, name);
        values["axes"].push_back(axis);
        values["dims"].push_back(size);
        axes += cat(axes.empty() ? "'" : ", '", axis, "'");
        dims += cat(dims.empty() ? "" : ", ", size);
    }
    return {values, cat("ProcessTopology(axes=[", axes, "], dims=[", dims, "])")};
}

}  // namespace rankmesh::conversion
