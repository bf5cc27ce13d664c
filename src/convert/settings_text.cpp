// SPDX-License-Identifier: Apache-2.0
#include "convert/settings.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>

#include "formats/text.hpp"

namespace rankmesh::conversion {

using formats::trimmed;

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// A bare value: a number, one of Python's or JSON's words, else a text.
Json bare(std::string_view word) {
    if (const auto number = detail::number_in(word)) return *number;
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
                throw UsageError(cat("the settings ", in_quotes(text_), " are not a list of key=value: ",
                                     in_quotes(name.empty() ? rest() : name), " does not begin with a key"));
            ++at_;
            skip();
            const auto key =
                plain_name(name.substr(std::min(name.find_first_not_of('+'), name.size())));  // Hydra's +a=1
            limits_.key();
            if (all.contains(key)) throw UsageError(cat("the settings give ", shown, " twice; give it once"));
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
            throw UsageError(
                cat("the settings ", in_quotes(text_), " have a ", c, " without its closing one"));
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
        return all.size() == 1 ? *all.begin() : all;
    }

    std::string_view text_;
    Limits& limits_;
    std::size_t at_ = 0;
};

}  // namespace

std::string plain_name(std::string_view name) {
    while (name.starts_with('-')) name.remove_prefix(1);
    while (name.ends_with('_')) name.remove_suffix(1);
    auto plain = std::string(name);
    for (auto& c : plain)
        if (c == '-') c = '_';
    return plain;
}

Json parse_overrides(const std::vector<std::string>& words, Limits& limits) {
    auto all = Json::object();
    for (const auto& word : words) {
        const auto equals = word.find('=');
        const auto begin = std::min(word.find_first_not_of('+'), equals);
        const auto text = std::string_view(word).substr(equals + 1);
        limits.key();
        auto& value = all[plain_name(word.substr(begin, equals - begin))];  // the last of equal names wins
        try {
            const auto is_quoted = !text.empty() && (text.front() == '"' || text.front() == '\'');
            auto own = Limits("the settings");
            value = text.find_first_of("[(,") == text.npos && !is_quoted
                        ? bare(text)
                        : Python(cat("value=", text), own).assignments({})["value"];
        } catch (const UsageError&) {
            value = std::string(text);
        }
    }
    return all;
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
        const auto is_short =
            word.size() > 1 && word[0] == '-' && std::isalpha(static_cast<unsigned char>(word[1])) != 0;
        if (is_short && word.substr(0, word.find_first_of(".=")).size() > 4)  // vLLM's longest are like -pcp
            throw UsageError(
                cat(in_quotes(word), " is no short flag; long flags have two dashes: -", excerpt(word)));
        if (is_short || word.starts_with("--")) {
            const auto equals = word.find('=');
            name = plain_name(word.substr(0, equals));
            limits.key();
            all.erase(name);  // of a repeated flag the last wins, as in argparse
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

}  // namespace rankmesh::conversion
