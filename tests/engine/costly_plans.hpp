// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include <rankmesh/engine/join_cost.hpp>

/// A plan, and a world that it fits.
struct Costly {
    int world;
    rankmesh::Plan plan;
};

/// How many of something an engine takes for a join of that cost; nothing where it takes none.
inline std::optional<std::int64_t> amount_of(const rankmesh::JoinCost& cost, std::string_view engine,
                                             std::string_view of) {
    for (const auto& need : rankmesh::needs_of(cost))
        for (const auto& amount : need.amounts)
            if (need.engine == engine && amount.of == of) return amount.count;
    return std::nullopt;
}

/// Plans in which ranks hold different numbers of communicators, and sets share one for every reason there
/// is.
inline std::vector<Costly> costly_plans() {
    using rankmesh::Axes;
    using rankmesh::rest;
    return {
        {1, {{.mesh = {{"dp", rest}, {"tp", 1}}, .over = {{"dp", "tp"}}}}},
        {4, {{.mesh = {{"dp", 2}, {"tp", 2}}, .over = {{"tp", "dp"}, {"dp", "tp"}, {"dp"}}}}},
        {4, {{.mesh = {{"dp", 4}, {"tp", 1}, {"cp", 1}}, .over = {{"dp", "cp"}, {"tp", "cp"}}}}},
        {8,
         {{.mesh = {{"pp", 2}, {"dp", 2}, {"tp", 2}},
           .over = {{"dp", "tp"}},
           .axes = std::vector<std::string>{"pp"}}}},
        {8, {{.mesh = {{"pp", 2}, {"dp", rest}}, .axes = std::vector<std::string>{}}}},
        {8, {{.mesh = {{"pp", 2}, {"dp", rest}}, .lazy = true}}},
        {7, {{.mesh = {{"dp", 2}, {"tp", 2}}, .partial = true}}},
        {6, {{.mesh = {{"dp", 2, 3}, {"tp", 2, 1}}, .partial = true}}},
        {5, {{.mesh = {{"dp", 2}, {"tp", 2}}, .placed = {4, 0, 3, 1}, .partial = true}}},
        {8,
         {{.name = "dense",
           .mesh = {{"pp", 4}, {"dp", rest}},
           .over = {Axes("dp").separate("grads"), {"pp", "dp"}},
           .picks = {{.of = "pp", .at = {0, -1}, .as = "ends"}, {.of = "pp", .at = {1}, .as = "one"}}},
          {.name = "expert", .mesh = {{"pp", 4}, {"edp", 1}, {"ep", rest}}},
          {.name = "flat", .mesh = {{"x", rest}}},
          {.name = "same", .mesh = {{"y", 4}, {"z", 2}}, .placed = {0, 1, 2, 3, 4, 5, 6, 7}},
          {.name = "lazy", .mesh = {{"v", 2}, {"w", 4}}, .lazy = true}}},
    };
}
