// SPDX-License-Identifier: Apache-2.0
// Some texts violate toml++'s assumptions. This file makes such an assumption an error, or in its character
// tables a negative answer.
namespace rankmesh::formats {
struct BrokenAssumption {};
[[noreturn]] inline void break_assumption() { throw BrokenAssumption{}; }
}  // namespace rankmesh::formats
#define TOML_ASSERT(holds) ((holds) ? void() : ::rankmesh::formats::break_assumption())
#include <toml++/impl/forward_declarations.h>
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT_ASSUME(holds) TOML_ASSERT(holds)
#pragma push_macro("TOML_UNREACHABLE")
#undef TOML_UNREACHABLE
#define TOML_UNREACHABLE return false
#include <toml++/impl/unicode.h>
#pragma pop_macro("TOML_UNREACHABLE")

#include <toml++/toml.h>

#include <algorithm>

#include <rankmesh/core/error.hpp>

#include "formats/json.hpp"
#include "formats/limits.hpp"
#include "formats/text.hpp"

namespace rankmesh::formats {

using detail::cat;
using detail::in_quotes;

namespace {

/// Throws UsageError if tables and lists are nested too deeply, or a key has too many dots, because the
/// parser recurses as deep.
void check_nesting(std::string_view text, Limits& limits) {
    auto dots = std::vector<int>{0};  // dots of the current key, for each open bracket
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
            all.add(std::string(key.str()), json_of(value, limits));
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

Json parse_toml(std::string_view text, std::string_view source) {
    auto limits = Limits(source);
    check_nesting(text, limits);
    try {
        auto read = Limits(source);
        return json_of(toml::parse(text), read);
    } catch (const BrokenAssumption&) {
        throw UsageError(cat(source, " are no TOML: something is wrong in a key or a value"));
    } catch (const toml::parse_error& error) {
        const auto number = error.source().begin.line;
        auto line = text;
        for (auto before = number; before > 1; --before)
            line.remove_prefix(std::min(line.find('\n'), line.size() - 1) + 1);
        const auto is_twice = error.description().find("redefine") != std::string_view::npos;
        throw UsageError(cat(source,
                             " are no TOML: ", is_twice ? "a key is given twice" : "something is wrong",
                             " in line ", number, ", ", in_quotes(trimmed(line.substr(0, line.find('\n'))))));
    }
}

}  // namespace rankmesh::formats
