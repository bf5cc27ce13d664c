// SPDX-License-Identifier: Apache-2.0
// The bindings of frameworks. Each submodule is in the file of its name.
#pragma once

#include <array>
#include <functional>
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

/// A parameter, and its name in errors.
struct Parameter {
    Parameter(const char* of) : Parameter(of, of) {}
    Parameter(const char* of, const char* in_errors) : name(of), said(in_errors) {}
    const char* name;
    const char* said;
};

/// Any object; signatures show what a parameter of this type accepts.
template <typename T>
using Shown = nb::typed<nb::object, std::conditional_t<std::is_constructible_v<T, std::vector<std::string>>,
                                                       std::vector<std::string>, T>>;

template <typename T>
auto arg_of(const char* name) {
    if constexpr (std::is_constructible_v<T, std::nullopt_t>)
        return nb::arg(name).none();
    else
        return nb::arg(name);
}

/// The names of the parameters, one for each type.
template <typename... Of>
using Parameters = std::array<Parameter, sizeof...(Of)>;

/// Binds `call` with numbers, words and lists of them. Partitions are lists in Python.
template <typename Self, typename... Of, typename Class, typename Call>
void def_called(nb::class_<Class>& to, const char* name, const Call& call,
                const Parameters<Of...>& parameters, const char* doc) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        const auto ask = [call, parameters](Self self, const std::array<nb::handle, sizeof...(Of)>& values) {
            const auto answer = [&] {
                return call(self, argument<std::remove_cvref_t<Of>>(values[I], parameters[I].said)...);
            };
            if constexpr (requires { answer()[0][0]; })
                return lists_of(answer());
            else
                return answer();
        };
        to.def(
            name,
            [ask](Self self, const Shown<std::remove_cvref_t<Of>>&... values) {
                return ask(self, {values...});
            },
            arg_of<std::remove_cvref_t<Of>>(parameters[I].name)..., doc);
    }(std::index_sequence_for<Of...>());
}
template <typename Class, typename Result, typename... Of>
void def_method(nb::class_<Class>& to, const char* name, Result (Class::*method)(Of...),
                const Parameters<Of...>& parameters, const char* doc = "") {
    def_called<Class&, Of...>(to, name, std::mem_fn(method), parameters, doc);
}
template <typename Class, typename Result, typename... Of>
void def_method(nb::class_<Class>& to, const char* name, Result (Class::*method)(Of...) const,
                const Parameters<Of...>& parameters, const char* doc = "") {
    def_called<const Class&, Of...>(to, name, std::mem_fn(method), parameters, doc);
}
template <typename Class, typename Result, typename Self, typename... Of>
void def_method(nb::class_<Class>& to, const char* name, Result (*function)(Self, Of...),
                const Parameters<Of...>& parameters, const char* doc = "") {
    def_called<Self, Of...>(to, name, function, parameters, doc);
}
/// Binds a constructor with these arguments, or with one structure of them.
template <typename... Of, typename Class>
void def_constructor(nb::class_<Class>& to, const Parameters<Of...>& parameters) {
    const auto make = [](Class* self, Of... values) { new (self) Class({std::move(values)...}); };
    def_called<Class*, Of...>(to, "__init__", make, parameters, "");
}

}  // namespace rankmesh::python
