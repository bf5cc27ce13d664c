// SPDX-License-Identifier: Apache-2.0
#include <ranges>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/name.hpp>

#include "frameworks/rows.hpp"

namespace rankmesh::frameworks {

namespace {

// The types in Value, in their order there.
enum : unsigned { nothing = 1, flag = 2, number = 4, word = 8, numbers = 16, words = 32, meshes = 64 };

/// The values of each Type, in words and as some of these.
constexpr struct {
    std::string_view text;
    unsigned alternatives;
} allowed[] = {{"a whole number", number},
               {"a whole number or nothing", number | nothing},
               {"true or false", flag},
               {"a word", word},
               {"a list of whole numbers", numbers | nothing},
               {"a word or nothing", word | nothing},
               {"a word or a table", word | nothing},
               {"words", words},
               {"a word or words", word | words},
               {"a mesh or nothing", meshes | nothing}};

const auto& allowed_of(const Setting& setting) { return allowed[static_cast<std::size_t>(setting.type)]; }

bool is_of(const Value& value, const Setting& setting) {
    return (allowed_of(setting).alternatives >> value.index() & 1U) != 0;
}

std::string shown(const Value& value) {
    const auto list = [](const auto& all) { return cat("[", detail::with_commas(all), "]"); };
    if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
    if (const auto* number = std::get_if<int>(&value)) return std::to_string(*number);
    if (const auto* word = std::get_if<std::string>(&value)) return detail::in_quotes(*word);
    if (const auto* numbers = std::get_if<std::vector<int>>(&value)) return list(*numbers);
    if (const auto* words = std::get_if<std::vector<std::string>>(&value)) return list(*words);
    return "nothing";
}

}  // namespace

Given::Given(std::string_view what, const std::vector<Setting>& known, const Values& values, int world_size)
    : known_(&known), world_size_(world_size) {
    values_.reserve(known.size());
    for (const auto& setting : known) values_.push_back(setting.otherwise);
    for (const auto& [name, value] : values) {
        const auto found = std::ranges::find(known, name, &Setting::name);
        if (found == known.end()) {
            const auto names = known_names(known);
            const auto near = did_you_mean(name, names);
            throw UsageError(cat(what, " has no ", detail::in_quotes(name),
                                 near.empty() ? cat("; there ", names.size() == 1 ? "is " : "are ",
                                                    names.empty() ? "none" : detail::with_commas(names))
                                              : near));
        }
        if (!is_of(value, *found))
            throw UsageError(
                cat(name, " of ", what, " is ", shown(value), "; it must be ", allowed_of(*found).text));
        const auto* word = std::get_if<std::string>(&value);
        const auto words = std::views::keys(found->words);
        if (word && !words.empty() && !frameworks::holds(words, *word))
            throw UsageError(
                cat(name, " is ", detail::in_quotes(*word), "; it must be ", joined(words, " or ")));
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

int Given::number(std::string_view name, int otherwise) const {
    const auto* number = std::get_if<int>(&value(name));
    return number ? *number : otherwise;
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

bool Given::holds(std::string_view condition) const {
    constexpr std::string_view also = " and ";
    if (const auto end = condition.find(also); end != condition.npos)
        return holds(condition.substr(0, end)) && holds(condition.substr(end + also.size()));
    const auto in = [this](std::string_view word) {  // a flag is 1 or 0
        if (const auto literal = detail::number_in(word)) return *literal;
        const auto* flag = std::get_if<bool>(&value(word));
        return flag ? int{*flag} : number(word);
    };
    const auto first = condition.substr(0, condition.find(' '));
    if (first == "not") return in(condition.substr(first.size() + 1)) == 0;
    if (first.size() == condition.size()) return in(first) != 0;
    const auto rest = condition.substr(first.size() + 1), of = rest.substr(0, rest.find(' '));
    const auto left = in(first), right = in(rest.substr(of.size() + 1));
    return of == ">" ? left > right : of == "<=" ? left <= right : (of == "==") == (left == right);
}

void Given::derive(std::string_view name, Value value) {
    for (std::size_t i = 0; i < values_.size(); ++i)
        if ((*known_)[i].name == name) return static_cast<void>(values_[i] = std::move(value));
    for (auto& [derived, own] : derived_)
        if (derived == name) return static_cast<void>(own = std::move(value));
    derived_.emplace_back(name, std::move(value));
}

}  // namespace rankmesh::frameworks
