// SPDX-License-Identifier: Apache-2.0
#include "convert/settings.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

#include <rankmesh/core/mesh.hpp>

#include "convert/settings_text.hpp"
#include "formats/file.hpp"
#include "formats/text.hpp"
#include "formats/toml.hpp"

namespace rankmesh::conversion {

using detail::cat;
using detail::excerpt;
using detail::in_quotes;
using formats::trimmed;

namespace {

std::vector<std::string> split(const std::string& text) {
    auto stream = std::istringstream(text);
    auto words = std::vector<std::string>{};
    for (auto word = std::string{}; stream >> word;) words.push_back(word);
    return words;
}

std::string together(const std::vector<std::string>& words) {
    auto text = std::string{};
    for (const auto& word : words) text += (text.empty() ? "" : " ") + word;
    return text;
}

/// True for `[table]` lines, or lines of `key = value`; a text of one line is words, and so are a call and
/// lines with commas behind them.
bool looks_like_toml(std::string_view text) {
    const auto line = trimmed(text.substr(0, text.find('\n')));
    return text.front() == '[' || (line.size() < text.size() && !line.ends_with(',') && !is_call(text));
}

/// True where the first line is `key:` or `key: value`, or `---` alone.
bool looks_like_yaml(std::string_view text) {
    const auto line = text.substr(0, text.find_first_of("\r\n"));
    const auto colon = line.find(':');
    const auto is_key = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
    return line == "---" || (colon != std::string_view::npos && colon > 0 &&
                             std::ranges::all_of(line.substr(0, colon), is_key) &&
                             (colon + 1 == line.size() || line[colon + 1] == ' '));
}

/// True for a command and its flags, which a launch script has.
bool looks_like_command(std::string_view text) {
    const auto end = std::min(text.find_first_of(" \t\n"), text.size());
    const auto behind = trimmed(text.substr(end));
    return text.substr(0, end).find_first_of("=:([{") == std::string_view::npos && !behind.starts_with('=') &&
           (behind.starts_with("--") || behind.find(" --") != std::string_view::npos);
}

/// True for a shell script: it names its shell, exports or expands variables, or has an array of flags.
bool looks_like_script(const std::string& text) {
    if (text.starts_with("#!/")) return true;
    auto stream = std::istringstream(text);
    for (auto line = std::string{}; std::getline(stream, line);)
        if (line.starts_with("export ") || line.find("=$") != std::string::npos) return true;
    for (auto at = text.find("=("); at != std::string::npos; at = text.find("=(", at + 1))
        if (trimmed(std::string_view(text).substr(at + 2)).starts_with("--")) return true;
    return false;
}

/// The same text with blanks for lines that begin with `#`, and for line ends after a backslash.
std::string without_notes(std::string text) {
    auto begins = true;
    auto note = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (begins && text[i] == '#') note = true;
        begins = text[i] == '\n' || (begins && (text[i] == ' ' || text[i] == '\t'));
        if (text[i] == '\n') note = false;
        if (note || (text[i] == '\r' && text[i + 1] == '\n')) text[i] = ' ';
        const auto end = text.compare(i, 2, "\\\n") == 0 ? 2U : text.compare(i, 3, "\\\r\n") == 0 ? 3U : 0U;
        for (auto j = i; j < i + end; ++j) text[j] = ' ';
    }
    return text;
}

/// The axis of a size's name: that of `tensor_model_parallel_size` and of `tp` is `tp`.
std::set<std::string, std::less<>> meaning_of(std::string_view name) {
    static const auto meanings = std::map<std::string_view, std::string_view>{
        {"tensor", "tp"},  {"pipeline", "pp"}, {"pipe", "pp"},     {"data", "dp"},
        {"context", "cp"}, {"expert", "ep"},   {"sequence", "sp"}, {"mp", "tp"},
        {"parallel", ""},  {"model", ""},      {"size", ""},       {"degree", ""}};
    auto meaning = std::set<std::string, std::less<>>{};
    for (std::size_t begin = 0; begin <= name.size();) {
        const auto end = std::min(name.find('_', begin), name.size());
        const auto word = name.substr(begin, end - begin);
        const auto found = meanings.find(word);
        meaning.emplace(found == meanings.end() ? word : found->second);
        begin = end + 1;
    }
    meaning.erase("");
    return meaning;
}

/// True for a name that can only be that of an axis's size.
bool is_parallel_size(std::string_view name) {
    static const auto axes = std::set<std::string, std::less<>>{"cp", "dp",        "edp",   "ep", "etp",
                                                                "pp", "replicate", "shard", "sp", "tp"};
    const auto meaning = meaning_of(name);
    return !meaning.empty() && std::ranges::includes(axes, meaning);
}

/// `a.b=1` as `a` with `b` in it.
Json nested(const Json& flat, Limits& limits) {
    auto all = Json::object();
    for (const auto& [key, value] : flat.items()) {
        auto* table = &all;
        auto rest = std::string_view(key);
        for (auto dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
            limits.enter();
            table = &(*table)[std::string(rest.substr(0, dot))];
            if (!table->is_null() && !table->is_object())
                throw UsageError(cat("the settings give ", excerpt(rest.substr(0, dot)), " a value and, as ",
                                     in_quotes(key), ", a table; give it only one of them"));
            rest.remove_prefix(dot + 1);
        }
        if (table->contains(std::string(rest)))
            throw UsageError(
                cat("the settings give ", in_quotes(key), " a value and a table; give it only one of them"));
        (*table)[std::string(rest)] = value;
        limits.leave(static_cast<int>(std::ranges::count(key, '.')));
    }
    return all;
}

/// Throws UsageError for more bytes than the limit, and for text that is not UTF-8.
void check_text(std::string_view text, std::string_view source) {
    if (text.size() > formats::most_bytes)
        Limits(source).refuse(cat("have more than ", formats::most_bytes, " bytes"));
    if (const auto at = formats::find_no_text(text))
        throw UsageError(
            cat(source, " are not UTF-8 text: byte ", *at + 1, " is ", detail::escaped(text.substr(*at, 1))));
}

}  // namespace

