// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/exchange.hpp"

namespace rankmesh::detail {

/// The ranks that give one description of their plan.
struct PlanClass {
    std::string description;  // "" for all classes beyond the bound
    std::vector<int> ranks;

    bool operator==(const PlanClass&) const = default;
};

/// Adds the ranks of `added` to the class of the same description.
void merge(std::vector<PlanClass>& classes, PlanClass added);
/// Sorts the classes for the error, largest first, and merges those beyond the bound into a last one.
void fold(std::vector<PlanClass>& classes);
/// The bytes that ranks send each other; ranks are in the notation of groups, which is short however many
/// there are.
std::string pack(const std::vector<PlanClass>& classes);
/// Reads such bytes in a world of `size` ranks; throws EngineFailure for any others.
std::vector<PlanClass> unpack(std::string_view bytes, int size);

/// Throws Disagreement. Its text is `head`, then each description with its ranks. The ranks to blame are
/// those of all classes but the first.
[[noreturn]] void throw_different(std::string head, const std::vector<PlanClass>& classes);

/// Returns if all ranks of the world give the same `description`; otherwise throws Disagreement on every
/// rank, with each distinct description and its ranks, largest class first. A rank throws only once all ranks
/// know what it throws, since the first to throw may leave.
///
/// Costs one reduction of 32 bytes while they agree, and 2 log2(size) rounds of messages and another
/// reduction more when they do not.
void agree(Exchange& exchange, const std::string& description);

}  // namespace rankmesh::detail
