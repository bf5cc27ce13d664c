// SPDX-License-Identifier: Apache-2.0
// Searches the fastest layouts of a job.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/plan/job.hpp>
#include <rankmesh/plan/layout.hpp>
#include <rankmesh/plan/memory.hpp>
#include <rankmesh/plan/step.hpp>

namespace rankmesh::plan {

/// The values that one setting of a layout may have, both ends included.
struct Range {
    int least = 0;
    int most = std::numeric_limits<int>::max();
    bool has(int value) const { return value >= least && value <= most; }
    friend bool operator==(const Range&, const Range&) = default;
};

/// The limits of a search; by default it compares all layouts.
struct Options {
    Range tp = {}, cp = {}, ep = {}, pp = {}, vpp = {}, dp = {};
    Range zero = {};
    Range micro_batch = {};
    std::vector<Recompute> recompute = {Recompute::none, Recompute::selective, Recompute::full};
    std::optional<bool> sequence_parallel = {};  ///< nullopt: on if tp is larger than 1
    int zero_group = 0;                          ///< see `Layout`
    /// Settings that the search keeps: etp, schedule, overlap, gradients, moments, activations and
    /// offloading. Stages of other schedules than 1F1B are as even as possible.
    Layout base = {};
    bool uneven = true;       ///< also try other layer counts on the first and last stage
    bool some_layers = true;  ///< also try to recompute only some layers of each stage
    /// Returns whether to consider a layout; empty: all.
    std::function<bool(const Layout&)> allows = {};
    std::size_t count = 10;     ///< most layouts to return
    std::int64_t capacity = 0;  ///< bytes per device; 0: from the kind of device
    /// Called with the number of finished meshes and the number of all meshes.
    std::function<void(std::size_t, std::size_t)> progress = {};
};

/// Sets one range to a single value, from a text such as `tp=8` or `recompute=full`. Throws UsageError for
/// any other text.
RANKMESH_EXPORT void fix(Options& options, std::string_view text);
/// Sets the largest value of one range, from a text such as `pp=16`. Throws UsageError for any other text.
RANKMESH_EXPORT void limit(Options& options, std::string_view text);

/// A layout with its predicted time and memory.
struct Planned {
    Layout layout = {};
    Step step = {};
    Memory memory = {};
};

/// The result of a search.
struct Found {
    /// The best layout of each mesh that fits, fastest first. At equal time, the layout with more free memory
    /// comes first.
    std::vector<Planned> best = {};
    /// If no layout fits: the layout with even stages that needs the least memory.
    std::optional<Planned> smallest = {};
    std::int64_t meshes = 0;     ///< valid combinations of axis sizes
    std::int64_t layouts = 0;    ///< valid layouts with even stages that recompute all layers or none
    std::int64_t evaluated = 0;  ///< layouts whose step time was computed; bounds excluded all others
};

/// Returns the fastest layouts of a job among all that `check` and the options accept.
/// `docs/design/0026-plan.md` proves that no faster layout is missed.
///
/// Throws UsageError, with the reason, if no layout is valid.
RANKMESH_EXPORT Found search(const Job& job, const Options& options = {});

}  // namespace rankmesh::plan
