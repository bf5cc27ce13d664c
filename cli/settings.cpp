// SPDX-License-Identifier: Apache-2.0
#include "settings.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include <rankmesh/core/mesh.hpp>

#include "settings_text.hpp"

namespace rankmesh::cli {

using detail::cat;

namespace {

std::vector<std::string> split(const std::string& text) {
    auto stream = std::istringstream(text);
    auto words = std::vector<std::string>{};
    for (auto word = std::string{}; stream >> word;) words.push_back(word);
    return words;
}

/// True for what can only be meant as a file, whether or not it is there.
bool is_path(const std::string& word) {
    return word.find_first_of("={[ \n") == std::string::npos &&
           (word.ends_with(".json") || word.ends_with(".toml") || std::filesystem::is_regular_file(word));
}

std::string content_of(const std::string& path) {
    auto stream = std::ifstream(path);
    if (!stream) throw Misuse(cat("the settings file '", path, "' can not be read"));
    return {std::istreambuf_iterator<char>(stream), {}};
}

/// True for `[table]` lines, or lines of `key = value`; a text of one line is words.
bool looks_like_toml(const std::string& text) {
    const auto first = text.find_first_not_of(" \t\r\n");
    if (first == std::string::npos) return false;
    const auto inner = text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first);
    return inner.front() == '[' || inner.front() == '#' || inner.find('\n') != std::string::npos;
}

/// `a.b=1` as `a` with `b` in it.
Json nested(const Json& flat) {
    auto all = Json::object();
    for (const auto& [key, value] : flat.items()) {
        auto* table = &all;
        auto rest = std::string_view(key);
        for (auto dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
            table = &(*table)[std::string(rest.substr(0, dot))];
            if (!table->is_null() && !table->is_object())
                throw Misuse(cat("the settings give ", rest.substr(0, dot), " a value and, as '", key,
                                 "', a table; give it one"));
            rest.remove_prefix(dot + 1);
        }
        (*table)[std::string(rest)] = value;
    }
    return all;
}

std::string kind_of(const Json& value) {
    return value.is_string() ? cat("'", value.get<std::string>(), "'") : value.dump();
}

}  // namespace

Settings Settings::read(std::string_view framework, const std::vector<std::string>& words) {
    auto text = std::string{};
    for (const auto& word : words) text += (text.empty() ? "" : " ") + word;
    auto settings = Settings(framework, Json::object(), text);
    auto source = std::string("the settings");
    auto toml = false;
    if (words.size() == 1 && (words[0] == "-" || is_path(words[0]))) {
        settings.whole_ = true;
        toml = words[0].ends_with(".toml");
        source = words[0] == "-" ? "the settings on standard input" : cat("the settings in ", words[0]);
        text = words[0] == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {})
                               : content_of(words[0]);
        settings.text_ = text;
    }
    const auto first = text.find_first_not_of(" \t\r\n");
    if (first == std::string::npos && !toml) throw Misuse(cat(source, " are empty"));
    if (!toml && text[first] == '{') {
        settings.values_ = parse_json(text, source);
    } else if (!toml && text.compare(first, 2, "--") == 0) {
        settings.flags_ = true;
        settings.values_ = nested(parse_flags(split(text)));
    } else if (toml || (framework != "rankmesh" && looks_like_toml(text))) {
        settings.values_ = parse_toml(text, source);
    } else if (framework != "rankmesh") {
        settings.values_ = nested(parse_assignments(text));
    }
    return settings;
}

std::string Settings::shown(std::string_view name) const {
    auto text = std::string(name);
    if (!flags_) return text;
    std::ranges::replace(text, '_', '-');
    return "--" + text;
}

const Json* Settings::find(std::string_view name) {
    known_.emplace(name);
    for (const auto& [key, value] : values_.items())
        if (plain_name(key) == name) return value.is_null() ? nullptr : &value;
    return nullptr;
}

void Settings::refuse(std::string_view name, const Json& value, std::string_view wanted) const {
    throw Misuse(cat(shown(name), " is ", kind_of(value), "; it is ", wanted));
}

bool Settings::has(std::string_view name) { return find(name) != nullptr; }

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
        throw Misuse(cat(shown(name), " is ", *value, "; it is ", least, " or more"));
    return value.value_or(otherwise);
}

std::optional<std::string> Settings::word(std::string_view name) {
    const auto* value = find(name);
    if (!value) return std::nullopt;
    if (!value->is_string()) refuse(name, *value, "a text");
    return value->get<std::string>();
}

std::optional<bool> Settings::flag(std::string_view name) {
    const auto* value = find(name);
    if (!value) return std::nullopt;
    if (!value->is_boolean()) refuse(name, *value, flags_ ? "a flag without a value" : "true or false");
    return value->get<bool>();
}

std::optional<std::vector<int>> Settings::numbers(std::string_view name) {
    const auto* value = find(name);
    if (!value) return std::nullopt;
    const auto list = value->is_array() ? *value : Json::array({*value});
    for (const auto& one : list)
        if (!one.is_number_integer() || one < 1 || one > Mesh::max_size)
            refuse(name, *value, "a list of whole numbers of 1 or more");
    return list.get<std::vector<int>>();
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
    const auto* value = find(name);
    if (!value || !value->is_object()) return;
    values_ = Json(*value);
    known_.clear();
}

void Settings::finish() const {
    const auto known = std::vector<std::string>(known_.begin(), known_.end());
    for (const auto& [key, value] : values_.items()) {
        if (known_.contains(plain_name(key))) continue;
        const auto near = nearest(plain_name(key), {known.begin(), known.end()});
        if (near.empty() && whole_) continue;
        auto names = std::string{};
        for (const auto& name : known) names += (names.empty() ? "" : ", ") + shown(name);
        throw Misuse(cat(framework_, " has no setting '", shown(plain_name(key)),
                         "' that says where ranks stand; ",
                         near.empty() ? cat("there are ", names) : cat("did you mean '", shown(near), "'?")));
    }
}

}  // namespace rankmesh::cli
