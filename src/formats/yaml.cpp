// SPDX-License-Identifier: Apache-2.0
#include "formats/json.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <optional>
#include <sstream>

#include <rankmesh/core/error.hpp>

#include "formats/limits.hpp"

namespace rankmesh::formats {

using detail::cat;

namespace {

constexpr std::string_view words_of_null[] = {"", "~", "null", "Null", "NULL"};
constexpr std::string_view words_of_true[] = {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"};
constexpr std::string_view words_of_false[] = {"false", "False", "FALSE", "no", "No",
                                               "NO",    "off",   "Off",   "OFF"};

template <class Number, class... Base>
std::optional<Number> all_of(std::string_view text, Base... base) {
    auto number = Number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base...);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// A number in decimal, or after `0x`, `0o`, `0b` or a leading `0` in base 16, 8, 2 or 8; `_` may divide
/// digits.
std::optional<Json> number_of(std::string text) {
    std::erase(text, '_');
    const auto negative = text.starts_with('-');
    auto digits = std::string_view(text).substr(negative || text.starts_with('+') ? 1 : 0);
    if (digits.empty() || (digits[0] != '.' && (digits[0] < '0' || digits[0] > '9'))) return std::nullopt;
    auto base = 10;
    for (const auto& [prefix, other] : {std::pair("0x", 16), {"0o", 8}, {"0b", 2}, {"0", 8}})
        if (base == 10 && digits.size() > std::string_view(prefix).size() && digits.starts_with(prefix) &&
            digits.find_first_of(".eE") == std::string_view::npos) {
            digits.remove_prefix(std::string_view(prefix).size());
            base = other;
        }
    if (const auto whole = all_of<std::int64_t>(digits, base)) return negative ? -*whole : *whole;
    if (base != 10) return std::nullopt;
    if (const auto real = all_of<double>(digits)) return negative ? -*real : *real;
    return std::nullopt;
}

Json scalar_of(const YAML::Node& node) {
    const auto& text = node.Scalar();
    if (node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str") return text;  // in quotes
    const auto is_one_of = [&](const auto& words) {
        return std::ranges::find(words, text) != std::end(words);
    };
    if (is_one_of(words_of_null)) return nullptr;
    if (is_one_of(words_of_true)) return true;
    if (is_one_of(words_of_false)) return false;
    return number_of(text).value_or(Json(text));
}

Json json_of(const YAML::Node& node, Limits& limits);

/// Adds what `from` has and `all` lacks.
void merge(Json& all, const Json& from, const Limits& limits) {
    if (from.is_array())
        for (const auto& each : from) merge(all, each, limits);
    else if (!from.is_object())
        throw UsageError(cat(limits.source(), " merge with << what is not a table"));
    else
        for (const auto& [key, value] : from.items())
            if (!all.contains(key)) all.add(key, value);
}

Json table_of(const YAML::Node& node, Limits& limits) {
    auto all = Json::object();
    auto merged = Json::array();
    for (const auto& each : node) {
        if (!each.first.IsScalar())
            throw UsageError(cat(limits.source(), " have a key in line ", each.first.Mark().line + 1,
                                 " that is not a word"));
        const auto& key = each.first.Scalar();
        if (key == "<<")
            merged.push_back(json_of(each.second, limits));
        else if (all.contains(key))
            throw UsageError(cat(limits.source(), " give ", detail::in_quotes(key), " twice; give it once"));
        else
            all.add(key, json_of(each.second, limits));
    }
    for (const auto& each : merged) merge(all, each, limits);
    return all;
}

Json json_of(const YAML::Node& node, Limits& limits) {
    limits.key();
    if (node.IsScalar()) return scalar_of(node);
    if (!node.IsSequence() && !node.IsMap()) return nullptr;
    limits.enter();
    auto all = node.IsMap() ? table_of(node, limits) : Json::array();
    if (node.IsSequence())
        for (const auto& each : node) all.push_back(json_of(each, limits));
    limits.leave();
    return all;
}

/// Passes over a document.
class Passed final : public YAML::EventHandler {
    using Mark = YAML::Mark;
    using Text = std::string;
    using Anchor = YAML::anchor_t;
    using Style = YAML::EmitterStyle::value;
    void OnDocumentStart(const Mark&) override {}
    void OnDocumentEnd() override {}
    void OnNull(const Mark&, Anchor) override {}
    void OnAlias(const Mark&, Anchor) override {}
    void OnScalar(const Mark&, const Text&, Anchor, const Text&) override {}
    void OnSequenceStart(const Mark&, const Text&, Anchor, Style) override {}
    void OnSequenceEnd() override {}
    void OnMapStart(const Mark&, const Text&, Anchor, Style) override {}
    void OnMapEnd() override {}
};

}  // namespace

Json parse_yaml(std::string_view text, std::string_view source) {
    try {
        // LoadAll makes documents without end of a text such as ','.
        auto stream = std::istringstream(std::string(text));
        auto parser = YAML::Parser(stream);
        auto passed = Passed();
        if (parser.HandleNextDocument(passed) && parser.HandleNextDocument(passed))
            throw UsageError(cat(source, " have more than one YAML document; give one of them"));
        auto limits = Limits(source);
        return json_of(YAML::Load(std::string(text)), limits);
    } catch (const YAML::Exception& error) {
        throw UsageError(cat(source, " are not YAML: ", error.msg, " in line ", error.mark.line + 1));
    }
}

}  // namespace rankmesh::formats
