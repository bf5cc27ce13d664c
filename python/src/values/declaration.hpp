// SPDX-License-Identifier: Apache-2.0
// What a program declares before it joins, as rankmesh._plan has it.
#pragma once

#include <rankmesh/engine/plan.hpp>

#include "values/convert.hpp"

namespace rankmesh::python {

/// The declarations of an iterable of rankmesh.Declaration; throws TypeFault for fields of other types.
Plan plan_of(nb::handle declarations);

}  // namespace rankmesh::python
