// SPDX-License-Identifier: Apache-2.0
// What the stages of a pipeline hold, and what layers keep for the backward pass.
#pragma once

#include <vector>

#include <rankmesh/plan/job.hpp>
#include <rankmesh/plan/layout.hpp>

namespace rankmesh::plan {

/// The layers of a stage, and how many embeddings and heads.
struct Stage {
    double dense = 0;
    double expert = 0;
    double first = 0;
    double last = 0;
    Stage& operator+=(const Stage& other) {
        dense += other.dense, expert += other.expert, first += other.first, last += other.last;
        return *this;
    }
};
std::vector<Stage> stages_of(const Layout& layout, const Model& model);

/// The bytes that one layer keeps for the backward pass of one micro-batch.
struct Kept {
    double dense = 0;
    double expert = 0;
    double input = 0;            ///< if the whole layer is recomputed
    double offloaded_dense = 0;  ///< bytes that wait in the memory of the host
    double offloaded_expert = 0;
    double offloaded_input = 0;
};
Kept kept(const Job& job, const Layout& layout);

}  // namespace rankmesh::plan
