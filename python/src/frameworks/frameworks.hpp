// SPDX-License-Identifier: Apache-2.0
// The bindings of frameworks. Each submodule is in the file of its name.
#pragma once

#include <array>
#include <type_traits>
#include <utility>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <rankmesh/frameworks/error.hpp>
#include <rankmesh/frameworks/group_part.hpp>

#include "values/ranks.hpp"

namespace rankmesh::python {

void bind_convert(nb::module_& m);
void bind_device_mesh(nb::module_& m);
void bind_explain(nb::module_& m);
void bind_megatron(nb::module_& m);
void bind_plan(nb::module_& m);
void bind_rows(nb::module_& m);
void bind_topology(nb::module_& m);

/// The Python type of a parameter of this type; errors contain its name.
template <typename T>
auto argument(nb::handle value, const char* name) {
    if constexpr (std::is_constructible_v<T, std::nullopt_t>)
        return value.is_none() ? std::nullopt : std::optional(argument<typename T::value_type>(value, name));
    else if constexpr (std::is_same_v<T, int>)
        return int_of(value, name);
    else if constexpr (std::is_same_v<T, std::string_view> || std::is_same_v<T, std::string>)
        return text_of(value, name);
    else if constexpr (std::is_same_v<T, std::vector<int>>)
        return ints_of(value, name);
    else if constexpr (std::is_constructible_v<T, std::vector<std::string>>)
        return T(texts_of(value, name));
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

/// Returns a group as a Python object, in closed form if there is one.
inline Ranks handle_of(const frameworks::GroupPart& part) {
    const auto closed = part.group();
    return closed ? Ranks(*closed) : Ranks(std::vector<int>(part.begin(), part.end()));
}
inline std::optional<Ranks> handle_of(const std::optional<frameworks::GroupPart>& part) {
    return part ? std::optional(handle_of(*part)) : std::nullopt;
}

using IntList = nb::typed<nb::list, int>;
using IntLists = nb::typed<nb::list, IntList>;

/// Ranks as a list of int.
IntList list_of(const auto& ranks) {
    auto list = IntList(nb::list());
    for (auto rank : ranks) list.append(rank);
    return list;
}
/// Returns groups of ranks as in the originals.
IntLists lists_of(const auto& groups) {
    auto lists = IntLists(nb::list());
    for (const auto& group : groups) lists.append(list_of(group));
    return lists;
}

}  // namespace rankmesh::python
