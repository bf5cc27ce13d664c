// SPDX-License-Identifier: Apache-2.0
// A kind of groups, made of its row.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frameworks/rows.hpp"

namespace rankmesh::frameworks {

/// One kind, with its numbers. It has no strings and no mesh: a state has 30 kinds, and few are asked about.
struct Kind {
    const KindRow* row;
    std::string_view name;
    std::string_view brief;   // in a plan
    std::string_view device;  // of which this one's groups are those on the host, else itself
    int base;                 // the rank from which `listed` counts
    Layout listed;            // the ranks in the framework's order
    int inside;               // the first of its digits in a period
    int size;                 // ranks of a group, before some are picked
    int step = 1;             // between them in the list
    int period;               // of what is cut into groups, one after the other
    std::vector<int> at;
    Placed placed;
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
    Layout along() const;
    Layout in_group() const;
    std::optional<Layout> run() const;
    GroupPart listed_group(int number) const;
    Mesh whole() const;
};

using Meshes = std::vector<std::pair<std::string, Mesh>>;  // by the names of their rows

/// The ranks as `experts: * | ep` or `dp tp / size` lists them.
Kind kind_of(const KindRow& row, const Given& given, const Meshes& meshes);

struct Groups::Made {
    const Framework* framework;
    Given given;
    Meshes meshes;
    std::vector<Kind> kinds;
    std::vector<std::shared_ptr<const KindRow>> owned;  // of kinds that are not rows of the framework
    Placed placed;

    const Kind* find(std::string_view name) const {
        const auto found = std::ranges::find(kinds, name, &Kind::name);
        return found == kinds.end() ? nullptr : &*found;
    }
    /// Throws what the original says where there is no such kind.
    const Kind& at(std::string_view name) const;
};

inline const Groups::Made& Access::made(const Groups& groups) { return *groups.made_; }

}  // namespace rankmesh::frameworks
