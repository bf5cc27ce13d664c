// SPDX-License-Identifier: Apache-2.0
// Each dialect is a submodule, bound in the file of its name.
#pragma once

#include <array>
#include <utility>

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
void bind_olmo(nb::module_& m);
void bind_plan(nb::module_& m);
void bind_rows(nb::module_& m);
void bind_topology(nb::module_& m);
void bind_torchtitan(nb::module_& m);

/// None as nothing.
inline std::optional<int> optional_int(nb::handle value, const char* what) {
    return value.is_none() ? std::nullopt : std::optional(int_of(value, what));
}

/// What Python gives for a parameter of this type, whose name an error says.
template <typename T>
auto argument(nb::handle value, const char* name) {
    if constexpr (std::is_same_v<T, int>)
        return int_of(value, name);
    else if constexpr (std::is_same_v<T, std::optional<int>>)
        return optional_int(value, name);
    else if constexpr (std::is_same_v<T, std::string_view>)
        return text_of(value, name);
    else
        return nb::cast<T>(value);
}

/// Binds a function of numbers and words, with the names of its parameters.
template <typename Result, typename... Of>
void def_named(nb::module_& m, const char* name, Result (*function)(Of...),
               const std::array<const char*, sizeof...(Of)>& names, const char* doc = "") {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        const auto call = [function, names](const std::array<nb::handle, sizeof...(Of)>& values) {
            return function(argument<std::remove_cvref_t<Of>>(values[I], names[I])...);
        };
        m.def(
            name, [call](decltype(I, nb::handle())... values) { return call({values...}); },
            nb::arg(names[I]).none()..., doc);
    }(std::index_sequence_for<Of...>());
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
