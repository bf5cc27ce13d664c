// SPDX-License-Identifier: Apache-2.0
#include "convert/settings.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include <rankmesh/core/mesh.hpp>

#include "formats/text.hpp"
#include "frameworks/rows.hpp"

namespace rankmesh::conversion {

using frameworks::words_of;

namespace {

/// The axis of a size's name: that of `tensor_model_parallel_size` and of `tp` is `tp`.
std::set<std::string, std::less<>> meaning_of(std::string_view name) {
    static const auto meanings = std::map<std::string_view, std::string_view>{
        {"tensor", "tp"}, {"pipeline", "pp"}, {"pipe", "pp"}, {"data", "dp"}, {"context", "cp"},
        {"expert", "ep"}, {"sequence", "sp"}, {"mp", "tp"},   {"pcp", "cp"},  {"fsdp", "shard"},
        {"parallel", ""}, {"model", ""},      {"size", ""},   {"degree", ""}, {"moe", ""}};
    auto meaning = std::set<std::string, std::less<>>{};
    for (const auto word : formats::split(name, '_')) {
        const auto found = meanings.find(word);
        meaning.emplace(found == meanings.end() ? word : found->second);
    }
    meaning.erase("");
    return meaning;
}

const auto axes = std::set<std::string, std::less<>>{"cp", "dcp",       "dp",    "edp", "ep", "etp",
                                                     "pp", "replicate", "shard", "sp",  "tp"};

/// True for a name that can only be that of an axis's size.
bool is_parallel_size(std::string_view name) {
    const auto meaning = meaning_of(name);
    return !meaning.empty() && std::ranges::includes(axes, meaning);
}

/// The value of a name, in the tables that its dots name; null where there is none.
const Json* value_in(const Json& table, std::string_view name) {
    const auto dot = name.find('.');
    const Json* found = nullptr;
    for (const auto& [key, value] : table.items()) {
        if (plain_name(key) != name.substr(0, dot)) continue;
        if (found) throw UsageError(cat("the settings give ", excerpt(name), " twice; give it once"));
        found = &value;
    }
    if (dot == std::string_view::npos || !found || found->is_null()) return found;
    if (!found->is_object())
        throw UsageError(
            cat(name.substr(0, dot), " is ", formats::excerpt(*found), "; it must be a table of settings"));
    return value_in(*found, name.substr(dot + 1));
}

}  // namespace

bool are_of_two_axes(std::string_view name, std::string_view other) {
    const auto axes_of = [](std::string_view of) {
        auto meaning = meaning_of(of);
        std::erase_if(meaning, [](const auto& word) { return !axes.contains(word); });
        return meaning;
    };
    const auto one = axes_of(name);
    const auto two = axes_of(other);
    return !one.empty() && !two.empty() && one != two;
}

std::string Settings::shown(std::string_view name) const {
    auto text = std::string(name);
    if (!flags_) return text;
    std::ranges::replace(text, '_', '-');
    return "--" + text;
}

const Json* Settings::find(std::string_view name) {
    known_.emplace(name);
    const auto* found = value_in(values_, name);
    return !found || found->is_null() ? nullptr : found;
}

void Settings::refuse(std::string_view name, const Json& value, std::string_view wanted) const {
    if (flags_ && value == true)
        throw UsageError(cat(shown(name), " has no value; write ", shown(name), " VALUE, ", wanted));
    if (value.is_string() && value.text().starts_with('$'))  // of a loop, a branch or the environment
        throw UsageError(cat(shown(name), " is ", formats::excerpt(value),
                             ", which has several values here, or none; write ", shown(name),
                             flags_ ? " VALUE" : "=VALUE", " behind the settings"));
    throw UsageError(cat(shown(name), " is ", formats::excerpt(value), "; it must be ", wanted));
}

bool Settings::has(std::string_view name) { return find(name) != nullptr; }

bool Settings::is_later(std::string_view name, std::string_view other) const {
    return value_in(values_, name) >
           value_in(values_, other);  // in one list, in the order in which they were given
}

bool Settings::has_table(std::string_view name) const {
    const auto* table = value_in(values_, name);
    return table && table->is_object();
}

bool Settings::has_all(std::string_view names) const {
    const auto& all = has_entered() ? outside_ : values_;
    return !names.empty() &&
           std::ranges::all_of(words_of(names), [&](auto name) { return value_in(all, name); });
}

void Settings::ignore(std::initializer_list<std::string_view> names) {
    for (const auto name : names) ignored_.emplace(name);
}

std::optional<int> Settings::number(std::string_view name) {
    const auto* value = find(name);
    if (!value) return std::nullopt;
    if (!value->is_number_integer() || *value > Mesh::max_size || *value < -Mesh::max_size)
        refuse(name, *value, cat("a whole number up to ", Mesh::max_size));
    return value->get<int>();
}

int Settings::size(std::string_view name, int otherwise, int least) {
    const auto value = number(name);
    if (value && *value < least)
        throw UsageError(cat(shown(name), " is ", *value, "; it must be ", least, " or more"));
    return value.value_or(otherwise);
}

std::optional<std::string> Settings::word(std::string_view name) {
    const auto* value = find(name);
    if (!value) return std::nullopt;
    if (!value->is_string()) refuse(name, *value, "a string");
    if (const auto& text = value->text(); detail::escaped(text) != text)
        refuse(name, *value, "a string without control characters");
    return value->get<std::string>();
}

std::optional<bool> Settings::flag(std::string_view name) {
    const auto* value = find(name);
    if (!value && flags_)
        if (const auto no = cat("no_", name); value_in(values_, no)) return !flag(no).value_or(false);
    if (!value) return std::nullopt;
    if (!value->is_boolean()) refuse(name, *value, flags_ ? "a flag without a value" : "true or false");
    return value->get<bool>();
}

std::optional<std::vector<int>> Settings::numbers(std::string_view name, int least) {
    const auto* value = find(name);
    if (!value) return std::nullopt;
    auto all = std::vector<int>{};
    for (const auto& one : value->is_array() ? *value : Json::array({*value})) {
        const auto is_flag = one.is_boolean() && least == 0;
        if (!is_flag && (!one.is_number_integer() || one < least || one > Mesh::max_size))
            refuse(name, *value, cat("a list of whole numbers of ", least, " or more"));
        all.push_back(is_flag ? int{one == true} : one.get<int>());
    }
    return all;
}

std::optional<std::vector<std::string>> Settings::words(std::string_view name) {
    const auto* value = find(name);
    if (!value) return std::nullopt;
    const auto list = value->is_array() ? *value : Json::array({*value});
    for (const auto& one : list)
        if (!one.is_string()) refuse(name, *value, "a list of names");
    return list.get<std::vector<std::string>>();
}

std::optional<Settings> Settings::table(std::string_view name) {
    const auto* value = find(name);
    if (!value) return std::nullopt;
    if (!value->is_object()) refuse(name, *value, "a table of settings");
    auto inner = Settings(framework_, *value, {});
    inner.whole_ = whole_;
    return inner;
}

void Settings::enter(std::string_view name) {
    section_ = name;
    const auto* value = find(name);
    if (!value) return;
    if (!value->is_object()) refuse(name, *value, "a table of settings");
    auto inner = Json(*value);
    outside_ = std::move(values_);
    auto* table = &outside_;
    for (auto rest = name;;) {
        const auto dot = rest.find('.');
        const auto same = std::ranges::find_if(
            table->items(), [&](const auto& each) { return plain_name(each.first) == rest.substr(0, dot); });
        const auto key = std::string(same->first);
        if (dot == std::string_view::npos) {
            table->erase(key);
            break;
        }
        table = &(*table)[key];
        rest.remove_prefix(dot + 1);
    }
    values_ = std::move(inner);
    outer_known_ = std::move(known_);
    known_.clear();
}

void Settings::enter_first_of(std::string_view places) {
    for (const auto place : words_of(places))
        if (const auto* table = value_in(values_, place); table && table->is_object()) return enter(place);
}

void Settings::start_on(std::string_view counts) {
    auto product = std::int64_t{1};
    for (const auto name : words_of(counts.substr(0, counts.find('|')))) {
        const auto count = number(name);
        product *= count && *count > 0 && product <= Mesh::max_size ? *count : 0;
    }
    if (!counts.empty() && !launched_ && product > 0 && product <= Mesh::max_size)
        launched_ = static_cast<int>(product);
    if (const auto next = counts.find('|'); next != counts.npos) start_on(counts.substr(next + 1));
}

std::string Settings::list_of_known() const {
    auto list = std::string{};
    auto last = std::string{};  // of names in a table only the table's
    for (const auto& name : known_)
        if (const auto first = name.substr(0, name.find('.')); first != std::exchange(last, first))
            list += (list.empty() ? "" : ", ") + shown(first);
    return list;
}

void Settings::refuse_unknown(std::string_view name, std::string_view near) const {
    throw UsageError(
        cat(framework_, " has no setting ", in_quotes(shown(name)), " that places ranks; ",
            near.empty() ? cat("settings are ", list_of_known()) : cat("did you mean '", shown(near), "'?")));
}

void Settings::refuse_strays(const Json& table, const std::string& path) const {
    for (const auto& [key, value] : table.items()) {
        const auto name = plain_name(key);
        if (known_.contains(name) && name != section_ && name != "world_size" &&
            !(path.empty() && outer_known_.contains(name)))
            throw UsageError(cat(framework_, " reads ", name, " in '", section_, "', not ",
                                 path.empty() ? "outside it" : cat("in ", in_quotes(path)),
                                 "; move it there"));
        if (value.is_object() && !ignored_.contains(name))
            refuse_strays(value, path.empty() ? key : cat(path, ".", key));
    }
}

std::string Settings::brief(std::string error) const {
    const auto shorten = [&](std::string_view given) {
        if (given.size() <= detail::most_quoted) return;
        if (const auto at = error.find(given); at != std::string::npos)
            error.replace(at, given.size(), excerpt(given));
    };
    const auto shorten_all = [&](const auto& self, const Json& value) -> void {
        if (value.is_string()) shorten(value.text());
        if (value.is_object())
            for (const auto& [key, inner] : value.items()) shorten(key);
        if (value.is_object())
            for (const auto& [key, inner] : value.items()) self(self, inner);
        if (value.is_array())
            for (const auto& inner : value) self(self, inner);
    };
    shorten_all(shorten_all, values_);
    return error;
}

bool Settings::is_listed(const std::string& name, const Json& value) {
    const auto kind = class_of_flag(framework_, name);
    const auto is_off = value.is_null() || value == false ||
                        ((value.is_object() || value.is_array()) && value.size() == 0) ||
                        (whole_ && value.is_number() && value <= 1);  // a default, which files list
    if (kind.empty() || (kind == "places" && !is_off)) return false;
    if (kind != "none" && !is_off) others_.push_back({name, kind, value});
    return true;
}

bool Settings::check_known(const Json& table, const std::string& path) {
    auto inside = std::vector<std::string_view>{};  // the known names of this table and below
    for (const auto& name : known_)
        if (name.starts_with(path)) inside.push_back(std::string_view(name).substr(path.size()));
    auto said = false;
    for (const auto& [key, value] : table.items()) {
        const auto name = plain_name(key);
        const auto full = path + name;
        if (ignored_.contains(full)) continue;
        if (known_.contains(full)) {
            said = said || !value.is_null();
            if (value.is_object())  // whose other settings an inner reader has asked for
                for (const auto& [own, each] : value.items())
                    is_listed(cat(full, ".", plain_name(own)), each);
            continue;
        }
        if (value.is_object() &&
            std::ranges::any_of(inside, [&](auto one) { return one.starts_with(name + "."); })) {
            said = check_known(value, full + ".") || said;
            continue;
        }
        const auto kind = class_of_flag(framework_, full);
        if (kind == "none" && value.is_object() && value.size() > 0) {
            check_known(value, full + ".");
            continue;
        }
        if (is_listed(full, value)) continue;
        if (kind == "places")
            throw UsageError(cat(shown(full),
                                 " places ranks, and convert does not read it; leave it out only "
                                 "if the other settings are the whole layout"));
        auto near = std::string_view{};
        if (value.is_number())
            for (const auto one : inside)
                if (near.empty() && meaning_of(one) == meaning_of(name)) near = one;
        if (near.empty()) near = nearest(name, inside);
        if (are_of_two_axes(name, near) || meaning_of(name).empty() ||
            (flags_ && !is_parallel_size(near) && edit_distance(name, near) > 1) ||
            (whole_ && !value.is_number() && !value.is_boolean()))
            near = {};
        const auto is_size = value.is_number() && value != 1 && is_parallel_size(name);
        const auto may_be_of_others = whole_ || flags_ || (dotted_ && value.is_object()) || !path.empty();
        if (!near.empty() || is_size || !may_be_of_others || beside_.contains(full))
            refuse_unknown(full, near.empty() ? std::string() : path + std::string(near));
        if (flags_ && path.empty() && !value.is_object() && has_all_flags(framework_))
            others_.push_back({full, {}, value});
    }
    return said;
}

void Settings::finish() {
    others_.clear();
    if (jobs_ != 1) others_.push_back({"replicas", "lost", jobs_});
    const auto entered = !outside_.is_null();
    const auto said = check_known(values_, {}) || entered;
    for (const auto& name : beside_)
        if (entered && !known_.contains(name) && !outer_known_.contains(name)) refuse_unknown(name, {});
    // The framework's settings that are in another table.
    if (entered)
        refuse_strays(outside_, {});
    else if (!section_.empty())
        for (const auto& [key, value] : values_.items())
            if (value.is_object()) refuse_strays(value, key);
    const auto is_unread = [](const Other& other) { return other.kind.empty(); };
    const auto is_default = has_defaults_ && std::ranges::none_of(others_, is_unread);
    if (!said && !is_default && !source_.empty() && framework_ != "rankmesh")
        throw UsageError(cat(source_, " give nothing that ", framework_, " has a setting for; it reads ",
                             list_of_known()));
}

}  // namespace rankmesh::conversion
