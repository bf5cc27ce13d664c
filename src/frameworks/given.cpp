// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <rankmesh/core/name.hpp>

#include "frameworks/rows.hpp"

namespace rankmesh::frameworks {

using detail::cat;

namespace {

/// What a value of that type is, for an error.
std::string_view wanted(Type type) {
    constexpr std::string_view texts[] = {
        "a whole number",          "a whole number or nothing", "true or false",     "a word",
        "a list of whole numbers", "a word or nothing",         "a word or a table", "words",
        "a word or words",         "a mesh or nothing"};
    return texts[static_cast<std::size_t>(type)];
}

std::string shown(const Value& value) {
    const auto list = [](const auto& all) {
        auto text = std::string{};
        for (const auto& each : all) text += cat(text.empty() ? "" : ", ", each);
        return cat("[", text, "]");
    };
    if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
    if (const auto* number = std::get_if<int>(&value)) return std::to_string(*number);
    if (const auto* word = std::get_if<std::string>(&value)) return detail::in_quotes(*word);
    if (const auto* numbers = std::get_if<std::vector<int>>(&value)) return list(*numbers);
    if (const auto* words = std::get_if<std::vector<std::string>>(&value)) return list(*words);
    return "nothing";
}

bool is_of(const Value& value, const Setting& setting) {
    switch (setting.type) {
        case Type::number:
            return std::holds_alternative<int>(value);
        case Type::maybe_number:
            return std::holds_alternative<int>(value) || std::holds_alternative<std::monostate>(value);
        case Type::flag:
            return std::holds_alternative<bool>(value);
        case Type::word:
            return std::holds_alternative<std::string>(value);
        case Type::numbers:
            return std::holds_alternative<std::vector<int>>(value) ||
                   std::holds_alternative<std::monostate>(value);
        case Type::maybe_word:
        case Type::plan:
            return std::holds_alternative<std::string>(value) ||
                   std::holds_alternative<std::monostate>(value);
        case Type::words:
            return std::holds_alternative<std::vector<std::string>>(value);
        case Type::names:
            return std::holds_alternative<std::string>(value) ||
                   std::holds_alternative<std::vector<std::string>>(value);
        case Type::mesh:
            return std::holds_alternative<std::vector<dialect::DeviceMesh>>(value) ||
                   std::holds_alternative<std::monostate>(value);
    }
    return false;
}

}  // namespace

Given::Given(std::string_view what, const std::vector<Setting>& known, const Values& values, int world_size)
    : known_(&known), world_size_(world_size) {
    values_.reserve(known.size());
    for (const auto& setting : known) values_.push_back(setting.otherwise);
    for (const auto& [name, value] : values) {
        const auto found = std::ranges::find(known, name, &Setting::name);
        if (found == known.end()) {
            auto names = std::vector<std::string_view>{};
            for (const auto& setting : known) names.push_back(setting.name);
            const auto near = did_you_mean(name, names);
            throw UsageError(cat(what, " has no ", detail::in_quotes(name),
                                 near.empty() ? cat("; there ", names.size() == 1 ? "is " : "are ",
                                                    names.empty() ? "none" : detail::with_commas(names))
                                              : near));
        }
        if (!is_of(value, *found))
            throw UsageError(
                cat(name, " of ", what, " is ", shown(value), "; it must be ", wanted(found->type)));
        const auto* word = std::get_if<std::string>(&value);
        if (word && !found->words.empty() && std::ranges::find(found->words, *word, [](const auto& each) {
                                                 return each.first;
                                             }) == found->words.end()) {
            auto words = std::string{};
            for (const auto& each : found->words) words += cat(words.empty() ? "" : " or ", each.first);
            throw UsageError(cat(name, " is ", detail::in_quotes(*word), "; it must be ", words));
        }
        values_[static_cast<std::size_t>(found - known.begin())] = value;
    }
    for (std::size_t i = 0; i < known.size(); ++i)
        if (!is_of(values_[i], known[i]))
            throw UsageError(cat(what, " needs ", known[i].name, ", which has no default"));
}

const Value* Given::find(std::string_view name) const {
    for (std::size_t i = 0; i < values_.size(); ++i)
        if ((*known_)[i].name == name) return &values_[i];
    for (const auto& [derived, value] : derived_)
        if (derived == name) return &value;
    return nullptr;
}

const Value& Given::value(std::string_view name) const {
    if (const auto* found = find(name)) return *found;
    throw UsageError(cat("a row names ", detail::in_quotes(name), ", which no setting has"));
}

int Given::number(std::string_view name) const {
    const auto* number = std::get_if<int>(&value(name));
    return number ? *number : 0;
}
bool Given::flag(std::string_view name) const { return std::get<bool>(value(name)); }
bool Given::is_none(std::string_view name) const {
    return std::holds_alternative<std::monostate>(value(name));
}
const std::vector<int>& Given::numbers(std::string_view name) const {
    return std::get<std::vector<int>>(value(name));
}
const std::string& Given::word(std::string_view name) const { return std::get<std::string>(value(name)); }
bool Given::has(std::string_view name) const { return find(name) != nullptr; }

void Given::derive(std::string_view name, Value value) {
    for (std::size_t i = 0; i < values_.size(); ++i)
        if ((*known_)[i].name == name) return static_cast<void>(values_[i] = std::move(value));
    for (auto& [derived, own] : derived_)
        if (derived == name) return static_cast<void>(own = std::move(value));
    derived_.emplace_back(name, std::move(value));
}

}  // namespace rankmesh::frameworks