Settings Settings::read(std::string_view framework, const std::vector<std::string>& words) {
    auto settings = Settings(framework, Json::object(), {});
    settings.source_ = "the settings";
    const auto is_file =
        !words.empty() && (words.size() == 1 || framework != "rankmesh") &&
        (words[0] == "-" ||
         formats::is_file_name(words[0], "={[ \n", {".json", ".toml", ".yaml", ".yml", ".txt"}));
    const auto is_json = words.size() > 1 && words[0].starts_with('{') && words[0].ends_with('}');
    const auto own = is_file || is_json ? std::size_t{1} : words.size();
    if (words.size() == 1 && !words[0].empty() && !is_file && framework != "rankmesh" &&
        words[0].find_first_of("=-:([{ \n") == std::string::npos)
        throw UsageError(cat("the setting ", in_quotes(words[0]),
                             " has no value, and no file has that name; write ", excerpt(words[0]),
                             "=VALUE"));
    if (is_file) {
        settings.whole_ = true;
        const auto name = excerpt(words[0], 400);
        settings.source_ = words[0] == "-" ? "the settings on standard input" : cat("the settings in ", name);
        settings.parse(formats::content_of(words[0], cat("the settings file '", name, "'")),
                       words[0].ends_with(".toml"));
    } else {
        settings.parse(together({words.begin(), words.begin() + static_cast<std::ptrdiff_t>(own)}), false);
    }
    if (own == words.size()) return settings;
    const auto beside =
        read_text(framework, together({words.begin() + static_cast<std::ptrdiff_t>(own), words.end()}));
    auto said = std::set<std::string>{};
    for (const auto& [key, value] : settings.values_.items()) said.insert(plain_name(key));
    for (const auto& [key, value] : beside.values_.items()) {
        const auto name = plain_name(key);
        if (!said.insert(name).second)
            throw UsageError(cat("the settings give ", excerpt(name), " twice; give it once"));
        settings.values_[name] = value;
        settings.beside_.insert(name);
    }
    return settings;
}

Settings Settings::read_text(std::string_view framework, std::string text) {
    auto settings = Settings(framework, Json::object(), {});
    settings.source_ = "the settings";
    settings.parse(std::move(text), false);
    return settings;
}

