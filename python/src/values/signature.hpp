// SPDX-License-Identifier: Apache-2.0
// Binds functions by their Python signatures, which say the names of parameters and their defaults.
#pragma once

#include <new>
#include <tuple>
#include <type_traits>

#include <nanobind/stl/tuple.h>

#include "values/convert.hpp"

namespace rankmesh::python {

/// The parameters of `def split(self, color: int | None, key: int = 0, *, name: str = '') -> Communicator`,
/// without self. A default `...` is None.
class Signature {
public:
    /// Throws std::logic_error unless there are `count` parameters, `positional` of them before a `*`.
    Signature(std::string text, std::size_t count, std::size_t positional);

    nb::sig whole() const { return nb::sig(text_.c_str()); }
    /// A parameter as nanobind takes it. It accepts None, because our conversions say better what is wrong
    /// with it.
    auto parameter(std::size_t i) const {
        const auto& [name, otherwise] = parameters_[i];
        const auto parameter = nb::arg(name.empty() ? nullptr : name.c_str()).none();
        using Flags = nb::detail::arg_traits<std::remove_const_t<decltype(parameter)>>;
        return nb::arg_v_t<Flags::flags, false>(parameter, nb::object(otherwise));
    }

private:
    struct Parameter {
        std::string name;      ///< empty for a parameter before `/`, which is passed by its place alone
        nb::object otherwise;  ///< the default; invalid without one
    };
    std::string text_;
    std::vector<Parameter> parameters_;
};

/// The parameters of a function or of a function object; those of a member function are without the object.
template <class Function>
struct Taken : Taken<decltype(&Function::operator())> {};
template <class Result, class... Parameters>
struct Taken<Result (*)(Parameters...)> {
    using Last = std::decay_t<std::tuple_element_t<sizeof...(Parameters), std::tuple<void, Parameters...>>>;
    /// Without names where all further arguments are taken.
    static constexpr auto are_named = !std::is_same_v<Last, nb::args> && !std::is_same_v<Last, nb::kwargs>;
    static constexpr auto count = sizeof...(Parameters);
};
template <class Result, class Owner, class... Parameters>
struct Taken<Result (Owner::*)(Parameters...)> : Taken<Result (*)(Parameters...)> {};
template <class Result, class Owner, class... Parameters>
struct Taken<Result (Owner::*)(Parameters...) const> : Taken<Result (*)(Parameters...)> {};

/// Calls `define` with the parameters of a function after the first `skipped`, as nanobind takes them.
template <class Function, std::size_t skipped, std::size_t positional, class Define>
void with_parameters(const std::string& text, const Define& define) {
    constexpr auto count = Taken<Function>::are_named ? Taken<Function>::count - skipped : 0;
    constexpr auto first = std::min(positional, count);
    const auto signature = Signature(text, count, first);
    [&]<std::size_t... I, std::size_t... J>(std::index_sequence<I...>, std::index_sequence<J...>) {
        if constexpr (first < count)
            define(signature.whole(), signature.parameter(I)..., nb::kw_only(),
                   signature.parameter(first + J)...);
        else
            define(signature.whole(), signature.parameter(I)...);
    }(std::make_index_sequence<first>(), std::make_index_sequence<count - first>());
}

/// Binds a method. Parameters after the first `positional` are passed by name.
template <std::size_t positional = std::string::npos, class T, class Function>
void method(nb::class_<T>& c, const std::string& signature, const char* text, Function function) {
    constexpr auto skipped = std::is_member_function_pointer_v<Function> ? 0 : 1;
    with_parameters<Function, skipped, positional>(
        signature, [&](const auto&... parameters) { c.def("", function, parameters..., text); });
}

/// Like `method`, for a method without self.
template <std::size_t positional = std::string::npos, class T, class Function>
void static_method(nb::class_<T>& c, const std::string& signature, const char* text, Function function) {
    with_parameters<Function, 0, positional>(
        signature, [&](const auto&... parameters) { c.def_static("", function, parameters..., text); });
}

/// Like `method`, for a function of a module.
template <std::size_t positional = std::string::npos, class Function>
void function(nb::module_& m, const std::string& signature, const char* text, Function function) {
    with_parameters<Function, 0, positional>(
        signature, [&](const auto&... parameters) { m.def("", function, parameters..., text); });
}

/// Binds pickles of a struct with these members.
template <class T, class... Member>
void bind_pickle(nb::class_<T>& c, Member T::*... members) {
    c.def("__getstate__", [=](const T& self) {
         return std::tuple<Member...>(self.*members...);
     }).def("__setstate__", [](T& self, const std::tuple<Member...>& state) {
        std::apply([&](const Member&... given) { new (&self) T{given...}; }, state);
    });
}

}  // namespace rankmesh::python
