// SPDX-License-Identifier: Apache-2.0
// The parts of `answer` that have files of their own.
#pragma once

#include <rankmesh/plan/answer.hpp>

namespace rankmesh::plan {

/// Excludes the layouts that a framework cannot run. Knows only the frameworks for which plan writes settings
/// besides the mesh.
void restrict_to(std::string_view framework, Options& options);

/// Completes the answer to a question of serving, whose job is set.
void answer_serving(const Question& question, bool checkpoint_cache, Answer& answer);

}  // namespace rankmesh::plan