void Settings::parse(std::string text, bool toml) {
    check_text(text, source_);
    if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
    if (toml) {
        values_ = formats::parse_toml(text, source_);
        return;
    }
    const auto said = without_notes(text);
    const auto inner = trimmed(said);
    text_ = inner;
    if (inner.empty()) throw UsageError(cat(source_, " are empty"));
    if (looks_like_yaml(inner))
        throw UsageError(
            cat(source_, " are YAML, which is not supported; write them as JSON, TOML, flags or key=value"));
    auto limits = Limits(source_);
    limits.enter();
    if (inner.front() == '{') {
        values_ = formats::parse_json(said, source_);
    } else if (inner.front() == '-') {
        flags_ = true;
        values_ = nested(parse_flags(split(said), limits), limits);
    } else if (framework_ == "rankmesh") {
        return;
    } else if (looks_like_script(text)) {
        throw UsageError(cat(source_, " look like a shell script; leave only the flags of ", framework_));
    } else if (framework_ == "areal" && inner.find_first_of(":=") < inner.find('=')) {
        values_ = {{"allocation_mode", std::string(inner)}};  // a text in a grammar of its own
    } else if (looks_like_command(inner)) {
        throw UsageError(cat(source_, " begin with the command ",
                             in_quotes(inner.substr(0, inner.find_first_of(" \t\n"))),
                             "; keep only the flags of ", framework_));
    } else if (looks_like_toml(inner)) {
        values_ = formats::parse_toml(text, source_);
    } else {
        auto call = parse_assignments(inner, limits);
        call_ = call.name;
        values_ = nested(call.values, limits);
    }
}

std::string Settings::shown(std::string_view name) const {
    auto text = std::string(name);
    if (!flags_) return text;
    std::ranges::replace(text, '_', '-');
    return "--" + text;
}

const Json* Settings::find(std::string_view name) {
    known_.emplace(name);
    const Json* found = nullptr;
    for (const auto& [key, value] : values_.items()) {
        if (plain_name(key) != name) continue;
        if (found) throw UsageError(cat("the settings give ", excerpt(name), " twice; give it once"));
        found = &value;
    }
    return !found || found->is_null() ? nullptr : found;
}

void Settings::refuse(std::string_view name, const Json& value, std::string_view wanted) const {
    if (flags_ && value == true)
        throw UsageError(cat(shown(name), " has no value; write ", shown(name), " VALUE, ", wanted));
    throw UsageError(cat(shown(name), " is ", formats::excerpt(value), "; it must be ", wanted));
}

bool Settings::has(std::string_view name) { return find(name) != nullptr; }

void Settings::ignore(std::initializer_list<std::string_view> names) {
    for (const auto name : names) ignored_.emplace(name);
}

std::optional<int> Settings::number(std::string_view name) {
    const auto* value = find(name);
    if (!value) return std::nullopt;
    if (!value->is_number_integer() || *value > Mesh::max_size || *value < -Mesh::max_size)
        refuse(name, *value, cat("a whole number up to ", Mesh::max_size));
    return value->get<int>();
}

int Settings::size(std::string_view name, int otherwise, int least) {
    const auto value = number(name);
    if (value && *value < least)
        throw UsageError(cat(shown(name), " is ", *value, "; it must be ", least, " or more"));
    return value.value_or(otherwise);
}

std::optional<std::string> Settings::word(std::string_view name) {
    const auto* value = find(name);
    if (!value) return std::nullopt;
    if (!value->is_string()) refuse(name, *value, "a string");
    if (const auto& text = value->text(); detail::escaped(text) != text)
        refuse(name, *value, "a string without control characters");
    return value->get<std::string>();
}

std::optional<bool> Settings::flag(std::string_view name) {
    const auto* value = find(name);
    if (!value) return std::nullopt;
    if (!value->is_boolean()) refuse(name, *value, flags_ ? "a flag without a value" : "true or false");
    return value->get<bool>();
}

std::optional<std::vector<int>> Settings::numbers(std::string_view name) {
    const auto* value = find(name);
    if (!value) return std::nullopt;
    const auto list = value->is_array() ? *value : Json::array({*value});
    for (const auto& one : list)
        if (!one.is_number_integer() || one < 1 || one > Mesh::max_size)
            refuse(name, *value, "a list of whole numbers of 1 or more");
    return list.get<std::vector<int>>();
}

