// SPDX-License-Identifier: Apache-2.0
// A framework's own settings, in whichever form they were given.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace rankmesh::cli {

using Json = nlohmann::ordered_json;

/// Settings by name: read from flags, `key=value` words, JSON or TOML, or from a file that holds one of them.
///
/// Every getter notes the name that it was asked for, so that `finish` can tell which settings nobody knows.
/// Dashes and underscores are the same, and a name may begin with dashes or end in an underscore.
class Settings {
public:
    /// Reads the words of a command line; one word may be a file, or `-` for standard input. Throws Misuse.
    static Settings read(std::string_view framework, const std::vector<std::string>& words);
    /// Those that a framework itself has written; `text` is what they look like.
    Settings(std::string_view framework, Json values, std::string text)
        : framework_(framework), values_(std::move(values)), text_(std::move(text)) {}

    /// What was given, as it was given.
    const std::string& text() const { return text_; }
    /// All of them, in the order in which they were given.
    const Json& values() const { return values_; }
    bool has(std::string_view name);

    /// The value of a setting, nothing where it is not given or null; throws Misuse for one of another kind.
    std::optional<int> number(std::string_view name);
    /// A number of at least `least`, or `otherwise`.
    int size(std::string_view name, int otherwise = 1, int least = 1);
    std::optional<std::string> word(std::string_view name);
    std::optional<bool> flag(std::string_view name);
    std::optional<std::vector<int>> numbers(std::string_view name);
    std::optional<std::vector<std::string>> words(std::string_view name);
    /// The settings inside a table, nothing where there is none.
    std::optional<Settings> table(std::string_view name);
    /// Every setting from here on, where a table of that name holds them; all others are somebody else's.
    void enter(std::string_view name);

    /// The name as it was given or would be in this form: `--tp-size` or `tp_size`.
    std::string shown(std::string_view name) const;
    /// Throws Misuse for settings that no getter asked for; in a file those that resemble none are let be.
    void finish() const;

private:
    const Json* find(std::string_view name);
    [[noreturn]] void refuse(std::string_view name, const Json& value, std::string_view wanted) const;

    std::string framework_;
    Json values_ = Json::object();
    std::string text_;
    bool flags_ = false;  // in the form of --flags
    bool whole_ = false;  // a file, which may say other things too
    std::set<std::string, std::less<>> known_;
};

}  // namespace rankmesh::cli
