// SPDX-License-Identifier: Apache-2.0
#include "settings_text.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <set>

#include <rankmesh/core/error.hpp>

namespace rankmesh::cli {

using Json = nlohmann::ordered_json;
using detail::cat;
using detail::excerpt;
using detail::in_quotes;

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
    Python(std::string_view text, Limits& limits) : text_(text), limits_(limits) {}

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
            const auto shown = excerpt(name);
            if (!name.empty() && peek() == '\0')
                throw UsageError(cat("the setting '", shown, "' has no value; write ", shown, "=VALUE"));
            if (name.empty() || peek() != '=')
                throw UsageError(cat("the settings ", in_quotes(text_), " are no list of key=value: ",
                                     in_quotes(name.empty() ? rest() : name), " begins with no key"));
            ++at_;
            skip();
            const auto key = plain_name(name);
            limits_.key();
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
    /// Up to the next blank, and one character at least.
    std::string_view rest() const {
        return text_.substr(at_, std::max(text_.find_first_of(" \t\n\r", at_), at_ + 1) - at_);
    }
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
            throw UsageError(cat("the settings ", in_quotes(text_), " have a ", c, " without its other one"));
        ++at_;
        return std::string(text);
    }
    Json list(char close) {
        auto all = Json::array();
        limits_.enter();
        ++at_;
        for (skip(); peek() != close; skip()) {
            if (at_ >= text_.size())
                throw UsageError(
                    cat("the settings ", in_quotes(text_), " have a list without its '", close, "'"));
            all.push_back(value({}, true));
        }
        ++at_;
        limits_.leave();
        return all;
    }
    /// Up to a blank or comma; `dims=2,4` is a list, where no `key=` follows the comma.
    Json word(std::string_view of, bool alone) {
        auto all = Json::array();
        while (true) {
            const auto text = until(", \t\n\r)]");
            if (text.empty())
                throw UsageError(
                    cat("the settings ", in_quotes(text_), " have no value at ", in_quotes(rest())));
            if (text.find('=') != std::string_view::npos && !of.empty())
                throw UsageError(cat("the setting '", of, "' has no value before ", in_quotes(text),
                                     "; write ", of, "=VALUE"));
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
    Limits& limits_;
    std::size_t at_ = 0;
};

/// Reads JSON without keeping it: throws UsageError for what is none, and for more than is read.
class JsonCheck : public nlohmann::json_sax<Json> {
public:
    explicit JsonCheck(std::string_view source) : source_(source), limits_(source) {}

    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(Json::number_integer_t) override { return true; }
    bool number_unsigned(Json::number_unsigned_t) override { return true; }
    bool number_float(Json::number_float_t, const std::string&) override { return true; }
    bool string(std::string&) override { return true; }
    bool binary(Json::binary_t&) override { return true; }
    bool start_object(std::size_t) override {
        limits_.enter();
        keys_.emplace_back();
        return true;
    }
    bool key(std::string& name) override {
        limits_.key();
        if (!keys_.back().insert(name).second)
            throw UsageError(cat(source_, " say ", excerpt(name), " twice in one table; say it once"));
        return true;
    }
    bool end_object() override {
        limits_.leave();
        keys_.pop_back();
        return true;
    }
    bool start_array(std::size_t) override {
        limits_.enter();
        return true;
    }
    bool end_array() override {
        limits_.leave();
        return true;
    }
    bool parse_error(std::size_t at, const std::string& word, const Json::exception& error) override {
        if (dynamic_cast<const Json::out_of_range*>(&error))
            throw UsageError(cat(source_, " hold the number ", excerpt(word), ", which ends at character ",
                                 at, "; numbers are below 1.8e308"));
        throw UsageError(cat(source_, " are no JSON: something is wrong at character ", at));
    }

private:
    std::string source_;
    Limits limits_;
    std::vector<std::set<std::string>> keys_;  // of the open tables
};

/// Throws UsageError where tables and lists are inside one another more than is read, or a key has too many
/// dots: the parser would go as deep.
void check_nesting(std::string_view text, Limits& limits) {
    auto dots = std::vector<int>{0};  // of the key that is read, in each open bracket
    const auto end_key = [&] {
        limits.leave(dots.back());
        dots.back() = 0;
    };
    for (std::size_t at = 0; at < text.size(); ++at) {
        const auto c = text[at];
        if (c == '#') {
            at = std::min(text.find('\n', at), text.size()) - 1;
        } else if (c == '"' || c == '\'') {
            const auto is_long = text.substr(at, 3) == std::string(3, c);
            const auto end = std::string(is_long ? 3 : 1, c);
            for (at += end.size(); at < text.size() && text.substr(at, end.size()) != end; ++at) {
                if (c == '"' && text[at] == '\\')
                    ++at;
                else if (!is_long && text[at] == '\n')
                    break;
            }
            at += end.size() - 1;
            // A long string may end in two more of its quotes.
            for (auto more = 0; is_long && more < 2 && at + 1 < text.size() && text[at + 1] == c; ++more)
                ++at;
        } else if (c == '.') {
            limits.enter();
            ++dots.back();
        } else if (c == '[' || c == '{') {
            limits.enter();
            dots.push_back(0);
        } else if ((c == ']' || c == '}') && dots.size() > 1) {
            end_key();
            dots.pop_back();
            limits.leave();
        } else if (c == ',' || c == '\n') {
            end_key();
        }
    }
}

Json json_of(const toml::node& node, Limits& limits) {
    if (const auto* table = node.as_table()) {
        auto all = Json::object();
        limits.enter();
        for (const auto& [key, value] : *table) {
            limits.key();
            all[std::string(key.str())] = json_of(value, limits);
        }
        limits.leave();
        return all;
    }
    if (const auto* list = node.as_array()) {
        auto all = Json::array();
        limits.enter();
        for (const auto& value : *list) all.push_back(json_of(value, limits));
        limits.leave();
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

std::string plain_name(std::string_view name) {
    while (name.starts_with('-')) name.remove_prefix(1);
    while (name.ends_with('_')) name.remove_suffix(1);
    auto plain = std::string(name);
    for (auto& c : plain)
        if (c == '-') c = '_';
    return plain;
}

Json parse_flags(const std::vector<std::string>& words, Limits& limits) {
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
            throw UsageError(
                cat(in_quotes(word), " is no flag that is read; flags have two dashes: -", excerpt(word)));
        if (word.starts_with("--")) {
            const auto equals = word.find('=');
            name = plain_name(word.substr(0, equals));
            limits.key();
            if (all.contains(name))
                throw UsageError(
                    cat("the settings say ", excerpt(word.substr(0, equals)), " twice; say it once"));
            all[name] = true;
            if (equals != std::string::npos) add(std::string_view(word).substr(equals + 1));
        } else if (name.empty()) {
            throw UsageError(cat("the settings begin with ", in_quotes(word), ", which belongs to no flag"));
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

Call parse_assignments(std::string_view text, Limits& limits) {
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
    call.values = Python(inside, limits).assignments(parameters);
    return call;
}

Json parse_json(const std::string& text, std::string_view source) {
    auto check = JsonCheck(source);
    Json::sax_parse(text, &check, Json::input_format_t::json, true, true);
    auto value = Json::parse(text, nullptr, true, true);
    if (!value.is_object()) throw UsageError(cat(source, " hold JSON that is no object: {\"key\": value}"));
    return value;
}

Json parse_toml(const std::string& text, std::string_view source) {
    auto limits = Limits(source);
    check_nesting(text, limits);
    try {
        auto read = Limits(source);
        return json_of(toml::parse(text), read);
    } catch (const toml::parse_error& error) {
        const auto number = error.source().begin.line;
        auto line = std::string_view(text);
        for (auto before = number; before > 1; --before)
            line.remove_prefix(std::min(line.find('\n'), line.size() - 1) + 1);
        const auto is_twice = error.description().find("redefine") != std::string_view::npos;
        throw UsageError(cat(source,
                             " are no TOML: ", is_twice ? "a key is given twice" : "something is wrong",
                             " in line ", number, ", ", in_quotes(trimmed(line.substr(0, line.find('\n'))))));
    }
}

}  // namespace rankmesh::cli
