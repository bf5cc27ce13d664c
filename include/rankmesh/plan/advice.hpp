// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/plan/search.hpp>

namespace rankmesh::plan {

/// Something that would make a step faster, and by how much.
struct Help {
    std::string what = {};  ///< `twice the bandwidth between nodes`
    double gain = 0;        ///< of the throughput: 0.1 is 10 % more
    std::string how = {};   ///< the layout that gains it, empty for the best one
};

/// What would help the best layout of a search most, largest gain first: other links, a larger batch, more
/// memory, for which it searches once more.
RANKMESH_EXPORT std::vector<Help> what_would_help(const Job& job, const Found& found, const Options& options);

/// What of a step takes longest beside compute, as in `Step`: `tp`, `bubble`.
RANKMESH_EXPORT std::string_view what_binds(const Step& step);

/// One layout, whether or not it fits.
struct Explained {
    Planned planned = {};
    std::int64_t capacity = 0;
    /// Where it does not fit: the fastest layout that does with the fewest settings changed, one or two.
    std::optional<Planned> change = {};
    bool fits() const { return planned.memory.estimate <= capacity; }
};

/// Throws UsageError as `check` does.
RANKMESH_EXPORT Explained explain(const Job& job, const Layout& layout);

/// A step that somebody measured.
struct Measured {
    Layout layout = {};
    double seconds = 0;
    std::int64_t batch = 0;     ///< 0: the job's
    std::int64_t sequence = 0;  ///< 0: the job's
};

/// Reads lines of seconds and a layout, `4.52 pp=4 dp=8 tp=8 mbs=1 zero=1 recompute=full`, maybe with
/// `batch=` and `seq=`; `file` is named in errors. Throws UsageError with file and line.
RANKMESH_EXPORT std::vector<Measured> read_measured(std::string_view text, std::string_view file);

/// One factor for all step times of a job, from steps that were measured.
struct Calibration {
    int steps = 0;
    double factor = 1;  ///< the median of measured over predicted
    double before = 0;  ///< mean error of the predictions, 0.1 is 10 %
    double after = 0;   ///< mean error of each step with the factor of the others, of one step with its own
};

/// Multiplies the job's scale by the factor. Throws UsageError for no step, and for layouts that are not
/// legal.
RANKMESH_EXPORT Calibration calibrate(Job& job, const std::vector<Measured>& measured);

}  // namespace rankmesh::plan
