// SPDX-License-Identifier: Apache-2.0
#include "settings_text.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

#include <rankmesh/core/error.hpp>

namespace rankmesh::cli {

using Json = nlohmann::ordered_json;
using detail::cat;

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// A bare value: a number, one of Python's or JSON's words, else a text.
Json bare(std::string_view word) {
    auto number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error == std::errc{} && end == word.data() + word.size()) return number;
    if (word == "True" || word == "true") return true;
    if (word == "False" || word == "false") return false;
    if (word == "None" || word == "null") return nullptr;
    return std::string(word);
}

/// Reads values as Python writes them.
class Python {
public:
    explicit Python(std::string_view text) : text_(text) {}

    /// The first arguments may come without a name; their names are these.
    Json assignments(const std::vector<std::string_view>& parameters) {
        auto all = Json::object();
        auto next = parameters.begin();
        skip();
        while (at_ < text_.size()) {
            if (next != parameters.end() &&
                all.size() == static_cast<std::size_t>(next - parameters.begin()) && !is_named()) {
                all[std::string(*next++)] = value({}, true);
                skip();
                continue;
            }
            const auto name = std::string(trimmed(until("=,()[]")));
            const auto shown = clipped(name);
            if (!name.empty() && peek() == '\0')
                throw UsageError(cat("the setting '", shown, "' has no value; write ", shown, "=VALUE"));
            if (name.empty() || peek() != '=')
                throw UsageError(cat("the settings '", clipped(text_), "' are no list of key=value: '",
                                     clipped(name.empty() ? rest() : name), "' begins with no key"));
            ++at_;
            skip();
            const auto key = plain_name(name);
            if (all.contains(key)) throw UsageError(cat("the settings say ", shown, " twice; say it once"));
            if (peek() == '\0')
                throw UsageError(cat("the setting '", shown, "' has no value; write ", shown, "=VALUE"));
            all[key] = value(shown);
            skip();
        }
        return all;
    }

private:
    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    std::string_view rest() const { return text_.substr(at_, 20); }
    void skip() {
        while (is_blank(peek()) || peek() == ',') ++at_;
    }
    std::string_view until(std::string_view ends) {
        const auto begin = at_;
        while (at_ < text_.size() && ends.find(text_[at_]) == std::string_view::npos) ++at_;
        return text_.substr(begin, at_ - begin);
    }
    /// True where `name =` comes next.
    bool is_named() const {
        const auto end = text_.find_first_of("=,()[]\"'", at_);
        return end != std::string_view::npos && text_[end] == '=';
    }
    /// The value of a setting; `alone`: one value, behind which a comma ends it.
    Json value(std::string_view of, bool alone = false) {
        const auto c = peek();
        if (c == '[' || c == '(') return list(c == '[' ? ']' : ')');
        if (c != '"' && c != '\'') return word(of, alone);
        ++at_;
        const auto text = until(std::string_view(&c, 1));
        if (peek() != c)
            throw UsageError(cat("the settings '", clipped(text_), "' have a ", c, " without its other one"));
        ++at_;
        return std::string(text);
    }
    Json list(char close) {
        auto all = Json::array();
        ++at_;
        for (skip(); peek() != close; skip()) {
            if (at_ >= text_.size())
                throw UsageError(
                    cat("the settings '", clipped(text_), "' have a list without its '", close, "'"));
            all.push_back(value({}, true));
        }
        ++at_;
        return all;
    }
    /// Up to a blank or comma; `dims=2,4` is a list, where no `key=` follows the comma.
    Json word(std::string_view of, bool alone) {
        auto all = Json::array();
        while (true) {
            const auto text = until(", \t\n\r)]");
            if (text.empty())
                throw UsageError(
                    cat("the settings '", clipped(text_), "' have no value at '", clipped(rest()), "'"));
            if (text.find('=') != std::string_view::npos && !of.empty())
                throw UsageError(cat("the setting '", of, "' has no value before '", clipped(text),
                                     "'; write ", of, "=VALUE"));
            all.push_back(bare(text));
            if (alone || peek() != ',') break;
            const auto next = text_.substr(at_ + 1, text_.find_first_of(",= \t\n\r", at_ + 1) - at_ - 1);
            const auto end = at_ + 1 + next.size();
            if (next.empty() || (end < text_.size() && text_[end] == '=')) break;
            ++at_;
        }
        return all.size() == 1 ? all[0] : all;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

Json json_of(const toml::node& node) {
    if (const auto* table = node.as_table()) {
        auto all = Json::object();
        for (const auto& [key, value] : *table) all[std::string(key.str())] = json_of(value);
        return all;
    }
    if (const auto* list = node.as_array()) {
        auto all = Json::array();
        for (const auto& value : *list) all.push_back(json_of(value));
        return all;
    }
    if (const auto* number = node.as_integer()) return number->get();
    if (const auto* truth = node.as_boolean()) return truth->get();
    if (const auto* real = node.as_floating_point()) return real->get();
    if (const auto* text = node.as_string()) return text->get();
    return nullptr;  // a date
}

}  // namespace

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    return text;
}

