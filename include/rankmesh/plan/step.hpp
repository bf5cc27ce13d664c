// SPDX-License-Identifier: Apache-2.0
// Predicts the time of one optimizer step.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/plan/job.hpp>
#include <rankmesh/plan/layout.hpp>

namespace rankmesh::plan {

/// The predicted seconds of one optimizer step on the slowest stage, split into parts.
///
/// Law: `seconds` is the sum of the ten parts; `low <= seconds <= high`.
/// Law: `bubble == 0` where `pp == 1`.
struct Step {
    double compute = 0;    ///< matrix products of the layers, and the memory-bound operations between them
    double attention = 0;  ///< the core of attention
    double tp = 0;         ///< communication that compute does not hide, for each axis
    double cp = 0;
    double ep = 0;
    double dp = 0;
    double pp = 0;
    double bubble = 0;  ///< idle time while the pipeline fills and drains
    double head = 0;    ///< embedding, output projection and loss
    double optimizer = 0;
    double seconds = 0;
    double low = 0;  ///< 9 of 10 measured steps of sources that no constant was fitted on were between
                     ///< `low` and `high`
    double high = 0;
    /// Why the range is wider: what the job has and the measured jobs have not, such as `more than 2304
    /// devices`; else "".
    std::string_view beyond = {};
};

/// One part of a step: its name, its name in tables, and what it is.
struct StepPart {
    std::string_view name;
    std::string_view column;
    std::string_view what;
    double Step::*seconds;
};

/// The parts of a step. `seconds` is their sum.
inline constexpr auto step_parts = std::array<StepPart, 10>{
    {{"compute", "compute", "matrix products and what stands between them", &Step::compute},
     {"attention", "attn", "the core of attention", &Step::attention},
     {"tp", "tp", "communication of tensor parallelism", &Step::tp},
     {"cp", "cp", "communication of context parallelism", &Step::cp},
     {"ep", "ep", "communication of expert parallelism", &Step::ep},
     {"dp", "dp", "communication of data parallelism", &Step::dp},
     {"pp", "pp", "messages between stages", &Step::pp},
     {"bubble", "bubble", "waiting for the pipeline to fill and drain", &Step::bubble},
     {"head", "head", "embedding, last projection and loss", &Step::head},
     {"optimizer", "optim", "the optimizer", &Step::optimizer}}};

struct Constants;

/// The seconds of one micro-batch on one device: forward, backward and recomputation. They depend on tp, cp,
/// ep, micro-batch, sequence parallelism and recomputation, but not on pp, vpp and dp.
struct Pieces {
    struct Parts {
        double compute = 0;
        double attention = 0;
        double tp = 0;
        double cp = 0;
        double ep = 0;
        double sum() const { return compute + attention + tp + cp + ep; }
    };
    struct OfLayer : Parts {
        Parts repeated = {};  ///< what recomputation adds to each part
        double again = 0;     ///< the sum of `repeated`
    };
    std::vector<OfLayer> kinds = {};  ///< one layer of each kind of the model
    double embedding = 0;
    double head = 0;
};

/// Predicts steps of one job. Computes the constants of the job once.
///
/// Law: `step(layout) == step(pieces(layout), layout)`.
class RANKMESH_EXPORT Steps {
public:
    /// Prepares the predictions. Throws UsageError like `check(job)`.
    explicit Steps(const Job& job);
    /// Uses `constants` instead of the fitted ones; they must outlive this object. For the program that
    /// evaluates constants.
    Steps(const Job& job, const Constants& constants);

    /// Returns the pieces of a layout, which a search reuses for many layouts.
    Pieces pieces(const Layout& layout) const;
    Step step(const Pieces& pieces, const Layout& layout) const;
    Step step(const Layout& layout) const { return step(pieces(layout), layout); }

    const Job& job() const { return job_; }

private:
    Job job_;
    const Constants* constants_;
    Parameters parameters_;
};

/// Predicts one step. `check` must accept the layout.
RANKMESH_EXPORT Step step(const Job& job, const Layout& layout);

}  // namespace rankmesh::plan
