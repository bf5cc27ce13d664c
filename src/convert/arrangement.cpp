// SPDX-License-Identifier: Apache-2.0
#include "convert/arrangement.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace rankmesh::conversion {

namespace {

constexpr auto dp_names = std::array{"dp", "dp_replicate", "dp_shard"};

std::vector<std::string> names_of(const Mesh& mesh) {
    auto names = std::vector<std::string>{};
    for (int a = 0; a < mesh.axis_count(); ++a) names.emplace_back(mesh.name(AxisId{a}));
    return names;
}

Mesh renamed(Mesh mesh) {
    for (const auto& name : names_of(mesh)) {
        const auto role = role_of(name);
        if (role == name) continue;
        if (mesh.find(role))
            throw UsageError(cat("the axes '", name, "' and '", role, "' of mesh ", to_string(mesh),
                                 " are both ", role, "; give one another name"));
        mesh = joined(mesh, {name}, role);
    }
    return mesh;
}

}  // namespace

const Mesh* Arrangement::experts() const {
    for (std::size_t i = 1; i < meshes.size(); ++i)
        if (meshes[i].find("ep")) return &meshes[i];
    return nullptr;
}

std::vector<std::vector<Mesh>> layouts_of(const Job& job, bool serving) {
    auto layouts = std::vector<std::vector<Mesh>>{};
    for (const auto& program : programs_of(job)) {
        if ((program.servers > 0) != serving) continue;
        auto& meshes = layouts.emplace_back();
        for (const auto& one : program.own.meshes) {
            const auto placed = shortest(one);
            if (!placed.table().empty())
                throw UsageError(
                    cat(detail::in_quotes(to_string(one)),
                        " is a placement that no strides give, and frameworks lay their ranks out by "
                        "strides; give a mesh, or start its ranks elsewhere with rankmesh place --as "
                        "rankfile"));
            meshes.push_back(placed.mesh());
        }
    }
    return layouts;
}

Arrangement arrangement_of(Job job) {
    auto layouts = layouts_of(job, false);
    std::ranges::move(layouts_of(job, true), std::back_inserter(layouts));
    auto arrangement = Arrangement{layouts.front()};
    if (layouts.size() > 1) arrangement.job = std::move(job);
    return arrangement;
}

std::string to_string(const std::vector<Mesh>& meshes) {
    return to_string(Part{{meshes.begin(), meshes.end()}});
}

std::string to_string(const Arrangement& arrangement) {
    return arrangement.job.parts.empty() ? to_string(arrangement.meshes) : to_string(arrangement.job);
}

std::string_view role_of(std::string_view name) {
    static constexpr std::pair<std::string_view, std::string_view> roles[] = {
        {"pp", "pipe pipeline stage"}, {"dp", "data"},    {"dp_replicate", "replicate"},
        {"dp_shard", "shard fsdp"},    {"cp", "context"}, {"tp", "tensor model mp"},
        {"ep", "expert moe_ep"}};
    for (const auto& [role, names] : roles)
        if (frameworks::holds(frameworks::words_of(names), name)) return role;
    return name;
}

Arrangement in_roles(const Arrangement& arrangement) {
    auto known = arrangement;
    for (auto& mesh : known.meshes) mesh = joined(renamed(mesh), {"dp"}, known.dp_role);
    auto& dense = known.meshes.front();
    if (!dense.find("ep") || known.experts()) return known;
    if (size_of(dense, "ep") > 1) {
        auto experts = joined(dense, {"dp", "dp_replicate", "dp_shard", "cp"}, "edp");
        known.meshes.push_back(joined(experts, {"tp"}, "etp"));
        known.one_etp = "experts without a mesh of their own get etp=tp, so add one with etp=1 after a ;";
    }
    // In the dense layers the experts' ranks are data parallel, innermost there as every framework has them.
    auto& own = known.meshes.front();
    const auto into = own.find("dp_shard") && !own.find("dp") ? "dp_shard" : "dp";
    if (own.find(into)) {
        auto order = names_of(own);
        order.erase(std::ranges::find(order, "ep"));
        order.insert(std::ranges::find(order, into) + 1, "ep");
        own = own.permuted(std::vector<std::string_view>(order.begin(), order.end()));
    }
    own = joined(own, {into, "ep"}, into);
    return known;
}

int data_size(const Mesh& mesh) {
    auto size = 1;
    for (const auto* name : dp_names) size *= size_of(mesh, name);
    return size;
}

std::vector<std::string> by_stride(const Mesh& mesh) {
    auto found = std::vector<std::pair<int, std::string>>{};
    for (const auto& name : names_of(mesh))
        if (mesh.size(name) > 1) found.emplace_back(mesh.layout(name).digit(0).stride, name);
    std::ranges::stable_sort(found, std::greater{}, &std::pair<int, std::string>::first);
    auto names = std::vector<std::string>{};
    for (const auto& [stride, name] : found) names.push_back(name);
    return names;
}

Mesh plain_mesh(const std::vector<std::pair<std::string, int>>& axes) {
    auto list = std::vector<Axis>{};
    for (const auto& [name, size] : axes) list.push_back({name, size});
    return Mesh(std::span<const Axis>(list));
}

Mesh joined(const Mesh& mesh, const std::vector<std::string_view>& names, std::string_view as) {
    auto there = std::vector<std::string_view>{};
    for (int a = 0; a < mesh.axis_count(); ++a)
        if (std::ranges::find(names, mesh.name(AxisId{a})) != names.end())
            there.push_back(mesh.name(AxisId{a}));
    return there.empty() ? mesh : mesh.flatten(there, as);
}

}  // namespace rankmesh::conversion
