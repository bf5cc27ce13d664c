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

/// A simple command, its words as they are written: with their quotes and variables.
struct ShellCommand {
    std::vector<std::string> words;
    int line = 1;              ///< its first
    bool conditional = false;  ///< behind && or ||
};

/// The simple commands of a script, without comments, redirections and here-documents. Keywords such as `if`
/// and `done` begin commands. An array `A=(...)` is one word.
std::vector<ShellCommand> shell_commands(std::string_view text);

/// The variables of a shell. A value of several words is an array.
class ShellVariables {
public:
    using Words = std::vector<std::string>;

    /// Evaluates an assignment such as `A=1` or `A+=(x y)`; false for other words. `known` is false where it
    /// may not be run: its value is unknown then.
    bool assign(std::string_view word, bool known);
    /// Makes the value of a variable unknown.
    void forget(const std::string& name) { values_[name] = std::nullopt; }
    /// The words that one written word becomes. Throws UsageError for an unknown in `source` that may be any
    /// number of words, unless `is_value`.
    Words expanded(std::string_view word, bool is_value, std::string_view source) const;

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

constexpr bool is_shell_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// The place behind what begins at `at`: a quoted text, `$(...)`, `${...}`, `$((...))`, or one character.
/// Throws UsageError if it nests too deeply.
std::size_t end_of_part(std::string_view text, std::size_t at, int levels = 0);

}  // namespace rankmesh::conversion