std::string clipped(std::string_view text) {
    auto end = text.size();
    if (end > most_echoed) {
        end = most_echoed - 4;
        // Not within a character of several bytes.
        while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
    }
    auto line = std::string(text.substr(0, end));
    std::ranges::replace_if(line, is_blank, ' ');
    return end < text.size() ? line + " ..." : line;
}

std::string plain_name(std::string_view name) {
    while (name.starts_with('-')) name.remove_prefix(1);
    while (name.ends_with('_')) name.remove_suffix(1);
    auto plain = std::string(name);
    for (auto& c : plain)
        if (c == '-') c = '_';
    return plain;
}

Json parse_flags(const std::vector<std::string>& words) {
    auto all = Json::object();
    auto name = std::string{};
    const auto add = [&](std::string_view value) {
        auto& known = all[name];
        if (known == true)
            known = bare(value);
        else if (known.is_array())
            known.push_back(bare(value));
        else
            known = Json::array({known, bare(value)});
    };
    for (const auto& word : words) {
        if (word.size() > 1 && word[0] == '-' && std::isalpha(static_cast<unsigned char>(word[1])) != 0)
            throw UsageError(cat("'", clipped(word), "' is no flag that is read; flags have two dashes: -",
                                 clipped(word)));
        if (word.starts_with("--")) {
            const auto equals = word.find('=');
            name = plain_name(word.substr(0, equals));
            if (all.contains(name))
                throw UsageError(
                    cat("the settings say ", clipped(word.substr(0, equals)), " twice; say it once"));
            all[name] = true;
            if (equals != std::string::npos) add(std::string_view(word).substr(equals + 1));
        } else if (name.empty()) {
            throw UsageError(cat("the settings begin with '", clipped(word), "', which belongs to no flag"));
        } else {
            add(word);
        }
    }
    return all;
}

bool is_call(std::string_view text) {
    const auto open = text.find('(');
    if (open == std::string_view::npos || open == 0 || !text.ends_with(')')) return false;
    auto before = trimmed(text.substr(0, open));
    if (const auto equals = before.find('='); equals != std::string_view::npos)
        before = trimmed(before.substr(equals + 1));
    return !before.empty() && std::ranges::all_of(before, [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == '.';
    });
}

Call parse_assignments(std::string_view text) {
    using Names = std::vector<std::string_view>;
    static const auto functions = std::map<std::string_view, Names>{
        {"init_device_mesh", {"device_type", "mesh_shape"}},
        {"ProcessTopology", {"axes", "dims"}},
        {"PipeDataParallelTopology", {"num_pp", "num_dp"}},
        {"PipeModelDataParallelTopology", {"num_pp", "num_mp", "num_dp"}},
        {"PipeDataTensorParallelTopology", {"num_pp", "num_tp", "num_dp"}},
        {"DataPipeTensorParallelTopology", {"num_pp", "num_tp", "num_dp"}},
        {"initialize_model_parallel", {"tensor_model_parallel_size", "pipeline_model_parallel_size"}},
        {"setup_process_group_manager", {"tp_size", "cp_size", "pp_size", "dp_size"}},
        {"ProcessGroupManager", {"tp_size", "cp_size", "pp_size", "dp_size"}}};
    auto call = Call{};
    auto inside = trimmed(text);
    auto parameters = Names{};
    if (is_call(inside)) {
        const auto open = inside.find('(');
        auto name = trimmed(inside.substr(0, open));
        name.remove_prefix(name.find_last_of("=. ") + 1);
        call.name = name;
        if (const auto known = functions.find(name); known != functions.end()) parameters = known->second;
        inside = inside.substr(open + 1, inside.size() - open - 2);
    }
    call.values = Python(inside).assignments(parameters);
    return call;
}

Json parse_json(const std::string& text, std::string_view source) {
    try {
        auto value = Json::parse(text, nullptr, true, true);
        if (!value.is_object())
            throw UsageError(cat(source, " hold JSON that is no object: {\"key\": value}"));
        return value;
    } catch (const Json::parse_error& error) {
        throw UsageError(cat(source, " are no JSON: something is wrong at character ", error.byte));
    }
}

Json parse_toml(const std::string& text, std::string_view source) {
    try {
        return json_of(toml::parse(text));
    } catch (const toml::parse_error& error) {
        throw UsageError(
            cat(source, " are no TOML: line ", error.source().begin.line, ": ", error.description()));
    }
}

}  // namespace rankmesh::cli
