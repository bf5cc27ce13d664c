// SPDX-License-Identifier: Apache-2.0
// The tests of the engine NCCL that `doctor` runs, one after the other.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <rankmesh/engine/nccl.hpp>

#include "children.hpp"

namespace rankmesh::cli::of_doctor {

/// One test of the engine, run by every rank of a world on devices.
struct Step {
    std::string name;
    std::string help;
    std::function<void(nccl::World&, const Say&)> run;
    bool loses_a_rank = false;  ///< the last rank ends during the step
};

struct Outcome {
    std::string step;
    std::string state;  ///< `ok`, `failed` or `not run`
    double seconds = 0;
    std::string text = {};
    std::string log = {};
};

std::vector<Step> steps();
/// Runs a step on so many ranks, each in a child process; without Gloo, all in one.
Outcome run_in_ranks(const Step& step, int ranks, double timeout);

}  // namespace rankmesh::cli::of_doctor
