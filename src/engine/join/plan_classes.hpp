// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

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

/// Throws Disagreement: `head`, then each description with its ranks, of which all but the first class are
/// taken for the odd ones.
[[noreturn]] void throw_different(std::string head, const std::vector<PlanClass>& classes);

}  // namespace rankmesh::detail
