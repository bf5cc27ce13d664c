// SPDX-License-Identifier: Apache-2.0
#include "explain/read/line.hpp"

#include <initializer_list>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/error.hpp>
#include <rankmesh/core/ranks.hpp>

#include "explain/read/fields.hpp"
#include "formats/text.hpp"

namespace rankmesh::of_log {

using detail::cat;
using detail::number_in;
using formats::trimmed;

namespace {

constexpr std::string_view numeric[] = {"rank", "ranks", "missing", "seq", "before",  "n",
                                        "code", "pid",   "group",   "xid", "enqueued"};

using formats::Json;
using Keys = std::initializer_list<std::string_view>;

/// Returns the text or number under the first of these keys that an object has, or an object within it.
std::string text_under(const Json& object, Keys keys, int depth) {
    for (const auto key : keys)
        if (const auto* value = of_record::find(object, key); value && !value->is_object())
            return value->is_string() ? value->text() : value->dump();
    for (const auto& [key, value] : object.items())
        if (depth > 0 && value.is_object())
            if (auto text = text_under(value, keys, depth - 1); !text.empty()) return text;
    return {};
}

/// Returns the number behind the last of these words, up to a character.
std::optional<int> behind(std::string_view all, std::string_view before, char after) {
    const auto begin = all.rfind(before);
    if (begin == std::string_view::npos) return std::nullopt;
    all.remove_prefix(begin + before.size());
    return all.find(after) == std::string_view::npos ? std::nullopt : rank_in(all.substr(0, all.find(after)));
}

/// Returns the rank in the name of a process, if the job is divided along TP only.
std::optional<int> rank_in_process(std::string_view name) {
    if (name.find("DP") != name.npos || name.find("PP") != name.npos) return std::nullopt;
    for (const std::string_view before : {" TP", "_TP", "rank="})
        if (const auto at = name.rfind(before); at != name.npos) {
            const auto rest = name.substr(at + before.size());
            return rank_in(rest.substr(0, rest.find_first_not_of("0123456789")));
        }
    return std::nullopt;
}

}  // namespace

std::optional<Fields> fields_of(std::string_view pattern, std::string_view text) {
    auto fields = Fields{};
    while (true) {
        const auto open = std::min(pattern.find('{'), pattern.size());
        if (!text.starts_with(pattern.substr(0, open))) return std::nullopt;
        if (open == pattern.size()) return fields;
        text.remove_prefix(open);
        const auto close = pattern.find('}', open);
        const auto name = pattern.substr(open + 1, close - open - 1);
        pattern.remove_prefix(close + 1);
        const auto after = pattern.substr(0, pattern.find('{'));
        const auto end = after.empty() ? text.size() : text.find(after);
        if (end == std::string_view::npos) return std::nullopt;
        const auto value = trimmed(text.substr(0, end));
        if ((name == "s" ? value != "s" && end > 0 : value.empty()) ||
            (std::ranges::find(numeric, name) != std::end(numeric) &&
             value.find_first_not_of("0123456789-, ") != std::string_view::npos))
            return std::nullopt;
        fields[name] = value;
        text.remove_prefix(end);
    }
}

std::string_view field(const Fields& fields, std::string_view name) {
    const auto known = fields.find(name);
    return known == fields.end() ? std::string_view{} : known->second;
}

std::string filled(std::string_view words, const Fields& fields) {
    auto text = std::string{};
    for (auto open = words.find('{'); open != std::string_view::npos; open = words.find('{')) {
        const auto close = words.find('}', open);
        text += cat(words.substr(0, open), field(fields, words.substr(open + 1, close - open - 1)));
        words.remove_prefix(close + 1);
    }
    return text.append(words);
}

std::optional<int> rank_in(std::string_view text) {
    const auto rank = number_in<int>(text);
    return rank && *rank >= 0 && *rank < of_record::most_world ? rank : std::nullopt;
}

std::vector<int> ranks_in(std::string_view text) {
    auto notation = std::string{};
    for (const auto c : text) notation += c == '-' ? std::string("..") : std::string(1, c);
    try {
        auto ranks = parse_ranks(cat("{", notation, "}"));
        if (ranks.size() <= most_ranks && !ranks.empty() && ranks.back() < of_record::most_world)
            return ranks;
    } catch (const UsageError&) {
    }
    return {};
}

std::optional<int> group_rank_before(std::string_view text) { return behind(text, "Rank ", ']'); }

std::optional<int> rank_before(std::string_view text) {
    auto rank = behind(text, rank_tag, ']');
    if (const auto tag = text.find("]<std"); !rank && tag != std::string_view::npos)
        rank = behind(text.substr(0, tag + 1), ",", ']');
    if (const auto colon = text.find(": "); !rank && colon != std::string_view::npos)
        rank = rank_in(trimmed(text.substr(0, colon)));
    if (!rank && text.starts_with('[')) rank = behind(text.substr(0, text.find(' ')), "[", ']');
    const auto pid = text.find(" pid=");
    if (!rank && text.starts_with('(') && pid != text.npos) rank = rank_in_process(text.substr(0, pid));
    if (!rank && text.starts_with('[')) rank = rank_in_process(text.substr(0, text.find(']')));
    return rank;
}

std::string_view host_before(std::string_view text) {
    const auto of_kernel = text.find(" kernel:"), end = std::min(of_kernel, text.find(" ["));
    if (end == std::string_view::npos) return {};
    text = text.substr(0, end);
    text = text.substr(text.rfind(' ') + 1);
    const auto colon = text.find(':');
    const auto is_process = colon != text.npos && text.find_first_not_of("0123456789:", colon) == text.npos &&
                            text.find_first_not_of("0123456789:") != text.npos;
    return text.starts_with('[') || (end != of_kernel && !is_process) ? std::string_view{}
                                                                      : text.substr(0, colon);
}

std::optional<std::string_view> process_before(std::string_view text) {
    const auto begin = text.find("ip="), end = text.find(')');
    if (text.starts_with('(') && text.find("pid=") < end && end != text.npos &&
        (text.ends_with(')') || text.find("ERROR ") != text.npos))
        return begin < end ? text.substr(begin + 3, end - begin - 3) : text.substr(0, end + 1);
    const auto is_one_word = text.find(' ') == text.npos && text.find_first_of("-/") != text.npos;
    if (!is_one_word || (!text.ends_with(':') && !text.ends_with(']'))) return std::nullopt;
    return text.substr(0, text.size() - (text.ends_with(':') ? 1 : 0));
}

std::optional<std::size_t> name_of_exception(std::string_view line, std::size_t end, std::string_view pattern,
                                             bool has_rank) {
    constexpr auto letters =
        std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._");
    const auto name = end == 0 ? 0 : line.find_last_not_of(letters, end - 1) + 1;  // npos + 1 is 0
    const auto ahead = trimmed(line.substr(0, name));
    const auto is_rank = ahead.empty() || ahead.ends_with("]:") || ahead.ends_with(">:") ||
                         (has_rank && ahead.ends_with(']')) ||
                         ahead.find_first_not_of("[0123456789]:") == ahead.npos;
    const auto goes_on = !pattern.ends_with('}') && !trimmed(line.substr(end + pattern.size())).empty();
    const auto has_name = name < end || ahead.ends_with("]:");
    if (goes_on || !has_name || (!is_rank && !process_before(ahead))) return std::nullopt;
    return name;
}

std::shared_ptr<const RecordedGroup> group_before(std::string_view text) {
    for (const std::string_view before : {"PG GUID ", "[PG "}) {
        const auto at = text.rfind(before);
        if (at == std::string_view::npos) continue;
        auto name = text.substr(at + before.size());
        name = name.substr(0, name.find(" Rank "));
        const auto open = std::min(name.find('('), name.size());
        auto group = RecordedGroup{};
        group.name = trimmed(name.substr(0, open));
        if (open < name.size()) group.description = name.substr(open + 1, name.rfind(')') - open - 1);
        if (group.name == "0" && group.description.empty()) group.description = "default_pg";
        return std::make_shared<const RecordedGroup>(std::move(group));
    }
    return nullptr;
}

RecordedOperation call_of(const Fields& fields) {
    auto call = RecordedOperation{};
    call.operation = formats::lower(field(fields, "op"));
    if (call.operation.starts_with("alltoall"))
        call.operation = "all_to_all";
    else if (const auto at = call.operation.find("all"); at != std::string::npos)
        call.operation.replace(at, 3, "all_");
    call.has_unknown_peer =
        call.operation == "send" || call.operation == "recv" || call.operation == "coalesced";
    for (auto [name, sizes] : {std::pair("in", &call.input_sizes), {"out", &call.output_sizes}}) {
        auto& all = sizes->emplace_back();
        for (const auto each : formats::split(field(fields, name), ','))
            if (const auto size = number_in<std::int64_t>(trimmed(each)); size && *size >= 0)
                all.push_back(*size);
        // A log has neither the parts of an uneven all-to-all nor the messages of a batch.
        if (all.empty() || call.operation == "all_to_all") sizes->clear();
    }
    return call;
}

std::optional<CollectedLine> collected_line(std::string_view line) {
    if (!line.starts_with('{')) return std::nullopt;
    try {
        const auto json = of_record::parsed(line);
        auto text = text_under(json, {"log", "message", "MESSAGE", "msg", "line", "textPayload"}, 0);
        if (text.empty()) return std::nullopt;
        const auto rank = detail::number_in(text_under(json, {"rank", "RANK", "global_rank"}, 1));
        return CollectedLine{
            std::move(text), text_under(json, {"time", "timestamp", "@timestamp", "ts"}, 0),
            text_under(json, {"host", "hostname", "_HOSTNAME", "node_name", "pod_name", "pod"}, 2),
            rank.value_or(-1) >= 0 && rank < of_record::most_world ? rank : std::nullopt};
    } catch (const UsageError&) {  // a line that begins like JSON
        return std::nullopt;
    }
}

}  // namespace rankmesh::of_log
