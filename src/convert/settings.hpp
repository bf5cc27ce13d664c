// SPDX-License-Identifier: Apache-2.0
// A framework's own settings, in whichever form they were given.
#pragma once

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/error.hpp>

#include "formats/json.hpp"
#include "formats/limits.hpp"

namespace rankmesh::conversion {

using detail::cat;
using detail::excerpt;
using detail::in_quotes;
using formats::Json;
using formats::Limits;

/// Settings by name: read from flags, `key=value` words, JSON or TOML, or from a file that holds one of them.
///
/// Every getter records the name that it was called with, so that `finish` can report unknown settings.
/// Dashes and underscores are the same, and a name may begin with dashes or end in an underscore.
class Settings {
public:
    /// Reads words as a command line has them: settings, or the command that starts a job. The first may be a
    /// file, `-` for standard input, or JSON; further words behind it win. Throws UsageError.
    static Settings read(std::string_view framework, const std::vector<std::string>& words);
    /// Reads one text, in any of these forms but the name of a file. Throws UsageError.
    static Settings read_text(std::string_view framework, std::string text);
    /// Those that a framework itself has written; `text` is what they look like.
    Settings(std::string_view framework, Json values, std::string text)
        : framework_(framework), values_(std::move(values)), text_(std::move(text)) {}

    /// The settings as given.
    const std::string& text() const { return text_; }
    /// The function whose arguments were given, empty where none was named.
    const std::string& call() const { return call_; }
    /// True if they are from a file, which may have other settings too.
    bool is_file() const { return whole_; }
    /// The number of ranks that the launcher starts, where the settings are a command that says so.
    std::optional<int> launched() const { return launched_; }
    /// The program that a command starts.
    const std::string& program() const { return program_; }
    bool is_flags() const { return flags_; }
    /// True if a setting was given behind another one.
    bool is_later(std::string_view name, std::string_view other) const;
    /// All of them, in the order in which they were given.
    const Json& values() const { return values_; }
    bool has(std::string_view name);
    /// The value itself, null where it is not given.
    const Json* value(std::string_view name) { return find(name); }
    /// True if there is a table of that name; does not make it known.
    bool has_table(std::string_view name) const;
    /// True if there are settings of all these names, by spaces; does not make them known.
    bool has_all(std::string_view names) const;
    /// Marks settings as known that do not affect the layout of ranks.
    void ignore(std::initializer_list<std::string_view> names);

    /// The value of a setting, nothing where it is not given or null; throws UsageError for one of another
    /// kind.
    std::optional<int> number(std::string_view name);
    /// A number of at least `least`, or `otherwise`.
    int size(std::string_view name, int otherwise = 1, int least = 1);
    std::optional<std::string> word(std::string_view name);
    std::optional<bool> flag(std::string_view name);
    std::optional<std::vector<int>> numbers(std::string_view name, int least = 1);
    std::optional<std::vector<std::string>> words(std::string_view name);
    /// The settings inside a table, nothing where there is none.
    std::optional<Settings> table(std::string_view name);
    /// Enters the table of that name, if there is one: all getters then read from it, and other settings are
    /// ignored. Throws UsageError if it is not a table.
    void enter(std::string_view name);
    /// Enters the first of these tables, by spaces, that there is: `model actor.megatron`.
    void enter_first_of(std::string_view places);
    bool has_entered() const { return !outside_.is_null(); }
    /// Takes the product of settings, by spaces, as the number of ranks that are started: of the first such
    /// list before a `|` that is given.
    void start_on(std::string_view counts);

