// SPDX-License-Identifier: Apache-2.0
// Errors of the model over published measurements.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/plan/rows.hpp"
#include "bench/plan/terms.hpp"

namespace rankmesh::plan::score {

/// A row with what the model says of it.
struct Scored {
    const Row* row;
    double seconds = 0;
    double memory = 0;     ///< GiB, of the kind that was measured
    bool inside = false;   ///< the measured step lies in the predicted range
    bool refused = false;  ///< does not fit, even where what is not stated is chosen to take least
};

/// Predicts every row, without the term where one is given.
std::vector<Scored> predict(std::span<const Row> rows, const Term* without = nullptr);

/// Errors of step times over rows of grade A, as percent; 0 where there are none.
struct Errors {
    int rows = 0;
    double mean = 0;
    double median = 0;
    double most = 0;
    double within_10 = 0;  ///< percent of the rows
};
Errors step_errors(std::span<const Scored> scored);

/// Tables of errors, and as the last line the sums as JSON.
std::string report(std::span<const Scored> scored);

/// Each row with what was measured and predicted.
std::string listing(std::span<const Scored> scored);

/// What leaving out each term does to the mean error, others left as they are.
std::string ablation(std::span<const Row> rows);

}  // namespace rankmesh::plan::score
