// SPDX-License-Identifier: Apache-2.0
// Advice about a plan: what would help, one layout explained, and calibration by measured steps.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/plan/search.hpp>

namespace rankmesh::plan {

/// A change that makes a step faster, and its gain.
struct Help {
    std::string what = {};  ///< `twice the bandwidth between nodes`
    double gain = 0;        ///< relative gain of the throughput: 0.1 is 10 %
    std::string how = {};   ///< the layout with that gain; empty: the best layout of the search
};

/// Returns what would speed up the best layout of a search, largest gain first: faster links, a larger batch,
/// more memory. Runs another search for more memory.
RANKMESH_EXPORT std::vector<Help> what_would_help(const Job& job, const Found& found, const Options& options);

/// If no layout fits: returns the fastest layout that fits with gradients and moments in bfloat16,
/// activations in FP8 (if the job computes in FP8), or activations in the memory of the host. Adds as few of
/// these settings as possible.
RANKMESH_EXPORT std::optional<Planned> fits_with(const Job& job, const Options& options);

/// Returns the longest part of a step except compute and attention.
RANKMESH_EXPORT const StepPart& what_binds(const Step& step);

/// The result for one layout, which may not fit.
struct Explained {
    Planned planned = {};
    std::int64_t capacity = 0;
    /// If the layout does not fit: the fastest layout that fits with one changed setting, or else with two.
    /// Spreads tensor parallelism over more nodes only if nothing else fits.
    std::optional<Planned> change = {};
    Fit fit() const { return plan::fit(planned.memory.estimate, capacity); }
};

/// Predicts one layout. Throws UsageError like `check`.
RANKMESH_EXPORT Explained explain(const Job& job, const Layout& layout);

/// The measured time of a step.
struct Measured {
    Layout layout = {};
    double seconds = 0;
    std::int64_t batch = 0;     ///< 0: the job's
    std::int64_t sequence = 0;  ///< 0: the job's
};

/// Reads lines of seconds and a layout, optionally with `batch=` and `seq=`: `4.52 pp=4 dp=8 tp=8 mbs=1
/// zero=1 recompute=full`. Throws UsageError with `file` and the line.
RANKMESH_EXPORT std::vector<Measured> read_measured(std::string_view text, std::string_view file);

/// One factor for all step times of a job, computed from measured steps.
struct Calibration {
    int steps = 0;
    double factor = 1;  ///< the median of measured / predicted
    double before = 0;  ///< mean relative error of the predictions; 0.1 is 10 %
    double after = 0;   ///< mean relative error if each step uses the factor of the other steps (of itself if
                        ///< it is the only one)
};

/// Computes the factor and multiplies the job's scale by it. Throws UsageError for no measured step, or for
/// an invalid layout.
RANKMESH_EXPORT Calibration calibrate(Job& job, const std::vector<Measured>& measured);

}  // namespace rankmesh::plan
