// SPDX-License-Identifier: Apache-2.0
#include "convert/topology_settings.hpp"

#include <algorithm>

namespace rankmesh::conversion {

static void check_world(std::int64_t ranks, std::optional<int> known) {
    if (known && ranks != *known)
        throw UsageError(
            cat("the topology has ", ranks, " ranks, but the world ", *known, "; they must be equal"));
}

bool has_sizes(Settings& settings, const SizesOfAxes& sizes) {
    return std::ranges::any_of(sizes, [&](const auto& size) { return settings.has(size.second); });
}

Arrangement topology_of_sizes(Settings& settings, const SizesOfAxes& sizes, std::optional<int> world) {
    auto axes = std::vector<std::pair<std::string, int>>{};
    auto missing = std::string_view{};
    auto ranks = std::int64_t{1};
    for (const auto& [axis, size] : sizes) {
        axes.emplace_back(axis, settings.size(size));
        ranks *= axes.back().second;
        const auto is_argument =
            settings.call() != "PipeDataParallelTopology" || axis == "pipe" || axis == "data";
        if (!settings.call().empty() && is_argument && !settings.has(size)) missing = size;
    }
    const auto known = world_of(settings, world);
    settings.finish();  // what is missing may be misspelt
    if (!missing.empty())
        throw UsageError(cat(settings.call(), " needs ", missing, "; add ", missing, "=",
                             known && *known % ranks == 0 ? *known / ranks : 1));
    check_world(ranks, known);
    return {{plain_mesh(axes)}};
}

AxesAndDims topology_of(Settings& settings, std::optional<int> world, std::string_view tensor) {
    auto axes = std::vector<std::string>{};
    auto dims = std::vector<int>{};
    const auto known = world_of(settings, world);
    if (const auto given = settings.words("axes")) {
        const auto sizes = settings.numbers("dims");
        if (!sizes) throw UsageError("a topology needs dims beside axes: a size for each axis");
        axes = *given, dims = *sizes;
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
                if (axes.size() == max_axes)
                    throw UsageError(cat("a topology has at most ", max_axes, " axes; ",
                                         detail::in_quotes(name), " is one more"));
                axes.push_back(name);
                dims.push_back(settings.size(name));
            }
        if (axes.empty())
            throw UsageError(
                cat("a topology needs axes and their sizes, such as pipe=2 data=4 ", tensor, "=2"));
    }
    auto ranks = std::int64_t{1};
    for (auto dim : dims) ranks *= dim;
    check_world(ranks, known);
    return {axes, dims};
}

Mesh dense_of(const Arrangement& arrangement) {
    return joined(arrangement.dense(), {"dp", "dp_replicate", "dp_shard"}, "dp");
}

Document topology_document(const Mesh& mesh, const std::vector<std::string>& order, std::string_view tensor) {
    auto axes = std::vector<std::string>{};
    auto dims = std::vector<int>{};
    for (const auto& name : order) {
        axes.emplace_back(name == "pp" ? "pipe" : name == "dp" ? "data" : name == "tp" ? tensor : name);
        dims.push_back(size_of(mesh, name));
    }
    return {
        {{"axes", axes}, {"dims", dims}},
        cat("ProcessTopology(axes=", frameworks::list_of(axes), ", dims=", frameworks::list_of(dims), ")")};
}

}  // namespace rankmesh::conversion
