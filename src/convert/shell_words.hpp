// SPDX-License-Identifier: Apache-2.0
// The grammar of a POSIX shell with Bash's arrays, as far as scripts that start jobs use it.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/error.hpp>

namespace rankmesh::conversion {

using detail::cat;

/// Nothing where it is not known.
using Truth = std::optional<bool>;
inline Truth negated(Truth a) { return a ? Truth(!*a) : a; }
inline Truth both(Truth a, Truth b) { return a == false || b == false ? Truth(false) : a ? b : a; }
inline Truth either(Truth a, Truth b) { return negated(both(negated(a), negated(b))); }

/// A simple command, its words as they are written: with their quotes and variables.
struct ShellCommand {
    std::vector<std::string> words;
    int line = 1;               ///< its first
    char joint = ';';           ///< what is before it: `&` for &&, `|` for ||, else `;`
    bool is_pattern = false;    ///< the patterns of a branch of `case`
    std::string document = {};  ///< its here-document
    bool is_literal = false;    ///< its variables are text
};

/// The simple commands of a script, without comments and redirections. Keywords such as `if` and `done` begin
/// commands, `;;` is one, and `f() {` begins with `function f`. An array `A=(...)` is one word, and so is
/// `((...))`.
std::vector<ShellCommand> shell_commands(std::string_view text);

/// The variables of a shell. A value of several words is an array.
class ShellVariables {
public:
    using Words = std::vector<std::string>;

    /// Evaluates an assignment such as `A=1` or `A+=(x y)`; false for other words. `known` is false where it
    /// may not be run: its value is unknown then.
    bool assign(std::string_view word, bool known);
    bool is_set(std::string_view name) const { return values_.contains(name); }
    /// Makes the value of a variable unknown.
    void forget(const std::string& name) { values_[name] = std::nullopt; }
    /// The words that one written word becomes. Throws UsageError for an unknown in `source` that may be any
    /// number of words, unless `is_value`.
    Words expanded(std::string_view word, bool is_value, std::string_view source) const;
    /// A here-document with the values of its variables.
    std::string document(std::string_view text) const;
    /// The text that a written word becomes, nothing where it has an unknown.
    std::optional<std::string> certain(std::string_view word) const;
    /// The result of `[ ... ]`, `[[ ... ]]`, `test ...` or `((...))`.
    Truth truth(const Words& command) const;
    /// True if a text is one of the patterns that `case` has.
    Truth matches(const std::optional<std::string>& text, std::string_view pattern) const;
    /// Sets what the script or a function is given: `$1`, `$@`.
    void give(Words words) { values_["@"] = std::move(words); }
    std::optional<Words> given() const { return value("@") ? std::optional(*value("@")) : std::nullopt; }

private:
    class Expansion;
    /// Null where it is unknown.
    const Words* value(std::string_view name) const;
    /// Counts bytes that are expanded. Throws UsageError beyond the limit, which a text that doubles itself
    /// meets.
    void spend(std::size_t bytes) const;
    std::optional<long long> arithmetic(std::string_view text) const;

    std::map<std::string, std::optional<Words>, std::less<>> values_;
    mutable std::size_t spent_ = 0;
};

/// The error for a variable that may be any number of flags.
UsageError unknown_flags(std::string_view written, std::string_view source);
/// True for a word that is the value of the flag before it, as in `--lr $LR`. A flag may have none, so
/// `$EXTRA_ARGS` may be more flags.
bool is_value_of(const std::vector<std::string>& before, std::string_view written);

constexpr bool is_shell_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// The place behind what begins at `at`: a quoted text, `$(...)`, `${...}`, `$((...))`, or one character.
/// Throws UsageError if it nests too deeply.
std::size_t end_of_part(std::string_view text, std::size_t at, int levels = 0);

}  // namespace rankmesh::conversion
