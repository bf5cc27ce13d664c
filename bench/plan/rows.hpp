// SPDX-License-Identifier: Apache-2.0
// Published measurements: one line of a table is one configuration that somebody ran.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/plan/job.hpp>
#include <rankmesh/plan/layout.hpp>

namespace rankmesh::plan::score {

struct Row {
    std::string name;
    std::string family;     ///< its source
    bool complete = false;  ///< grade A: every field that a model needs is stated
    Job job = {};
    Layout layout = {};
    /// With what is not stated chosen so that it takes least memory.
    Layout smallest = {};
    double offloaded = 0;  ///< share of the activations that are moved to the host
    std::optional<double> seconds = {};
    std::optional<double> memory = {};  ///< GiB
    bool allocated = false;             ///< what the framework allocated, not what the driver says
    std::optional<bool> out_of_memory = {};
    /// True for three rows of ten, by their names: those are never fitted on.
    bool kept_back = false;
};

struct Table {
    std::vector<Row> rows;
    std::map<std::string, int> left_out;  ///< rows that cannot be scored, by why
};

/// Shapes and devices beside those that the library knows.
struct Known {
    std::vector<Model> models;
    std::vector<Device> devices;
};

/// Reads rows with the columns that docs/plan-model.md names; throws UsageError with `file` and line.
Table read(std::string_view text, std::string_view file, const Known& beside);

}  // namespace rankmesh::plan::score
