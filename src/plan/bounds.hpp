// SPDX-License-Identifier: Apache-2.0
// Lower bounds that let a search skip layouts. docs/design/0026-plan.md proves them.
#pragma once

#include <cstdint>
#include <vector>

#include <rankmesh/plan/job.hpp>
#include <rankmesh/plan/layout.hpp>
#include <rankmesh/plan/step.hpp>

#include "plan/csv.hpp"

namespace rankmesh::plan {

// The rules of `check(layout, ...)` for one setting at a time. A test compares both.
bool legal_vpp(const Model& model, int pp, int vpp, std::int64_t micro_batches);
bool legal_schedule(Schedule schedule, int pp, std::int64_t micro_batches);

/// Throws UsageError, which begins with `the layout has tp=`, `pp=` or `ep=`, if the model cannot use it.
void check_axes(const Model& model, int tp, int pp, int ep);
/// Throws UsageError for settings of `Options::base` that no sizes make legal.
void check_settings(const Layout& layout, const Model& model);

/// The layers of the first and last stage, as in `Layout`.
struct Ends {
    int first = 0;
    int last = 0;
};
/// Returns all uneven ends of a pipeline with `vpp` chunks of a stage, which is 2 or more.
std::vector<Ends> interleaved_ends(int layers, int pp, int vpp);

int most_layers(const Layout& layout, int layers);

/// Returns the divisors of a number that fit in an int, ascending.
std::vector<int> divisors(std::int64_t number);

/// Returns a lower bound of the seconds of all layouts with `pp` stages of `vpp` chunks, for any split of
/// layers. `some_layers`: includes layouts that recompute only some layers.
double lower_bound(const Pieces& pieces, const Job& job, int pp, int vpp, std::int64_t micro_batches,
                   bool some_layers);

/// The numbers of layers of the first and last stage for which a step can take less than `most` seconds.
struct Splits {
    int first_most = 0;
    int last_most = 0;
    int both_least = 2;  ///< first and last together
};
Splits splits(const Pieces& pieces, const Job& job, int pp, std::int64_t micro_batches, bool some_layers,
              double most);
/// Returns `lower_bound` for the layers of the stages of `layout`.
double split_bound(const Pieces& pieces, const Job& job, const Layout& layout, std::int64_t micro_batches,
                   bool some_layers);

}  // namespace rankmesh::plan
