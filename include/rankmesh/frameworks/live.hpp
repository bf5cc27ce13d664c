// SPDX-License-Identifier: Apache-2.0
// The groups of a framework as communicators; <rankmesh/frameworks/NAME.hpp> gives them the original's names.
#pragma once

#include <type_traits>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/communicator.hpp>
#include <rankmesh/engine/member.hpp>
#include <rankmesh/frameworks/groups.hpp>

namespace rankmesh::frameworks {

/// The communicators of one rank's groups, by kind.
class RANKMESH_EXPORT Live {
public:
    /// Of a member that joined with `state.groups().plan(name)`; throws UsageError for any other.
    Live(const Member& member, const State& state, std::string_view name = {});

    /// The communicator of the group that an accessor of `state` gives; null where it gives none. Throws as
    /// `State::group` does.
    Communicator* find(const State& state, std::string_view accessor, const Values& options = {});
    /// Those of an accessor that gives several. Throws as `State::ask` does.
    std::vector<Communicator*> all(const State& state, std::string_view accessor, const Values& options = {});
    /// The same of an accessor that gives a group or throws.
    Communicator& at(const State& state, std::string_view accessor, const Values& options = {}) {
        return *find(state, accessor, options);
    }
    /// Gives the communicators up.
    void clear() { groups_.clear(); }

private:
    Communicator& of_kind(const std::string& kind);

    std::map<std::string, Communicator, std::less<>> groups_;
};

/// A state whose answers have C++ types; nothing is an empty optional.
class TypedState : public State {
public:
    using State::State;

protected:
    template <class Type>
    Type get(std::string_view accessor, const Values& options = {}) const {
        const auto value = ask(accessor, options);
        if constexpr (!std::is_constructible_v<Type, std::nullopt_t>)
            return as<Type>(value);
        else
            return std::holds_alternative<std::monostate>(value) ? Type()
                                                                 : Type(as<typename Type::value_type>(value));
    }

    /// What an accessor of several groups gives.
    std::vector<GroupPart> several(std::string_view accessor, const Values& options = {}) const {
        auto found = std::vector<GroupPart>{};
        for (const auto& kind : get<std::vector<std::string>>(accessor, options))
            found.push_back(*groups().of(kind, rank()));
        return found;
    }

private:
    template <class Type>
    static Type as(const Value& value) {
        if constexpr (std::is_same_v<Type, DeviceMesh>)
            return std::get<std::vector<Type>>(value).front();
        else
            return std::get<Type>(value);
    }
};

}  // namespace rankmesh::frameworks
