// SPDX-License-Identifier: Apache-2.0
// What decides a branch of a script: tests of variables that the script sets.
#include <fnmatch.h>

#include <algorithm>
#include <map>

#include "convert/shell_words.hpp"

namespace rankmesh::conversion {

static Truth is_not_zero(std::optional<long long> number) {
    return number ? Truth(*number != 0) : std::nullopt;
}

Truth ShellVariables::truth(const Words& command) const {
    static const auto signs = std::map<std::string_view, std::string_view>{
        {"&&", "&&"},  {"-a", "&&"},  {"||", "||"}, {"-o", "||"},  {"!", "!"},   {"(", "("},   {")", ")"},
        {"-eq", "=="}, {"-ne", "!="}, {"-lt", "<"}, {"-le", "<="}, {"-gt", ">"}, {"-ge", ">="}};
    if (const auto& first = command.front(); first.starts_with("((")) return is_not_zero(arithmetic(first));
    auto text = std::string{};  // the same as arithmetic, with ? for what is unknown
    const auto end = command.end() - (command.back().starts_with(']') ? 1 : 0);
    for (auto word = command.begin() + 1; word < end;) {
        const auto sign = end - word > 2 ? word[1] : std::string();
        const auto is_text = sign == "=" || sign == "==" || sign == "!=";
        const auto is_binary =
            is_text || sign.find_first_of("=<>") == 0 || (sign.size() == 3 && sign[0] == '-');
        const auto is_unary = !is_binary && word->size() == 2 && (*word)[0] == '-' && end - word > 1;
        if (signs.contains(*word)) {
            text += signs.at(*word++);
            continue;
        }
        const auto known = certain(word[is_unary ? 1 : 0]);
        const auto other = is_binary ? certain(word[2]) : std::nullopt;
        auto is_true = Truth();
        if (is_text && command.front() == "[[")
            is_true = matches(known, word[2]);
        else if (is_text && known && other)
            is_true = known == other;
        else if (signs.contains(sign) && known && other)
            is_true = is_not_zero(arithmetic(cat("(", *known, ")", signs.at(sign), "(", *other, ")")));
        else if (!is_binary && known && (!is_unary || *word == "-n" || *word == "-z"))
            is_true = known->empty() == (*word == "-z");
        if (sign == "!=") is_true = negated(is_true);
        word += is_binary ? 3 : is_unary ? 2 : 1;
        text += is_true ? *is_true ? " 1" : " 0" : " ?";
    }
    return is_not_zero(arithmetic(text));
}

Truth ShellVariables::matches(const std::optional<std::string>& text, std::string_view pattern) const {
    constexpr auto most_stars = 4;  // each may take any part of the text
    const auto known = certain(pattern);
    if (!text || !known || std::ranges::count(*known, '*') > most_stars) return std::nullopt;
    return fnmatch(known->c_str(), text->c_str(), 0) == 0;
}

}  // namespace rankmesh::conversion
