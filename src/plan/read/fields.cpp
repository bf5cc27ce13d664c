// SPDX-License-Identifier: Apache-2.0
#include "plan/read/fields.hpp"

#include <limits>

namespace rankmesh::plan::of_read {

/// Returns the first of these names whose value exists and is not null.
std::string_view Fields::name_in(std::initializer_list<std::string_view> names) const {
    for (const auto name : names)
        if (!was_read(name)) read_.emplace_back(name);
    for (const auto* values : {&first_, &values_})
        for (const auto name : names)
            if (values->contains(name) && !(*values)[name].is_null()) return name;
    return {};
}

const Json* Fields::find(std::initializer_list<std::string_view> names) const {
    const auto name = name_in(names);
    return name.empty() ? nullptr : &values_[name];
}

void Fields::refuse(std::string_view name, const Json& value, std::string_view wanted) const {
    fail(cat(name, " is ", formats::excerpt(value), "; it must be ", wanted));
}

std::optional<int> Fields::number(std::initializer_list<std::string_view> names, int least) const {
    const auto* value = find(names);
    if (value == nullptr) return std::nullopt;
    constexpr auto most = std::numeric_limits<int>::max();
    if (!value->is_number_integer() || *value < least || *value > most)
        refuse(name_in(names), *value, cat("a whole number from ", least, " to ", most));
    return value->get<int>();
}

int Fields::needed(std::initializer_list<std::string_view> names, std::string_view what) const {
    if (const auto value = number(names)) return *value;
    fail(cat("has no ", *names.begin(), ", ", what, "; add it"));
}

std::optional<bool> Fields::flag(std::initializer_list<std::string_view> names) const {
    const auto* value = find(names);
    if (value == nullptr) return std::nullopt;
    if (!value->is_boolean()) refuse(name_in(names), *value, "true or false");
    return value->get<bool>();
}

std::optional<std::string> Fields::word(std::initializer_list<std::string_view> names) const {
    const auto* value = find(names);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) refuse(name_in(names), *value, "a string");
    return value->text();
}

}  // namespace rankmesh::plan::of_read
