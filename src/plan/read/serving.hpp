// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rankmesh/plan/answer.hpp>

namespace rankmesh::plan {

/// Completes the answer to a question of serving, whose job is set.
void answer_serving(const Question& question, bool checkpoint_cache, Answer& answer);

}  // namespace rankmesh::plan
