// SPDX-License-Identifier: Apache-2.0
// What is made of the rows of a framework and of settings: kinds with their numbers.
#pragma once

#include "frameworks/rows.hpp"

namespace rankmesh::frameworks {

/// What a kind is called in a plan of several: `actor.dp_group`.
inline std::string name_in_plan(std::string_view name, std::string_view kind) {
    return cat(name, name.empty() ? "" : ".", kind);
}

/// One kind, with its numbers. It has no strings and no mesh: a state has 30 kinds, and few are asked about.
struct Kind {
    const KindRow* row;
    std::string_view name;
    std::string_view brief;   // in a plan
    std::string_view device;  // of which this one's groups are those on the host, else itself
    int base;                 // the rank from which `listed` counts
    Layout listed = {};       // the ranks in the framework's order
    int inside = 0;           // the first of its digits in a period
    int size = 0;             // ranks of a group, before some are picked
    int step = 1;             // between them in the list
    int period = 0;           // of what is cut into groups, one after the other
    std::vector<int> at = {};
    Placed placed = {};
    bool partial = false;  // outside there may be ranks

    int count() const { return listed.size() / period * parts(); }
    bool has_shorter() const { return period % size != 0; }
    GroupPart group(int number) const;
    /// The group that is made of the ranks among which `rank` is, though only some may be members.
    std::optional<GroupPart> listed_of(int rank) const;
    std::optional<GroupPart> of(int rank) const;
    Declaration declaration() const;

private:
    int parts() const { return (period + size - 1) / size; }
    Layout along(bool sorted = false) const;
    std::optional<Layout> run() const;
    GroupPart listed_group(int number) const;
    Mesh whole() const;
};

using Meshes = std::vector<std::pair<std::string, Mesh>>;  // by the names of their rows

/// The kind of a row, with the ranks as `experts: * | ep` or `dp tp / size` lists them.
Kind kind_of(const KindRow& row, const Given& given, const Meshes& meshes);

struct Groups::Made {
    const Framework* framework;
    Given given;
    Meshes meshes = {};
    std::vector<Kind> kinds = {};
    std::vector<std::shared_ptr<const KindRow>> owned = {};  // of kinds that are not rows of the framework
    Placed placed = {};

    const Kind* find(std::string_view name) const {
        const auto found = std::ranges::find(kinds, name, &Kind::name);
        return found == kinds.end() ? nullptr : &*found;
    }
    /// Throws the original's error for an unknown kind.
    const Kind& at(std::string_view name) const;
};

/// What only the rooms beside this one ask of groups.
struct RANKMESH_EXPORT Access {
    static const Groups::Made& made(const Groups& groups) { return *groups.made_; }
    static const Framework& framework(const Groups& groups) { return *groups.made_->framework; }
    static const Framework& framework(const State& state) { return *state.framework_; }
    static const Given& given(const Groups& groups) { return groups.made_->given; }
    /// Throws what the original says before there are groups.
    static const Given& given(const State& state) { return given(state.groups()); }
    /// Those of the MeshRows, by name.
    static const Meshes& meshes(const Groups& groups) { return groups.made_->meshes; }
    /// The mesh of a MeshRow as this rank sees it, always the same one, so that parts of it are equal. Throws
    /// what the original says before there are groups.
    static const DeviceMesh& device_mesh(const State& state, std::string_view mesh);
    /// The world ranks of the ranks of a mesh that is a part of the world.
    static const Placed& placed(const Groups& groups) { return groups.made_->placed; }
    /// The groups with what an accessor adds, whose names go to `kinds`.
    static Groups with(const Groups& groups, const AccessorRow& row, const Given& options,
                       std::vector<std::string>& kinds);
    /// What was set last; null: nothing.
    static const Value* slot(const State& state, std::string_view name);
};

}  // namespace rankmesh::frameworks
