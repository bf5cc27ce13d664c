// SPDX-License-Identifier: Apache-2.0
// The subcommand plan as a function, in rankmesh::convert, which has what reads models.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/cluster/cluster.hpp>
#include <rankmesh/plan/advice.hpp>

namespace rankmesh::plan {

/// What is asked, in the words of the command.
struct Question {
    std::string model = {};                     ///< MODEL, as `read_model` takes it
    std::optional<Cluster> on = {};             ///< where
    std::string device = {};                    ///< the name of its devices; empty: of the innermost level
    std::string devices_file = {};              ///< further devices, with the columns of devices.csv
    std::optional<int> devices = {};            ///< how many; nothing: those of the cluster
    std::optional<std::int64_t> batch = {};     ///< sequences of a step
    std::optional<std::int64_t> sequence = {};  ///< tokens of each
    std::string precision = {};                 ///< bf16 or fp8; empty: bf16
    std::vector<std::string> fix = {};          ///< `tp=8`
    std::vector<std::string> most = {};         ///< `pp=16`
    std::string as = {};                        ///< the framework whose settings are asked for
    std::string measured = {};                  ///< a file of measured steps
    std::optional<std::string> explain = {};    ///< one layout, instead of a search
    std::size_t count = 10;                     ///< of layouts
    std::function<void(std::size_t, std::size_t)> progress = {};
};

/// A framework's settings for a layout.
struct FrameworkSettings {
    std::string framework = {};
    std::string text = {};                ///< to be pasted
    std::string mesh = {};                ///< the mesh as it is placed on the cluster
    std::vector<std::string> notes = {};  ///< what the framework cannot say, and what is to be known
};

/// What `rankmesh plan` says; of `found` and `explained` one is there.
struct Answer {
    Job job = {};
    std::string on = {};
    std::int64_t capacity = 0;              ///< bytes of each device
    std::vector<std::string> assumed = {};  ///< sentences about what nobody said
    std::optional<Calibration> calibration = {};
    std::optional<Found> found = {};
    std::size_t count = 10;  ///< how many layouts of it were asked for
    std::vector<Help> help = {};
    std::optional<Explained> explained = {};
    std::optional<FrameworkSettings> settings = {};
    /// The layout that is spoken of: the best one, or the one to be explained; null where none fits.
    const Planned* planned() const;
};

/// Throws UsageError in the words of the command, whose options are the fields of a question.
Answer answer(const Question& question);

/// The answer as JSON, as docs/json.md says.
std::string to_json(const Answer& answer);

/// The settings of a framework for one layout, placed on the cluster; throws UsageError for an unknown
/// framework.
FrameworkSettings settings(const Job& job, const Layout& layout, std::string_view framework,
                           const Cluster& cluster);

}  // namespace rankmesh::plan
