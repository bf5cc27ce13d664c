// SPDX-License-Identifier: Apache-2.0
// The subcommand plan as a function. It belongs to the library rankmesh::convert, which reads models.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/plan/advice.hpp>
#include <rankmesh/plan/serve.hpp>

namespace rankmesh::plan {

/// The options of the command `rankmesh plan`.
struct Question {
    std::string model = {};           ///< MODEL, as in `read_model`
    bool serve = false;               ///< plan an inference engine instead of a training job
    std::optional<Cluster> on = {};   ///< the machines
    std::string device = {};          ///< the kind of its devices; empty: the name of the innermost level
    std::string devices_file = {};    ///< a file of more devices, with the columns of devices.csv
    std::optional<int> devices = {};  ///< the number of devices; nullopt: all of the cluster
    std::optional<std::int64_t> batch = {};     ///< sequences per step; to serve: requests at a time
    std::optional<std::int64_t> sequence = {};  ///< tokens per sequence; to serve: of prompt and answer
    std::string precision = {};                 ///< of weights and products: bf16 or fp8; empty: bf16
    std::string weights = {};                   ///< of an engine: bf16, fp8, int8, nvfp4, mxfp4 or int4
    std::string compute = {};                   ///< of products: bf16 or fp8
    std::string kv = {};                        ///< of the cache of an engine: bf16 or fp8
    std::vector<std::string> fix = {};          ///< sizes to keep, such as `tp=8`
    std::vector<std::string> most = {};         ///< largest sizes, such as `pp=16`
    std::string as = {};                        ///< the framework whose settings to write
    std::string measured = {};                  ///< a file of measured steps
    std::optional<std::string> explain = {};    ///< one layout to explain, instead of a search
    std::size_t count = 10;                     ///< most layouts to return; to serve: to print
    std::function<void(std::size_t, std::size_t)> progress = {};
};

/// The settings of a framework for a layout.
struct FrameworkSettings {
    std::string framework = {};
    std::string text = {};                ///< for copy and paste
    std::string mesh = {};                ///< the mesh, placed on the cluster
    std::vector<std::string> notes = {};  ///< what the framework cannot express, and what else to know
};

/// The result of `rankmesh plan --serve`. Either `found` or `explained` is set.
struct ServeAnswer {
    std::optional<FoundServing> found = {};
    std::optional<Served> explained = {};
    /// If nothing fits, or not the explained layout: the fastest layout that does, with the same precision
    /// of the cache if possible.
    std::optional<Served> change = {};
};

/// The result of `rankmesh plan`. Either `found`, `explained` or `serve` is set.
struct Answer {
    Job job = {};
    std::string on = {};
    std::int64_t capacity = 0;              ///< usable bytes per device
    std::vector<std::string> assumed = {};  ///< one sentence for each value that was assumed
    std::vector<std::string> notes = {};    ///< what the file of the model gives and the plan does not use
    std::optional<Calibration> calibration = {};
    std::optional<Found> found = {};
    std::size_t count = 10;  ///< most layouts of `found` to print
    std::vector<Help> help = {};
    std::optional<Planned> relaxed = {};  ///< if nothing fits: see `fits_with`
    std::optional<Planned> tight = {};    ///< if nothing fits: the fastest layout that may, see `Fit`
    std::optional<Explained> explained = {};
    std::optional<ServeAnswer> serve = {};
    std::optional<FrameworkSettings> settings = {};
    /// Returns the best layout, or the explained layout; nullptr if no layout fits.
    const Planned* planned() const;
    /// Returns the fastest layout to serve, nullptr if none fits; or the explained one, also if it does not
    /// fit.
    const Served* served() const;
    /// Returns whether a layout fits: the best, or the explained one. `tight` may not.
    Fit fit() const;
    bool fits() const { return fit() != Fit::too_large; }
};

/// Answers a question. Throws UsageError. Its text names an option of the command: `--seq` is `sequence`,
/// `--max` is `most`, and any other option is the field of its name.
Answer answer(const Question& question);

/// Returns the answer as JSON, see docs/json.md.
std::string to_json(const Answer& answer);

/// Returns the settings of a framework for one layout, placed on the cluster. Throws UsageError for an
/// unknown framework.
FrameworkSettings settings(const Job& job, const Layout& layout, std::string_view framework,
                           const Cluster& cluster);

}  // namespace rankmesh::plan
