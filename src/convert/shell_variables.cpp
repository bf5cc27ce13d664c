// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <utility>

#include <rankmesh/core/detail/number.hpp>

#include "convert/shell_words.hpp"
#include "formats/limits.hpp"
#include "formats/text.hpp"
#include "frameworks/names.hpp"

namespace rankmesh::conversion {

using frameworks::joined;

namespace {

struct UnknownFlags : UsageError {
    explicit UnknownFlags(const UsageError& error) : UsageError(error) {}
};

bool is_name(std::string_view text) {
    return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
           std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

/// Whole numbers with the signs of C and brackets; nothing for other text.
class Arithmetic {
public:
    explicit Arithmetic(std::string_view text) : text_(text) {}

    std::optional<long long> value() {
        const auto value = chain(0);
        return value && next() == '\0' ? value : std::nullopt;
    }

private:
    static constexpr auto most = 1'000'000'000'000LL;
    using Number = std::optional<long long>;
    using Signs = std::vector<std::string_view>;

    char next() {
        at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    /// Operands with these signs between them, from left to right.
    Number chain(std::size_t level) {
        static const auto levels =
            std::array{Signs{"||"}, Signs{"&&"}, Signs{"==", "!=", "<=", ">=", "<", ">"}, Signs{"+", "-"},
                       Signs{"*", "/", "%"}};
        if (level == levels.size()) return factor();
        auto value = chain(level + 1);
        while (value && next() != '\0') {
            const auto sign = std::ranges::find_if(
                levels[level], [&](auto each) { return text_.substr(at_).starts_with(each); });
            if (sign == levels[level].end()) break;
            at_ += sign->size();
            const auto other = chain(level + 1);
            value = other ? applied(*value, *sign, *other) : std::nullopt;
        }
        return value;
    }
    static Number applied(long long a, std::string_view sign, long long b) {
        const auto is_large = std::abs(a) >= 1'000'000 || std::abs(b) >= 1'000'000;
        if ((sign == "*" && is_large) || ((sign == "/" || sign == "%") && b == 0)) return std::nullopt;
        const auto value = sign == "+"    ? a + b
                           : sign == "-"  ? a - b
                           : sign == "*"  ? a * b
                           : sign == "/"  ? a / b
                           : sign == "%"  ? a % b
                           : sign == "||" ? a != 0 || b != 0
                           : sign == "&&" ? a != 0 && b != 0
                           : sign == "==" ? a == b
                           : sign == "!=" ? a != b
                           : sign == "<=" ? a <= b
                           : sign == ">=" ? a >= b
                           : sign == "<"  ? a < b
                                          : a > b;
        return std::abs(value) > most ? std::nullopt : Number(value);
    }
    Number factor() {
        if (const auto sign = next(); sign == '-' || sign == '(' || sign == '!') {
            if (++depth_ > 50) return std::nullopt;
            ++at_;
            const auto value = sign == '(' ? chain(0) : factor();
            if (sign == '(' && next() != ')') return std::nullopt;
            if (sign == '(') ++at_;
            --depth_;
            return !value || sign == '(' ? value : sign == '-' ? -*value : *value == 0;
        }
        const auto end = std::min(text_.find_first_not_of("0123456789", at_), text_.size());
        const auto digits = text_.substr(at_, end - at_);
        at_ = end;
        const auto number = detail::number_in(digits);
        return number ? Number(*number) : std::nullopt;
    }

    std::string_view text_;
    std::size_t at_ = 0;
    int depth_ = 0;
};

}  // namespace

UsageError unknown_flags(std::string_view written, std::string_view source) {
    return UsageError(cat(source, " pass ", detail::in_quotes(written),
                          ", whose value they do not give; write the flags that it stands for"));
}

bool is_value_of(const std::vector<std::string>& before, std::string_view written) {
    if (before.empty() || !before.back().starts_with("--") || before.back().find('=') != std::string::npos)
        return false;
    const auto name = formats::lower(written);
    auto flag = before.back().substr(2);
    std::ranges::replace(flag, '-', '_');
    if (name.find(flag) != name.npos) return true;  // --extra-vocab-size $EXTRA_VOCAB_SIZE
    return std::ranges::none_of(std::array{"args", "flags", "opts", "extra", "options", "params"},
                                [&](const char* word) { return name.find(word) != name.npos; });
}

/// Expands one written word.
class ShellVariables::Expansion {
public:
    Expansion(const ShellVariables& variables, std::string_view word, bool is_value, std::string_view source)
        : variables_(variables), word_(word), is_value_(is_value), source_(source) {}

    Words words(bool quoted = false) {
        read(word_, quoted);
        end_field();
        return std::move(words_);
    }
    bool is_certain() const { return is_certain_; }

private:
    void read(std::string_view text, bool quoted) {
        for (std::size_t at = 0; at < text.size();) {
            const auto c = text[at];
            const auto end = end_of_part(text, at);
            const auto inside = text.substr(at + 1, end > at + 1 ? end - at - 2 : 0);
            if (c == '\\') {
                const auto escaped = text.substr(at + 1, end - at - 1);
                const auto is_kept =
                    quoted && std::string_view("$`\"\\\n").find(escaped) == std::string_view::npos;
                add(is_kept ? text.substr(at, 2) : escaped == "\n" ? std::string_view{} : escaped);
            } else if (c == '\'' && !quoted) {
                add(inside);
                begun_ = true;
            } else if (c == '"' && !quoted) {
                read(inside, true);
                begun_ =
                    begun_ || (inside != "$@" && inside.find("[@]}") == inside.npos);  // which may be no word
            } else if (c == '`') {
                unknown(text.substr(at, end - at), quoted);
            } else if (c == '$') {
                at = variable(text, at, quoted);
                continue;
            } else {  // a bracket, or a quote inside of quotes, begins nothing
                add(text.substr(at++, 1));
                continue;
            }
            at = end;
        }
    }

    /// Adds what `$...` stands for, and returns the place behind it.
    std::size_t variable(std::string_view text, std::size_t at, bool quoted) {
        if (text.substr(at, 3) == "$((") {
            const auto end = end_of_part(text, at);
            const auto whole = text.substr(at, end - at);
            const auto value = whole.ends_with("))")
                                   ? variables_.arithmetic(whole.substr(3, whole.size() - 5))
                                   : std::nullopt;
            if (value)
                add(std::to_string(*value));
            else
                unknown(whole, quoted);
            return end;
        }
        if (text.substr(at, 2) == "${") {
            const auto end = end_of_part(text, at);
            const auto whole = text.substr(at, end - at);
            braces(whole, whole.substr(2, whole.size() - std::min<std::size_t>(3, whole.size())), quoted);
            return end;
        }
        auto end = at + 1;
        while (end < text.size() && is_name(text.substr(at + 1, end - at))) ++end;
        if (end == at + 1) {
            if (end == text.size() || std::string_view("0123456789@*#?$!-(").find(text[end]) == text.npos) {
                add("$");
                return end;
            }
            end = text[end] == '(' ? end_of_part(text, at) : end + 1;
            if (const auto folder = folder_of_script(text.substr(at, end - at)); !folder.empty()) {
                add(folder);
                return end;
            }
            // What the script itself is given follows as further words.
            const auto whole = text.substr(at, end - at);
            const auto given = variables_.given();
            const auto number = detail::number_in(whole.substr(1));
            if (whole == "$@" || whole == "$*")
                put(given.value_or(Words{}), quoted, whole == "$@");
            else if (given && whole == "$#")
                add(std::to_string(given->size()));
            else if (given && number && *number > 0)
                put(*number <= std::ssize(*given) ? Words{(*given)[static_cast<std::size_t>(*number) - 1]}
                                                  : Words{},
                    quoted, false);
            else
                unknown(whole, quoted);
            return end;
        }
        braces(text.substr(at, end - at), text.substr(at + 1, end - at - 1), quoted);
        return end;
    }

    /// The folder of the script, from itself: `./..` for `$(cd "$(dirname "$0")/.." && pwd)`; "" for others.
    static std::string folder_of_script(std::string_view command) {
        const auto at = command.find("dirname ");
        if (at == command.npos || command.find_first_of("0B", at) == command.npos)
            return {};  // $0, BASH_SOURCE
        const auto behind = command.substr(end_of_part(command, command.rfind("$(", at)));
        return cat(".", behind.substr(0, behind.find_first_of("\" )")));
    }

    /// `${NAME}`, `${NAME[@]}`, `${NAME:-otherwise}`.
    void braces(std::string_view whole, std::string_view inside, bool quoted) {
        auto end = std::min(inside.find_first_not_of("0123456789"), inside.size());  // ${1}
        if (end == 0)
            while (end < inside.size() && is_name(inside.substr(0, end + 1))) ++end;
        const auto name = inside.substr(0, end);
        const auto* value = variables_.value(name);
        auto behind = inside.substr(end);
        const auto is_all = behind.starts_with("[@]") || behind.starts_with("[*]");
        if (is_all) behind.remove_prefix(3);
        if (end == 0) {
            if (inside == "@" || inside == "*")
                variable(cat("$", inside), 0, quoted);
            else
                unknown(whole, quoted);
        } else if (behind.empty()) {
            if (value)
                put(is_all ? *value : value->empty() ? Words{} : Words{value->front()}, quoted, is_all);
            else if (!is_all || variables_.is_set(name))  // the environment has no arrays
                unknown(whole, quoted);
        } else if (const auto sign = behind.find_first_of("-=");
                   sign <= 1 && (sign == 0 || behind[0] == ':')) {
            const auto is_set = value && (sign == 0 || !joined(*value, " ").empty());
            if (is_set)
                put({joined(*value, " ")}, quoted, false);
            else if (!variables_.values_.contains(name) || value)
                read(behind.substr(sign + 1), quoted);
            else
                unknown(whole, quoted);
        } else if (behind.starts_with('+') || behind.starts_with(":+")) {
            if (variables_.values_.contains(name) && !value)
                unknown(whole, quoted);
            else if (value && (behind[0] == '+' || !joined(*value, " ").empty()))
                read(behind.substr(behind.find('+') + 1), quoted);
        } else {
            unknown(whole, quoted);
        }
    }

    /// Adds values: fields of their own where the shell makes them such.
    void put(const Words& values, bool quoted, bool each) {
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (i > 0 && (each || !quoted)) end_field();
            begun_ = begun_ || quoted;
            for (std::size_t at = 0; at < values[i].size();) {
                const auto begin = at;  // an unknown `$(wc -l x)` stays one word
                at = values[i][begin] == '$' ? end_of_part(values[i], begin) : begin + 1;
                const auto is_blank = is_shell_blank(values[i][begin]) || values[i][begin] == '\n';
                if (is_blank && !quoted)
                    end_field();
                else
                    add(std::string_view(values[i]).substr(begin, at - begin));
            }
        }
    }

    /// Adds an unknown as it is written.
    void unknown(std::string_view written, bool quoted) {
        is_certain_ = false;
        const auto may_be_flags =
            quoted ? written.ends_with("[@]}") : written == word_ && !written.starts_with("$(seq ");
        if (may_be_flags && !is_value_) throw UnknownFlags(unknown_flags(written, source_));
        add(written);
    }

    void add(std::string_view text) {
        variables_.spend(text.size());
        field_ += text;
        begun_ = begun_ || !text.empty();
    }
    void end_field() {
        if (std::exchange(begun_, false)) words_.push_back(std::exchange(field_, {}));
    }

    const ShellVariables& variables_;
    std::string_view word_;
    bool is_value_;
    std::string_view source_;
    std::string field_;
    bool begun_ = false;
    bool is_certain_ = true;
    Words words_;
};

ShellVariables::Words ShellVariables::expanded(std::string_view word, bool is_value,
                                               std::string_view source) const {
    return Expansion(*this, word, is_value, source).words();
}

std::string ShellVariables::document(std::string_view text) const {
    return joined(Expansion(*this, text, true, {}).words(true), " ");
}

std::optional<std::string> ShellVariables::certain(std::string_view word) const {
    auto expansion = Expansion(*this, word, true, {});
    try {
        const auto text = joined(expansion.words(), " ");
        return expansion.is_certain() ? std::optional(text) : std::nullopt;
    } catch (const UnknownFlags&) {
        return std::nullopt;
    }
}

const ShellVariables::Words* ShellVariables::value(std::string_view name) const {
    const auto found = values_.find(name);
    return found == values_.end() || !found->second ? nullptr : &*found->second;
}

void ShellVariables::spend(std::size_t bytes) const {
    constexpr auto most = 16 * formats::most_bytes;
    spent_ += bytes;
    if (spent_ > most) formats::Limits("the script").refuse(cat("expands to more than ", most, " bytes"));
}

std::optional<long long> ShellVariables::arithmetic(std::string_view text) const {
    auto written = std::string{};
    for (std::size_t at = 0; at < text.size();) {
        auto end = at;
        while (end < text.size() && is_name(text.substr(at, end + 1 - at))) ++end;
        if (end == at) {
            written += text[at++];
            continue;
        }
        const auto* value = this->value(text.substr(at, end - at));
        if (!value) return std::nullopt;
        const auto number = joined(*value, " ");
        spend(number.size());
        written += cat("(", number, ")");
        at = end;
    }
    std::erase_if(written, [](char c) { return c == '$' || c == '{' || c == '}'; });
    return Arithmetic(written).value();
}

bool ShellVariables::assign(std::string_view word, bool known) {
    const auto equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0) return false;
    const auto adds = word[equals - 1] == '+';
    const auto name = std::string(word.substr(0, equals - (adds ? 1 : 0)));
    if (!is_name(name)) return false;
    const auto written = word.substr(equals + 1);
    const auto* now = value(name);
    if (!known || (adds && !now)) {
        forget(name);
        return true;
    }
    const auto before = adds ? *now : Words{};
    for (const auto& each : before) spend(each.size() + 1);
    if (written.starts_with('(')) {
        auto words = before;
        try {
            for (const auto& command : shell_commands(written.substr(1, written.size() - 2)))
                for (const auto& each : command.words) {
                    std::ranges::move(expanded(each, is_value_of(words, each), {}),
                                      std::back_inserter(words));
                }
            values_[name] = std::move(words);
        } catch (const UnknownFlags&) {
            forget(name);  // an error only where the launch uses it
        }
        return true;
    }
    const auto text = joined(expanded(written, true, {}), " ");
    values_[name] = Words{joined(before, " ") + text};
    return true;
}

}  // namespace rankmesh::conversion
