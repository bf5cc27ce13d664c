// SPDX-License-Identifier: Apache-2.0
// A group as a Python object.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <rankmesh/core/mesh.hpp>

#include "values/convert.hpp"

namespace rankmesh::python {

/// A group in closed form if the core has one, else a list of ranks, such as of a placement.
class Ranks {
public:
    Ranks(const Group& group) : ranks_(group) {}
    /// Returns the group in closed form if the ranks ascend by one step.
    explicit Ranks(std::vector<int> ranks);

    int size() const;
    int operator[](int position) const;
    std::optional<int> step() const;
    std::optional<int> group_rank(int rank) const;
    Ranks pick(const std::vector<int>& positions) const;
    void copy_to(int* out) const;
    std::string text() const;
    bool operator==(const Ranks& other) const;
    std::size_t hash() const;

private:
    using List = std::shared_ptr<const std::vector<int>>;
    const Group* closed() const { return std::get_if<Group>(&ranks_); }
    const std::vector<int>& list() const { return *std::get<List>(ranks_); }

    std::variant<Group, List> ranks_;
};

}  // namespace rankmesh::python
