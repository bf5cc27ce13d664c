// SPDX-License-Identifier: Apache-2.0
// The terms of the model of steps, each of which can be left out.
#pragma once

#include <span>
#include <string_view>

#include <rankmesh/plan/job.hpp>

#include "plan/constants.hpp"

namespace rankmesh::plan::score {

struct Term {
    std::string_view name;
    std::string_view what;
    void (*leave_out)(Constants&, Job&);
};

std::span<const Term> terms();

}  // namespace rankmesh::plan::score
