// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <rankmesh/core/export.hpp>
#include <rankmesh/plan/job.hpp>
#include <rankmesh/plan/layout.hpp>

namespace rankmesh::plan {

/// The seconds of one optimizer step, in parts that add up, on the stage that takes longest.
///
/// Law: `seconds` is the sum of the ten parts; `low <= seconds <= high`.
/// Law: `bubble == 0` where `pp == 1`.
struct Step {
    double compute = 0;    ///< matrix products of layers and what reads and writes memory between them
    double attention = 0;  ///< the core of attention
    double tp = 0;         ///< communication that compute does not hide, of each axis
    double cp = 0;
    double ep = 0;
    double dp = 0;
    double pp = 0;
    double bubble = 0;  ///< waiting for the pipeline to fill and drain
    double head = 0;    ///< embedding, last projection and loss
    double optimizer = 0;
    double seconds = 0;
    double low = 0;  ///< nine measured steps of ten were between low and high
    double high = 0;
};

struct Constants;

/// What one micro-batch takes on one device, forward, backward and what is computed again: all that depends
/// on tp, cp, ep, micro-batch, sequence parallelism and recomputation, and not on pp, vpp and dp.
struct Pieces {
    struct Parts {
        double compute = 0;
        double attention = 0;
        double tp = 0;
        double cp = 0;
        double ep = 0;
        double sum() const { return compute + attention + tp + cp + ep; }
    };
    struct Layer : Parts {
        Parts repeated = {};  ///< of the parts, what recomputation adds
        double again = 0;     ///< the sum of `repeated`
    };
    Layer dense = {};   ///< a layer without experts
    Layer expert = {};  ///< a layer with experts
    double embedding = 0;
    double head = 0;
};

/// Predicts steps of one job, whose constants it works out once.
///
/// Law: `step(layout) == step(pieces(layout), layout)`.
class RANKMESH_EXPORT Steps {
public:
    /// Throws UsageError as `check(job)` does.
    explicit Steps(const Job& job);
    /// With other constants than the fitted ones, which must outlive it: for the program that scores them.
    Steps(const Job& job, const Constants& constants);

    /// For a search, which asks for the pieces once and for many layouts with them.
    Pieces pieces(const Layout& layout) const;
    Step step(const Pieces& pieces, const Layout& layout) const;
    Step step(const Layout& layout) const { return step(pieces(layout), layout); }

    const Job& job() const { return job_; }

private:
    Job job_;
    const Constants* constants_;
    Parameters parameters_;
};

/// What one step takes; `layout` as its `check` accepts it.
RANKMESH_EXPORT Step step(const Job& job, const Layout& layout);

}  // namespace rankmesh::plan
