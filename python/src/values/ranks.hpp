// SPDX-License-Identifier: Apache-2.0
// A group as a Python object.
#pragma once

#include <memory>
#include <variant>

#include <rankmesh/core/mesh.hpp>
#include <rankmesh/core/ranks.hpp>

#include "values/convert.hpp"

namespace rankmesh::python {

/// A group in closed form if the core has one, else a list of ranks, such as of a placement.
class Ranks {
public:
    Ranks(const Group& group) : ranks_(group) {}
    /// Returns the group in closed form if the ranks ascend by one step.
    explicit Ranks(std::vector<int> ranks) {
        if (ranks.empty()) throw UsageError("a group of no ranks; list at least one");
        const auto step = ranks.size() > 1 ? std::int64_t{ranks[1]} - ranks[0] : 1;
        auto uniform = step > 0;
        for (std::size_t i = 1; i < ranks.size() && uniform; ++i)
            uniform = std::int64_t{ranks[i]} - ranks[i - 1] == step;
        if (uniform) {
            auto layout = Layout{};
            layout.push_back({static_cast<int>(ranks.size()), static_cast<int>(step)});
            ranks_ = Group(ranks[0], layout);
        } else {
            ranks_ = std::make_shared<const std::vector<int>>(std::move(ranks));
        }
    }

    int size() const { return closed() ? closed()->size() : static_cast<int>(list().size()); }

    int operator[](int position) const {
        return closed() ? (*closed())[position] : list()[static_cast<std::size_t>(position)];
    }

    std::optional<int> step() const { return closed() ? closed()->step() : std::nullopt; }

    std::optional<int> group_rank(int rank) const {
        if (closed()) return closed()->group_rank(rank);
        const auto found = std::ranges::find(list(), rank);
        return found == list().end() ? std::nullopt : std::optional(static_cast<int>(found - list().begin()));
    }

    Ranks pick(const std::vector<int>& positions) const {
        if (closed()) return closed()->pick(positions);
        // The positions are those of a group 0, 1, 2, ... of the same length.
        auto layout = Layout{};
        layout.push_back({size(), 1});
        auto picked = std::vector<int>{};
        for (auto position : Group(0, layout).pick(positions)) picked.push_back((*this)[position]);
        return Ranks(std::move(picked));
    }

    void copy_to(int* out) const {
        if (closed())
            std::copy(closed()->begin(), closed()->end(), out);
        else
            std::ranges::copy(list(), out);
    }

    std::string text() const { return closed() ? to_string(*closed()) : ranks_to_string(list()); }

    bool operator==(const Ranks& other) const {
        if (closed() && other.closed()) return *closed() == *other.closed();
        if (size() != other.size()) return false;
        for (int i = 0; i < size(); ++i)
            if ((*this)[i] != other[i]) return false;
        return true;
    }

    std::size_t hash() const {
        auto hash = static_cast<std::size_t>(size());
        for (auto position : {0, size() / 2, size() - 1})
            hash = hash * 0x9e3779b97f4a7c15U + static_cast<std::size_t>((*this)[position]);
        return hash;
    }

private:
    using List = std::shared_ptr<const std::vector<int>>;
    const Group* closed() const { return std::get_if<Group>(&ranks_); }
    const std::vector<int>& list() const { return *std::get<List>(ranks_); }

    std::variant<Group, List> ranks_;
};

}  // namespace rankmesh::python
