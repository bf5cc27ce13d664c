// SPDX-License-Identifier: Apache-2.0
// Each dialect is a submodule, bound in the file of its name.
#pragma once

#include <rankmesh/dialect/error.hpp>

#include "values/ranks.hpp"

namespace rankmesh::python {

void bind_convert(nb::module_& m);

}  // namespace rankmesh::python