    /// The name as it was given or would be in this form: `--tp-size` or `tp_size`.
    std::string shown(std::string_view name) const;
    /// An error's text with the beginnings of what was given where it repeats more than that.
    std::string brief(std::string error) const;
    /// Throws UsageError for settings that no getter asked for, and where none is given that one asked for;
    /// in a file and among flags, settings that resemble no known one and are no axis size are ignored.
    void finish();
    /// A setting that no getter asked for: `lost` or `note` of `class_of_flag`, or a flag that is
    /// unknown.
    struct Other {
        std::string name;
        std::string_view kind;
        Json value;
    };
    /// Those that say something; `finish` finds them.
    const std::vector<Other>& others() const { return others_; }

private:
    void parse(std::string text, std::string_view path = {});
    /// The text of a file, whose settings these are.
    std::string opened(const std::string& path);
    /// Reads the tables of a file that a command names.
    void read_configuration(const std::string& path);
    /// Reads the command that starts a job.
    void start(const std::vector<std::string>& words);
    /// Reads the command of a container.
    void start_container(const Json& manifest);
    const Json* find(std::string_view name);
    [[noreturn]] void refuse(std::string_view name, const Json& value, std::string_view wanted) const;

    [[noreturn]] void refuse_unknown(std::string_view name, std::string_view near) const;
    /// Throws UsageError for unknown names in a table; true if it says anything that is known.
    bool check_known(const Json& table, const std::string& path);
    /// True for a setting of the original that no getter asks for; keeps what it says.
    bool is_listed(const std::string& name, const Json& value);
    void refuse_strays(const Json& table, const std::string& path) const;
    std::string list_of_known() const;

    std::string framework_;
    Json values_ = Json::object();
    std::string text_;
    std::string source_;  // where they are from, empty for those of a framework itself
    std::string call_;
    std::string program_;
    std::optional<int> launched_;
    int jobs_ = 1;               // that a manifest starts
    std::string section_;        // the table that was entered, or would have been
    Json outside_;               // the settings outside it, null if it was not entered
    bool flags_ = false;         // in the form of --flags
    bool dotted_ = false;        // words such as a.b=1, some of which may be of others
    bool has_defaults_ = false;  // its own program starts, and needs no setting
    bool whole_ = false;         // from a file, which may have other settings too
    std::set<std::string, std::less<>> known_;
    std::set<std::string, std::less<>> outer_known_;  // before the table was entered
    std::set<std::string, std::less<>> ignored_;
    std::set<std::string, std::less<>> beside_;  // words after a file, all of which must be known
    std::vector<Other> others_;
};

// --- the flags of the originals' newest versions: src/frameworks/NAME/flags.csv, recorded by
// scripts/original_flags.py

/// What a flag does: `places`, `lost`, `note` or `none`, as scripts/original_flags.py says; empty for a flag
/// that the version does not have.
std::string_view class_of_flag(std::string_view framework, std::string_view name);
/// True if all flags of the framework's command line are recorded.
bool has_all_flags(std::string_view framework);

/// True for names of two axes, such as `ep_size` and `cp_size`.
bool are_of_two_axes(std::string_view name, std::string_view other);

// --- forms of settings that are neither JSON nor TOML, each turned into one object

/// `--tp-size 2 --flag --sizes 2 4`: a flag without a value is true, one with several is a list. Throws
/// UsageError, as the other does too, for text beyond the limits.
Json parse_flags(const std::vector<std::string>& words, Limits& limits);
/// Reads the words `a.b=1` behind a command as Hydra does: `+a=1` adds a key, brackets make a list, and any
/// other value is a text.
Json parse_overrides(const std::vector<std::string>& words, Limits& limits);
/// Arguments, and the function that they are for: empty where none is named.
struct Call {
    std::string name;
    Json values;
};
/// True for `Name(...)`, maybe after `name =`.
bool is_call(std::string_view text);
/// `tp=2, names=("dp", "tp")`, maybe inside `Name(...)`; values as in Python, a bare word is a text.
/// Arguments without a name have that of the function's parameter, where the function is known.
Call parse_assignments(std::string_view text, Limits& limits);

/// The canonical form of a name: `--tp-size` and `tp_size_` are `tp_size`.
std::string plain_name(std::string_view name);

}  // namespace rankmesh::conversion
