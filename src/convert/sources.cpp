// SPDX-License-Identifier: Apache-2.0
// Where settings stand: words, files of several forms, launch scripts and the commands that start a job.
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <span>
#include <utility>

#include "convert/manifest.hpp"
#include "convert/settings.hpp"
#include "formats/file.hpp"
#include "formats/text.hpp"
#include "frameworks/rows.hpp"

namespace rankmesh::conversion {

using formats::trimmed;
using frameworks::joined;

namespace {

/// Flags of programs that name a file with their settings.
constexpr auto file_flags = std::to_array<std::string_view>(
    {"config", "config_file", "job.config_file", "extra_llm_api_options", "yaml_cfg"});

std::vector<std::string> words_in(std::string_view text) {
    const auto words = formats::words_of(text);
    return {words.begin(), words.end()};
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

/// True for a command and its flags.
bool looks_like_command(std::string_view text) {
    const auto end = std::min(text.find_first_of(" \t\n"), text.size());
    const auto behind = trimmed(text.substr(end));
    return text.substr(0, end).find_first_of("=:([{") == std::string_view::npos && !behind.starts_with('=') &&
           (behind.starts_with("--") || behind.find(" --") != std::string_view::npos);
}

/// The same text with blanks for comments, which begin with `#` behind a blank, and for line ends after a
/// backslash.
std::string without_notes(std::string text) {
    auto behind_blank = true;
    auto note = false;
    auto quote = '\0';
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (quote == '\0' && behind_blank && text[i] == '#') note = true;
        if (text[i] == '\n') note = false;
        if (!note && (text[i] == quote || (quote == '\0' && text[i] == '"')))
            quote = quote == '\0' ? text[i] : '\0';
        behind_blank = text[i] == '\n' || text[i] == ' ' || text[i] == '\t';
        if (note || (text[i] == '\r' && text[i + 1] == '\n')) text[i] = ' ';
        const auto end = text.compare(i, 2, "\\\n") == 0 ? 2U : text.compare(i, 3, "\\\r\n") == 0 ? 3U : 0U;
        for (auto j = i; j < i + end; ++j) text[j] = ' ';
    }
    return text;
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

/// Sets in `all` what `later` has, table by table.
void override_with(Json& all, const Json& later) {
    auto names = std::map<std::string, std::string>{};
    for (const auto& [key, value] : all.items()) names.emplace(plain_name(key), key);
    for (const auto& [key, value] : later.items()) {
        auto& now = all[names.emplace(plain_name(key), key).first->second];
        if (value.is_object() && value.contains("_override_") && value["_override_"] == true)
            now = nullptr;  // NeMo-RL's mark
        if (now.is_object() && value.is_object())
            override_with(now, value);
        else
            now = value;
    }
}

Json yaml_table(std::string_view text, const std::string& source) {
    auto values = formats::parse_yaml(text, source);
    if (!values.is_object()) throw UsageError(cat(source, " are YAML, but not a table of settings"));
    return values;
}

/// The tables of a YAML text; of several documents, those of Kubernetes, as a list.
Json yaml_tables(std::string_view text, const std::string& source) {
    auto objects = Json::array();
    const auto is_one = text.find("\n---") == text.npos;
    for (auto [rest, number] = std::pair(text, 1); !is_one && !rest.empty(); ++number) {
        const auto mark = rest.find("\n---", 1);
        const auto document = rest.substr(0, mark == rest.npos ? rest.size() : mark + 1);
        if (document.find("\nkind:") != document.npos || document.starts_with("kind:"))
            objects.push_back(yaml_table(document, cat("document ", number, " of ", source)));
        rest.remove_prefix(document.size());
    }
    if (objects.size() < 2) return yaml_table(text, source);
    return {{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(objects)}};
}

/// Throws UsageError for more bytes than the limit, and for text that is not UTF-8.
void check_text(std::string_view text, std::string_view source) {
    if (text.size() > formats::most_bytes)
        Limits(source).refuse(cat("have more than ", formats::most_bytes, " bytes"));
    if (const auto at = formats::find_no_text(text))
        throw UsageError(
            cat(source, " are not UTF-8 text: byte ", *at + 1, " is ", detail::escaped(text.substr(*at, 1))));
}

/// The values of a file above those of the files that its `defaults` names, as NeMo-RL reads them; Hydra's
/// lists of names stay.
Json with_defaults(Json values, const std::filesystem::path& path, const std::string& source, int& files) {
    constexpr auto most_files = 20;
    const auto list = values.contains("defaults") ? values["defaults"] : Json();
    auto all = Json::object();
    for (const auto& each : list.is_array() ? list : Json::array({list})) {
        if (!each.is_string() || !is_configuration(each.text())) return values;
        if (++files > most_files)
            Limits(source).refuse(cat("name more than ", most_files, " files by defaults"));
        const auto base = path.parent_path() / each.text();
        const auto name = cat("the settings in ", excerpt(base.string(), 400), ", which defaults names,");
        const auto text = formats::content_of(base.string(), name);
        check_text(text, name);
        override_with(all, with_defaults(yaml_table(text, name), base, source, files));
    }
    values.erase("defaults");
    override_with(all, values);
    return all;
}

}  // namespace

Settings Settings::read(std::string_view framework, const std::vector<std::string>& words) {
    auto settings = Settings(framework, Json::object(), {});
    settings.source_ = "the settings";
    if (framework != "rankmesh" && is_command(words)) {
        settings.start(words);
        return settings;
    }
    const auto is_file =
        !words.empty() && (words.size() == 1 || framework != "rankmesh") &&
        (words[0] == "-" ||
         formats::is_file_name(words[0], "={[ \n", {".json", ".toml", ".yaml", ".yml", ".txt", ".sh"}));
    const auto is_json = words.size() > 1 && words[0].starts_with('{') && words[0].ends_with('}');
    const auto own = is_file || is_json ? std::size_t{1} : words.size();
    if (words.size() == 1 && !words[0].empty() && !is_file && framework != "rankmesh" &&
        words[0].find_first_of("=-:([{ \n") == std::string::npos)
        throw UsageError(cat("the setting ", in_quotes(words[0]),
                             " has no value, and no file has that name; write ", excerpt(words[0]),
                             "=VALUE"));
    if (is_file)
        settings.parse(settings.opened(words[0]), words[0]);
    else
        settings.parse(joined(std::span(words).first(own), " "));
    if (own == words.size()) return settings;
    // What follows wins, as in the originals.
    const auto beside = read_text(framework, joined(std::span(words).subspan(own), " "));
    override_with(settings.values_, beside.values_);
    for (const auto& [key, value] : beside.values_.items())
        if (!value.is_object()) settings.beside_.insert(plain_name(key));
    return settings;
}

Settings Settings::read_text(std::string_view framework, std::string text) {
    auto settings = Settings(framework, Json::object(), {});
    settings.source_ = "the settings";
    settings.parse(std::move(text));
    return settings;
}

std::string Settings::opened(const std::string& path) {
    whole_ = true;
    const auto name = excerpt(path, 400);
    source_ = path == "-" ? "the settings on standard input" : cat("the settings in ", name);
    auto text = formats::content_of(path, cat("the settings file '", name, "'"));
    check_text(text, source_);
    return text;
}

void Settings::read_configuration(const std::string& path) {
    const auto text = opened(path);
    auto files = 0;
    values_ = path.ends_with(".toml")   ? formats::parse_toml(text, source_)
              : path.ends_with(".json") ? formats::parse_json(without_notes(text), source_)
                                        : with_defaults(yaml_table(text, source_), path, source_, files);
}

void Settings::start(const std::vector<std::string>& words) {
    auto command = taken_apart(words);
    if (command.program.empty())
        throw UsageError(cat("the command ", in_quotes(words.front()),
                             " starts no program that is known, such as FILE.py or -m MODULE; write only the "
                             "program's flags"));
    for (const auto& word : words)
        if (word.find("{{") != word.npos)
            throw UsageError(cat(source_, " have the template ",
                                 in_quotes(excerpt(word.substr(word.find("{{")))),
                                 "; give the text that it makes, such as that of helm template"));
    text_ = joined(words, " ");
    program_ = command.program;
    flags_ = true;
    const auto& how = start_of(framework_);
    if (!how.by_itself) launched_ = command.ranks;
    has_defaults_ = how.by_itself && !how.programs.empty() && is_of_framework(command.program, framework_);
    if (how.has_settings) command.words = std::move(command.launcher);
    auto flags = std::vector<std::string>{};
    auto others = std::vector<std::string>{};
    for (auto& word : command.words) {
        const auto is_setting = !word.starts_with('-') && word.find('=') != std::string::npos;
        const auto is_file = flags.empty() && is_configuration(word) && !is_setting && !word.starts_with('-');
        if (is_file)
            read_configuration(word);
        else if (is_setting || !flags.empty() || word.starts_with('-'))
            (is_setting ? others : flags).push_back(std::move(word));
    }
    auto limits = Limits(source_);
    auto said = parse_flags(flags, limits);
    auto names = frameworks::words_of(how.files);
    names.insert(names.end(), file_flags.begin(), file_flags.end());
    for (const auto flag : names)
        if (said.contains(flag) && said[flag].is_string() && is_configuration(said[flag].text())) {
            read_configuration(said[flag].text());
            said.erase(flag);
        }
    override_with(values_, nested(said, limits));
    auto overrides = parse_overrides(others, limits);
    const auto given = overrides;
    for (const auto& [name, value] : given.items())  // engine=fsdp is the group of engine.fsdp_size=8
        if (const auto dot = name.find('.'); dot != name.npos) overrides.erase(name.substr(0, dot));
    override_with(values_, nested(overrides, limits));
}

void Settings::start_container(const Json& manifest) {
    const auto launch = launch_in(manifest, source_, framework_);
    start(launch.words);
    jobs_ = launch.jobs;
}

void Settings::parse(std::string text, std::string_view path) {
    check_text(text, source_);
    if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
    if (path.ends_with(".toml")) {
        values_ = formats::parse_toml(text, source_);
        return;
    }
    const auto said = without_notes(text);
    const auto inner = trimmed(said);
    text_ = inner;
    if (inner.empty()) throw UsageError(cat(source_, " are empty"));
    auto limits = Limits(source_);
    limits.enter();
    const auto is_yaml = path.ends_with(".yaml") || path.ends_with(".yml") || looks_like_yaml(inner);
    if (is_yaml || inner.front() == '{') {
        auto files = 0;
        values_ = is_yaml ? with_defaults(yaml_tables(text, source_), path, source_, files)
                          : formats::parse_json(said, source_);
        if (is_manifest(values_)) start_container(std::exchange(values_, Json::object()));
    } else if (inner.front() == '-') {
        flags_ = true;
        values_ = nested(parse_flags(words_in(said), limits), limits);
    } else if (framework_ == "rankmesh") {
        return;
    } else if (framework_ == "areal" && inner.find_first_of(":=") < inner.find('=') &&
               !path.ends_with(".sh")) {
        values_ = {{"allocation_mode", std::string(inner)}};  // a text in a grammar of its own
    } else if (const auto launch = launch_of(text, source_, path, framework_); !launch.empty()) {
        start(launch);
    } else if (path.ends_with(".sh") || text.starts_with("#!")) {
        throw UsageError(cat(source_,
                             " are a shell script that starts no program that is known, such as torchrun "
                             "FILE.py; write the program's flags after --"));
    } else if (looks_like_command(inner)) {
        throw UsageError(cat(source_, " begin with the command ", in_quotes(words_in(said).front()),
                             ", which is not a known launcher or program; keep only the flags of ",
                             framework_));
    } else if (looks_like_toml(inner)) {
        values_ = formats::parse_toml(text, source_);
    } else {
        auto call = parse_assignments(inner, limits);
        call_ = call.name;
        dotted_ = call_.empty() && std::ranges::any_of(call.values.items(), [](const auto& each) {
                      return each.first.find('.') != std::string::npos;
                  });
        values_ = nested(call.values, limits);
    }
}

}  // namespace rankmesh::conversion
