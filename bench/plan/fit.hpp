// SPDX-License-Identifier: Apache-2.0
// Fits the constants of the model of steps on published measurements.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/plan/rows.hpp"
#include "plan/constants.hpp"

namespace rankmesh::plan::score {

/// A fitted constant. `start` is its value in the prototype, which is also the centre of a weak prior.
struct Parameter {
    std::string_view name;
    double start;
    double spread;  ///< standard deviation of the prior of the logarithm
    void (*set)(Constants&, Job&, double);
};

std::span<const Parameter> parameters_to_fit();

/// Returns the values of all parameters, in their order, that minimize the errors of `rows`.
///
/// The loss of a row is quadratic below an error of 4 % and linear above. A source with n rows counts as
/// sqrt(n) rows.
std::vector<double> fit(std::span<const Row> rows);

/// Returns relative errors of predicted steps, in the order of `rows`.
std::vector<double> errors_with(std::span<const double> values, std::span<const Row> rows);

/// Returns the fitted values beside those of the library.
std::string fitted_text(std::span<const Row> rows);

/// Returns a table of the errors of each source, predicted by a fit on the rows of other sources that are not
/// kept back.
std::string families_left_out(std::span<const Row> rows);

}  // namespace rankmesh::plan::score
