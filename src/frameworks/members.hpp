// SPDX-License-Identifier: Apache-2.0
// Accessors that are members of a framework's own class, written in C++.
#pragma once

#include <functional>
#include <type_traits>
#include <utility>

#include <rankmesh/dialect/device_mesh.hpp>

#include "frameworks/rows.hpp"

namespace rankmesh::frameworks {

namespace detail_of_members {

template <class Argument>
Argument argument_of(const Value& value) {
    if constexpr (std::is_same_v<Argument, dialect::NameList>) {
        if (const auto* name = std::get_if<std::string>(&value)) return *name;
        return std::get<std::vector<std::string>>(value);
    } else {
        return std::get<Argument>(value);
    }
}

using DeviceMeshes = std::vector<dialect::DeviceMesh>;
inline DeviceMeshes meshes_of(const dialect::DeviceMesh& mesh) { return {mesh}; }
inline DeviceMeshes meshes_of(const DeviceMeshes& meshes) { return meshes; }
inline DeviceMeshes meshes_of(const std::vector<std::pair<std::string, dialect::DeviceMesh>>& named) {
    auto meshes = DeviceMeshes{};
    for (const auto& [name, mesh] : named) meshes.push_back(mesh);
    return meshes;
}

template <class Answer>
constexpr bool is_mesh = requires(const Answer& answer) { meshes_of(answer); };
template <class Answer>
constexpr bool is_mesh<std::optional<Answer>> = is_mesh<Answer>;

template <class Answer>
Value value_of(const Answer& answer) {
    if constexpr (requires { answer.has_value(); })
        return answer ? value_of(*answer) : Value();
    else if constexpr (is_mesh<Answer>)
        return meshes_of(answer);
    else if constexpr (std::is_same_v<Answer, std::int64_t>)
        return std::in_range<int>(answer) ? Value(static_cast<int>(answer))
                                          : throw Error(Fault::sizes, detail::cat(answer, " is too large"));
    else
        return answer;
}

template <class Class, class Answer, class... Arguments>
struct Signature {
    using Result = std::decay_t<Answer>;
    using Owner = Class;

    template <auto member, class Object>
    static Value call(const void* object, const Given& options) {
        return [&]<std::size_t... i>(std::index_sequence<i...>) -> Value {
            const Class& own = *static_cast<const Object*>(object);
            return value_of<Result>(
                std::invoke(member, own, argument_of<std::decay_t<Arguments>>(options.at(i))...));
        }(std::index_sequence_for<Arguments...>());
    }
};

template <class Class, class Answer, class... Arguments>
Signature<Class, Answer, Arguments...> signature(Answer (Class::*)(Arguments...) const);
template <class Class, class Answer>
    requires std::is_object_v<Answer>
Signature<Class, Answer> signature(Answer Class::*);

}  // namespace detail_of_members

/// The row of a member of `Object` or of its base; its type is that of what the member returns, and the
/// options are its arguments.
template <auto member, class Object = void>
AccessorRow answer(std::string name, std::string doc, std::vector<Setting> options = {}) {
    using Called = decltype(detail_of_members::signature(member));
    using Result = typename Called::Result;
    auto row = AccessorRow{.name = std::move(name),
                           .quantity = Quantity::value,
                           .doc = std::move(doc),
                           .options = std::move(options)};
    using Owner = std::conditional_t<std::is_void_v<Object>, typename Called::Owner, Object>;
    row.member = &Called::template call<member, Owner>;
    if (std::is_same_v<Result, bool>) row.type = Type::flag;
    if (detail_of_members::is_mesh<Result>) row.quantity = Quantity::device_mesh;
    return row;
}

/// The row of a member under its own name, of the class that is called `Class` where this stands.
#define RANKMESH_MEMBER(name, ...) answer<&Class::name, Class>(#name, __VA_ARGS__)

}  // namespace rankmesh::frameworks
