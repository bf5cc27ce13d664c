// SPDX-License-Identifier: Apache-2.0
// The bindings of frameworks. Each submodule is in the file of its name.
#pragma once

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <rankmesh/frameworks/error.hpp>
#include <rankmesh/frameworks/group_part.hpp>

#include "values/ranks.hpp"
#include "values/signature.hpp"

namespace rankmesh::python {

void bind_convert(nb::module_& m);
void bind_device_mesh(nb::module_& m);
void bind_explain(nb::module_& m);
void bind_plan(nb::module_& m);
void bind_rows(nb::module_& m);
void bind_topology(nb::module_& m);

/// Returns a group as a Python object, in closed form if there is one.
inline Ranks handle_of(const frameworks::GroupPart& part) {
    const auto closed = part.group();
    return closed ? Ranks(*closed) : Ranks(std::vector<int>(part.begin(), part.end()));
}
inline std::optional<Ranks> handle_of(const std::optional<frameworks::GroupPart>& part) {
    return part ? std::optional(handle_of(*part)) : std::nullopt;
}

}  // namespace rankmesh::python
