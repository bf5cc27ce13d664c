// SPDX-License-Identifier: Apache-2.0
// Each dialect is a submodule, bound in the file of its name.
#pragma once

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <rankmesh/dialect/error.hpp>

#include "values/ranks.hpp"

namespace rankmesh::python {

void bind_areal(nb::module_& m);
void bind_convert(nb::module_& m);
void bind_deepspeed(nb::module_& m);
void bind_device_mesh(nb::module_& m);
void bind_llamafactory(nb::module_& m);
void bind_megatron(nb::module_& m);
void bind_megatron2022(nb::module_& m);
void bind_olmo(nb::module_& m);
void bind_picotron(nb::module_& m);
void bind_plan(nb::module_& m);
void bind_rows(nb::module_& m);
void bind_topology(nb::module_& m);
void bind_torchtitan(nb::module_& m);

/// None as nothing.
inline std::optional<int> optional_int(nb::handle value, const char* what) {
    return value.is_none() ? std::nullopt : std::optional(int_of(value, what));
}

using IntList = nb::typed<nb::list, int>;
using IntLists = nb::typed<nb::list, IntList>;

/// Ranks as a list of int.
IntList list_of(const auto& ranks) {
    auto list = IntList(nb::list());
    for (auto rank : ranks) list.append(rank);
    return list;
}
/// Groups of ranks as the originals have them.
IntLists lists_of(const auto& groups) {
    auto lists = IntLists(nb::list());
    for (const auto& group : groups) lists.append(list_of(group));
    return lists;
}

}  // namespace rankmesh::python
