// SPDX-License-Identifier: Apache-2.0
#include "convert/job.hpp"

#include <algorithm>

#include <rankmesh/core/detail/caller.hpp>
#include <rankmesh/engine/launcher.hpp>

#include "formats/text.hpp"

namespace rankmesh::conversion {

namespace {

/// A mesh as it is written.
struct Written {
    std::optional<Placement> placed;  ///< with a table
    std::optional<MeshSpec> spec;
    bool begins = false;  ///< it says where it begins

    bool has_rest() const { return spec && spec->has_rest(); }
    Placement resolved(int begin, int end) const {
        return placed ? *placed : Placement((begins ? *spec : spec->shifted(begin)).resolve(end));
    }
};

Written written(std::string_view text) {
    if (text.find("@[") != std::string_view::npos) return {Placement::parse(text), {}, true};
    return {{}, MeshSpec::parse(text), text.find('@') != std::string_view::npos};
}

const Written* known_of(const std::vector<Written>& part) {
    const auto known = std::ranges::find_if_not(part, &Written::has_rest);
    return known == part.end() ? nullptr : &*known;
}

int lowest(const Placement& placement) {
    return placement.table().empty() ? placement.mesh().offset() : std::ranges::min(placement.table());
}

/// The end of a part without a known size: what the parts behind it leave of the world.
int end_of(const std::vector<std::vector<Written>>& parts, std::size_t part, int world) {
    auto end = world;
    for (auto p = parts.size(); --p > part;) {
        const auto* known = known_of(parts[p]);
        if (!known)
            throw UsageError(cat("the meshes ", to_string(*parts[part].front().spec), " and ",
                                 to_string(*parts[p].front().spec),
                                 " both have a size '*'; give all sizes of one of them"));
        const auto placed = known->resolved(0, 0);
        end = known->begins ? lowest(placed) : end - placed.size();
    }
    return end;
}

/// The number of ranks of both.
int common(const Placement& a, const Placement& b) {
    const auto first = std::max(lowest(a), lowest(b));
    const auto end = std::min(a.extent(), b.extent());
    const auto is_dense = [](const auto& one) { return one.extent() - lowest(one) == one.size(); };
    if (first >= end || (is_dense(a) && is_dense(b))) return std::max(end - first, 0);
    return static_cast<int>(std::ranges::count_if(a.ranks(), [&](int rank) { return b.contains(rank); }));
}

Placement shifted(const Placement& placement, int by) {
    if (placement.table().empty()) return placement.mesh().shifted(by);
    auto table = std::vector<int>(placement.table().begin(), placement.table().end());
    for (auto& rank : table) rank += by;
    return {placement.mesh(), std::move(table)};
}

}  // namespace

int Part::first() const { return lowest(front()); }

int Job::extent() const { return std::ranges::max(parts, {}, &Part::extent).extent(); }

int Job::size() const {
    auto size = 0;
    for (const auto& part : parts) size += part.size();
    return size;
}

std::vector<Placement> Job::meshes() const {
    auto all = std::vector<Placement>{};
    for (const auto& part : parts) all.insert(all.end(), part.meshes.begin(), part.meshes.end());
    return all;
}

const Placement* Job::single() const {
    return parts.size() == 1 && parts[0].meshes.size() == 1 ? &parts[0].front() : nullptr;
}

std::size_t Job::part_of(int rank) const {
    const auto found =
        std::ranges::find_if(parts, [&](const Part& part) { return part.front().contains(rank); });
    if (found == parts.end()) throw UsageError(cat("rank ", rank, " is in no mesh of ", to_string(*this)));
    return static_cast<std::size_t>(found - parts.begin());
}

Job parse_job(std::string_view text, std::optional<int> world, std::optional<int> devices) {
    auto parts = std::vector<std::vector<Written>>{};
    for (const auto part : formats::split(text, '+')) {
        parts.emplace_back();
        for (const auto mesh : formats::split(part, ';')) parts.back().push_back(written(mesh));
    }
    auto job = Job{};
    for (std::size_t p = 0; p < parts.size(); ++p) {
        const auto begin = p == 0 ? 0 : job.parts.back().extent();
        const auto* known = known_of(parts[p]);
        if (!known && !world)
            if (const auto announced = announced_size()) world = announced->value;
        if (!known && !world) world = devices;
        if (!known && !world)
            throw UsageError(cat("mesh ", to_string(*parts[p].front().spec), " has a size '*', but neither ",
                                 detail::in_python("world", "--world"),
                                 " nor a launcher gives the number of ranks; add ",
                                 detail::in_python("world=N", "--world N"), ", or replace '*' by a number"));
        const auto end = known ? known->resolved(begin, 0).extent() : end_of(parts, p, *world);
        auto& part = job.parts.emplace_back();
        for (const auto& mesh : parts[p]) {
            part.meshes.push_back(mesh.resolved(begin, end));
            if (part.size() != part.meshes.back().size() ||
                common(part.front(), part.meshes.back()) != part.size())
                throw UsageError(cat("the meshes ", to_string(part.front()), " and ",
                                     to_string(part.meshes.back()),
                                     " are over different ranks; write '+' between such meshes"));
        }
        for (std::size_t q = 0; q < p; ++q)
            if (common(job.parts[q].front(), part.front()) > 0)
                throw UsageError(cat("the parts ", to_string(job.parts[q]), " and ", to_string(part),
                                     " share ranks; write ';' between meshes over the same ranks"));
    }
    return job;
}

std::vector<Program> programs_of(const Job& job) {
    auto programs = std::vector<Program>{};
    for (const auto& part : job.parts) {
        const auto old = static_cast<std::ptrdiff_t>(programs.size());
        for (const auto& mesh : part.meshes) {
            const auto axis = mesh.mesh().find("servers");
            const auto servers = axis ? mesh.mesh().size(*axis) : 0;
            auto found = std::find_if(programs.begin() + old, programs.end(),
                                      [&](const auto& program) { return program.servers == servers; });
            if (found == programs.end()) found = programs.insert(found, {{}, {}, servers});
            found->given.meshes.push_back(mesh);
            found->own.meshes.push_back(job.parts.size() == 1 ? mesh : shifted(mesh, -part.first()));
        }
    }
    return programs;
}

Mesh one_server(const Mesh& mesh) {
    auto axes = std::vector<Axis>{};
    for (int a = 0; a < mesh.axis_count(); ++a)
        if (mesh.name(AxisId{a}) != "servers") axes.push_back({mesh.name(AxisId{a}), mesh.size(AxisId{a})});
    return axes.empty() ? Mesh{{"tp", 1}} : Mesh(std::span<const Axis>(axes));
}

std::string to_string(const Part& part) { return to_string(Job{{part}}); }

std::string to_string(const Job& job) {
    auto text = std::string{};
    for (const auto& part : job.parts)
        for (const auto& mesh : part.meshes) {
            text += text.empty() ? "" : &mesh == &part.front() ? " + " : "; ";
            text += to_string(mesh);
            if (&part != &job.parts[0] && mesh.table().empty() && mesh.mesh().offset() == 0) text += " @0";
        }
    return text;
}

}  // namespace rankmesh::conversion
