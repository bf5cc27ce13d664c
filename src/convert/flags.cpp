// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>

#include "convert/converters.hpp"
#include "formats/text.hpp"
#include "frameworks/rows.hpp"

namespace rankmesh::conversion {

/// Generated: the texts of the files, by framework.
extern const std::vector<std::pair<std::string_view, std::string_view>> flag_files;

namespace {

using Classes = std::map<std::string_view, std::string_view>;

const Classes& flags_of(std::string_view framework) {
    static const auto all = [] {
        auto made = std::map<std::string_view, Classes>{};
        for (const auto& [name, text] : flag_files)
            for (const auto line : formats::split(text, '\n')) {
                const auto comma = line.find(',');
                for (const auto flag : frameworks::words_of(line.substr(comma + 1)))
                    made[name].emplace(flag, line.substr(0, comma));
            }
        return made;
    }();
    static const auto none = Classes{};
    const auto found = all.find(framework);
    return found == all.end() ? none : found->second;
}

}  // namespace

std::string_view class_of_flag(std::string_view framework, std::string_view name) {
    const auto& flags = flags_of(framework);
    const auto found = flags.find(name);
    if (found != flags.end()) return found->second;
    const auto table = cat(name, ".");
    if (const auto inside = flags.lower_bound(table);
        inside != flags.end() && inside->first.starts_with(table))
        return "none";
    if (const auto number = name.find_last_not_of("0123456789") + 1; number == 1 && name.size() > 1)
        return class_of_flag(framework, name.substr(0, 1));     // -O3
    if (const auto inner = name.find('.'); inner != name.npos)  // --compilation-config.mode, read as JSON
        return flags.contains(name.substr(0, inner)) ? class_of_flag(framework, name.substr(0, inner)) : "";
    for (const std::string_view negation : {"no_", "disable_"})  // what is off changes nothing
        if (name.starts_with(negation))
            if (const auto other = class_of_flag(framework, name.substr(negation.size())); !other.empty())
                return other == "places" ? other : "none";
    return {};
}

bool has_all_flags(std::string_view framework) { return flags_of(framework).contains("help"); }

void keep_others(const Converter& from, Settings& settings, Arrangement& arrangement) {
    auto noted = std::string{};
    auto unread = std::string{};
    for (const auto& [name, kind, value] : settings.others()) {
        if (kind == "lost") arrangement.extras.push_back({cat(from.name, "'s ", name), value.dump()});
        auto& list = kind == "note" ? noted : unread;
        if (kind != "lost") list += cat(list.empty() ? "" : ", ", settings.shown(name));
    }
    if (!noted.empty())
        arrangement.notes.push_back(cat("settings that change no group are not converted: ", noted));
    if (!unread.empty())
        arrangement.notes.push_back(
            cat("settings that ", from.name, " ", from.version, " does not have are not read: ", unread));
}

void write_others(const Converter& to, const Arrangement& arrangement, Document& document) {
    const auto own = cat(to.name, "'s ");
    for (const auto& [name, text, in_job] : arrangement.extras) {
        const auto flag = name.starts_with(own) ? name.substr(own.size()) : std::string{};
        if (flag.empty() || class_of_flag(to.name, flag) != "lost") continue;
        const auto value = Json::parse(text);
        if (document.text.starts_with('[')) {  // the one table of TOML
            document.values[document.values.items().front().first][flag] = value;
            document.text += cat("\n", flag, " = ", text);
            continue;
        }
        document.values[flag] = value;
        auto said = cat(document.text.empty() ? "--" : " --", flag);
        std::ranges::replace(said, '_', '-');
        document.text += cat(said, value == true ? "" : " ");
        if (value.is_number() || value.is_string())
            document.text += value.is_number() ? text : value.text();
        else if (value != true)
            document.text += cat("'", text, "'");
    }
}

}  // namespace rankmesh::conversion
