// SPDX-License-Identifier: Apache-2.0
// Accessors that are members of a framework's own class, written in C++.
#pragma once

#include <type_traits>
#include <utility>

#include <rankmesh/core/group.hpp>

#include "frameworks/rows.hpp"

namespace rankmesh::frameworks {

namespace detail_of_members {

template <class Argument>
Argument argument_of(const Value& value) {
    if constexpr (std::is_same_v<Argument, std::optional<int>>) {
        const auto* number = std::get_if<int>(&value);
        return number ? std::optional(*number) : std::nullopt;
    } else {
        return std::get<Argument>(value);
    }
}

template <class Answer>
Value value_of(const Answer& answer) {
    if constexpr (std::is_same_v<Answer, Group>)
        return std::vector<int>(answer.begin(), answer.end());
    else if constexpr (std::is_same_v<Answer, std::optional<int>>)
        return answer ? Value(*answer) : Value();
    else
        return answer;
}

template <class Class, class Answer, class... Arguments>
struct Signature {
    using Result = std::decay_t<Answer>;

    template <auto member>
    static Value call(void* object, const Given& options) {
        return [&]<std::size_t... i>(std::index_sequence<i...>) -> Value {
            const auto ask = [&]() -> Answer {
                return (static_cast<Class*>(object)->*member)(argument_of<Arguments>(options.at(i))...);
            };
            if constexpr (std::is_void_v<Answer>)
                return ask(), Value();
            else
                return value_of<Result>(ask());
        }(std::index_sequence_for<Arguments...>());
    }
};

template <class Class, class Answer, class... Arguments>
Signature<Class, Answer, Arguments...> signature(Answer (Class::*)(Arguments...));
template <class Class, class Answer, class... Arguments>
Signature<Class, Answer, Arguments...> signature(Answer (Class::*)(Arguments...) const);

}  // namespace detail_of_members

/// The row of a member; its type is that of what the member returns, and the options are its arguments.
template <auto member>
AccessorRow answer(std::string name, std::string doc, std::vector<Setting> options = {}) {
    using Called = decltype(detail_of_members::signature(member));
    using Result = typename Called::Result;
    auto row = AccessorRow{.name = std::move(name),
                           .quantity = std::is_void_v<Result> ? Quantity::action : Quantity::value,
                           .doc = std::move(doc),
                           .options = std::move(options)};
    row.member = &Called::template call<member>;
    if (std::is_same_v<Result, bool>) row.type = Type::flag;
    if (std::is_same_v<Result, std::optional<int>>) row.type = Type::maybe_number;
    if (std::is_same_v<Result, Group>) row.quantity = Quantity::ranks;
    return row;
}

/// The row of a member under its own name, of the class that is called `Class` where this stands.
#define RANKMESH_MEMBER(name, ...) answer<&Class::name>(#name, __VA_ARGS__)

/// The class of a framework: made without arguments, `initialize` gives it the settings.
template <class Class, auto initialize>
OwnClass own_class(std::string name) {
    return {.name = std::move(name),
            .make = []() -> std::shared_ptr<void> { return std::make_shared<Class>(); },
            .enter = [](void* object, int rank,
                        int world_size) { static_cast<Class*>(object)->enter(rank, world_size); },
            .initialize = [](void* object,
                             const Given& given) { initialize(*static_cast<Class*>(object), given); },
            .destroy = [](void* object) { static_cast<Class*>(object)->destroy_model_parallel(); }};
}

}  // namespace rankmesh::frameworks
