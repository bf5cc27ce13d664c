// SPDX-License-Identifier: Apache-2.0
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

/// The values that one setting of a layout may have, both ends too.
struct Range {
    int least = 0;
    int most = std::numeric_limits<int>::max();
    bool has(int value) const { return value >= least && value <= most; }
    friend bool operator==(const Range&, const Range&) = default;
};

/// What a search looks at: all layouts unless something is said.
struct Options {
    Range tp = {}, cp = {}, ep = {}, pp = {}, vpp = {}, dp = {};
    Range zero = {};
    Range micro_batch = {};
    std::vector<Recompute> recompute = {Recompute::none, Recompute::selective, Recompute::full};
    std::optional<bool> sequence_parallel = {};  ///< nothing: wherever tp is more than 1
    int zero_group = 0;                          ///< as in `Layout`
    bool uneven = true;                          ///< other numbers of layers on the first and last stage too
    bool some_layers = true;                     ///< recomputation of some layers of each stage too
    /// Which layouts are looked at at all; empty: all.
    std::function<bool(const Layout&)> allows = {};
    std::size_t count = 10;     ///< of layouts that are kept
    std::int64_t capacity = 0;  ///< bytes of a device, 0 for what its kind has
    /// Told how many meshes are done, and of how many.
    std::function<void(std::size_t, std::size_t)> progress = {};
};

/// Sets one range to one value by a text such as `tp=8` or `recompute=full`; throws UsageError.
RANKMESH_EXPORT void fix(Options& options, std::string_view text);
/// Sets the largest value of one range by a text such as `pp=16`; throws UsageError.
RANKMESH_EXPORT void limit(Options& options, std::string_view text);

/// A layout with what it takes.
struct Planned {
    Layout layout = {};
    Step step = {};
    Memory memory = {};
};

/// What a search found.
struct Found {
    /// The best layout of each mesh that fits, fastest first; of equally fast ones that with more memory
    /// left.
    std::vector<Planned> best = {};
    /// Where none fits, the one of even stages that needs least.
    std::optional<Planned> smallest = {};
    std::int64_t meshes = 0;     ///< sizes of the axes that are legal
    std::int64_t layouts = 0;    ///< legal ones with even stages and all or no layers computed again
    std::int64_t evaluated = 0;  ///< layouts whose step was computed; bounds ruled out all others
};

/// The fastest layouts of a job, of all that `check` accepts within the options; `docs/design/0026-plan.md`
/// says why none is missed.
///
/// Throws UsageError where no layout is legal, with the reason.
RANKMESH_EXPORT Found search(const Job& job, const Options& options = {});

}  // namespace rankmesh::plan