std::optional<std::vector<std::string>> Settings::words(std::string_view name) {
    const auto* value = find(name);
    if (!value) return std::nullopt;
    const auto list = value->is_array() ? *value : Json::array({*value});
    for (const auto& one : list)
        if (!one.is_string()) refuse(name, *value, "a list of names");
    return list.get<std::vector<std::string>>();
}

std::optional<Settings> Settings::table(std::string_view name) {
    const auto* value = find(name);
    if (!value) return std::nullopt;
    if (!value->is_object()) refuse(name, *value, "a table of settings");
    auto inner = Settings(framework_, *value, {});
    inner.whole_ = whole_;
    return inner;
}

void Settings::enter(std::string_view name) {
    section_ = name;
    const auto* value = find(name);
    if (!value) return;
    if (!value->is_object()) refuse(name, *value, "a table of settings");
    auto inner = Json(*value);
    outside_ = std::move(values_);
    for (const auto& [key, inside] : outside_.items())
        if (plain_name(key) == name) {
            outside_.erase(key);
            break;
        }
    values_ = std::move(inner);
    outer_known_ = std::move(known_);
    known_.clear();
}

std::string Settings::list_of_known() const {
    auto list = std::string{};
    for (const auto& name : known_) list += (list.empty() ? "" : ", ") + shown(name);
    return list;
}

void Settings::refuse_unknown(std::string_view name, std::string_view near) const {
    throw UsageError(
        cat(framework_, " has no setting ", in_quotes(shown(name)), " that places ranks; ",
            near.empty() ? cat("settings are ", list_of_known()) : cat("did you mean '", shown(near), "'?")));
}

void Settings::refuse_strays(const Json& table, const std::string& path) const {
    for (const auto& [key, value] : table.items()) {
        const auto name = plain_name(key);
        if (known_.contains(name) && name != section_ && name != "world_size" &&
            !(path.empty() && outer_known_.contains(name)))
            throw UsageError(cat(framework_, " reads ", name, " in '", section_, "', not ",
                                 path.empty() ? "outside it" : cat("in ", in_quotes(path)),
                                 "; move it there"));
        if (value.is_object()) refuse_strays(value, path.empty() ? key : cat(path, ".", key));
    }
}

std::string Settings::brief(std::string error) const {
    const auto shorten = [&](std::string_view given) {
        if (given.size() <= detail::most_quoted) return;
        if (const auto at = error.find(given); at != std::string::npos)
            error.replace(at, given.size(), excerpt(given));
    };
    const auto shorten_all = [&](const auto& self, const Json& value) -> void {
        if (value.is_string()) shorten(value.text());
        if (value.is_object())
            for (const auto& [key, inner] : value.items()) shorten(key);
        if (value.is_object())
            for (const auto& [key, inner] : value.items()) self(self, inner);
        if (value.is_array())
            for (const auto& inner : value) self(self, inner);
    };
    shorten_all(shorten_all, values_);
    return error;
}

void Settings::finish() const {
    const auto known = std::vector<std::string_view>(known_.begin(), known_.end());
    const auto entered = !outside_.is_null();
    auto said = entered;
    for (const auto& [key, value] : values_.items()) {
        const auto name = plain_name(key);
        if (ignored_.contains(name)) continue;
        if (known_.contains(name)) {
            said = said || !value.is_null();
            continue;
        }
        auto near = std::string_view{};
        if (value.is_number())
            for (const auto one : known)
                if (near.empty() && meaning_of(one) == meaning_of(name)) near = one;
        if (near.empty()) near = nearest(name, known);
        const auto is_size = value.is_number() && is_parallel_size(name);
        if (!near.empty() || is_size || (!whole_ && !flags_) || beside_.contains(name))
            refuse_unknown(name, near);
    }
    for (const auto& name : beside_)
        if (entered && !known_.contains(name) && !outer_known_.contains(name)) refuse_unknown(name, {});
    // The framework's settings that are in another table.
    if (entered)
        refuse_strays(outside_, {});
    else if (!section_.empty())
        for (const auto& [key, value] : values_.items())
            if (value.is_object()) refuse_strays(value, key);
    if (!said && !source_.empty() && framework_ != "rankmesh")
        throw UsageError(cat(source_, " give nothing that ", framework_, " has a setting for; it reads ",
                             list_of_known()));
}

}  // namespace rankmesh::conversion
