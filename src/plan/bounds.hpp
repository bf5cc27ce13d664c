// SPDX-License-Identifier: Apache-2.0
// What a search may leave out; docs/design/0026-plan.md has the arguments.
#pragma once

#include <cstdint>
#include <vector>

#include <rankmesh/plan/job.hpp>
#include <rankmesh/plan/layout.hpp>
#include <rankmesh/plan/step.hpp>

namespace rankmesh::plan {

// The rules of `check(layout, ...)`, one setting at a time; a test holds both against each other.
bool legal_tp(const Model& model, int tp);
bool legal_cp(std::int64_t sequence, int tp, int cp, bool sequence_parallel);
bool legal_ep(const Model& model, int tp, int cp, int dp, int ep);
bool legal_vpp(const Model& model, int pp, int vpp, std::int64_t micro_batches);

/// The largest number of layers of a stage.
int most_layers(const Layout& layout, int layers);

/// The divisors of a number, ascending, those that an int holds.
std::vector<int> divisors(std::int64_t number);

/// Seconds that no layout on `pp` stages of `vpp` chunks goes below, however layers are spread over stages
/// and whatever else it is; `some_layers`: though it may compute only some layers again.
double lower_bound(const Pieces& pieces, const Job& job, int pp, int vpp, std::int64_t micro_batches,
                   bool some_layers);

/// How many layers the first and the last stage may have where a step takes less than `most` seconds.
struct Splits {
    int first_most = 0;
    int last_most = 0;
    int both_least = 2;  ///< of first and last together
};
Splits splits(const Pieces& pieces, const Job& job, int pp, std::int64_t micro_batches, bool some_layers,
              double most);
/// `lower_bound` of one of them.
double split_bound(const Pieces& pieces, const Job& job, int pp, std::int64_t micro_batches, bool some_layers,
                   int first, int last);

}  // namespace rankmesh::plan
