// SPDX-License-Identifier: Apache-2.0
#include "explain/read/log.hpp"

#include <cctype>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/detail/quote.hpp>
#include <rankmesh/core/error.hpp>
#include <rankmesh/core/ranks.hpp>

#include "explain/read/fields.hpp"
#include "formats/text.hpp"

namespace rankmesh::of_log {

using detail::cat;
using detail::number_in;
using formats::trimmed;

constexpr auto most_line = std::size_t{1} << 16;  // bytes of a line that are read at once
constexpr auto most_calls = std::size_t{64};      // of a rank
constexpr auto most_lines = std::size_t{1000};    // about no rank
constexpr auto most_words = std::size_t{300};

/// Returns a number for the two characters at a place of a text.
std::size_t two_of(std::string_view text, std::size_t i) {
    return std::size_t{static_cast<unsigned char>(text[i])} << 8 | static_cast<unsigned char>(text[i + 1]);
}

LogReader::LogReader() : rows_(1 << 16) {
    static_assert(std::size(signatures) <= 256, "a row's number is a byte");
    for (std::size_t i = 0; i < std::size(signatures); ++i) {
        auto key = std::string(signatures[i].pattern.substr(0, 2));
        const auto is_open = key[1] == '{';  // any character
        for (auto c = is_open ? 0 : 255; c < 256; ++c) {
            if (is_open) key[1] = static_cast<char>(c);
            rows_[two_of(key, 0)].push_back(static_cast<std::uint8_t>(i));
        }
    }
}

FlightRecord* LogReader::of(int rank) {
    world_ = std::max(world_, rank + 1);
    if (ranks_.size() == most_ranks && !ranks_.contains(rank)) return nullptr;
    const auto [known, is_new] = ranks_.try_emplace(rank);
    auto& record = known->second;
    if (record.host.empty()) record.host = place_.collected.host;
    if (is_new) {
        record.rank = rank;
        record.file = place_.file;
        record.is_torch = record.is_log = true;
        record.engine = place_.group.empty() ? "logs" : "NCCL RAS";
    }
    return &record;
}

/// Returns the place of a line, with the time if it has one.
std::string LogReader::at(std::string_view line) const {
    const auto text = cat(place_.file, ":", place_.line);
    for (const auto given : {line, std::string_view(place_.collected.time)})
        for (std::size_t i = 0; i + 8 <= given.size(); ++i)
            if (const auto time = given.substr(i, 8);
                time[2] == ':' && time[5] == ':' && time < "24" &&
                time.find_first_not_of("0123456789:") == std::string_view::npos)
                return cat(text, ", ", time);
    return text;
}

/// The first error of a rank counts; how its process ended is added.
void LogReader::add_error(int rank, Says says, const std::string& words, std::string_view line) {
    constexpr const char* reasons[] = {"timeout", "peer_lost", "ended", "error", "error"};
    auto* record = of(rank);
    if (!record) return;
    if (record->reason.empty()) {
        record->error = words;
        record->error_at = at(line);
    } else if (record->reason == "error" && says == Says::ended) {
        record->error = cat(words, " after ", record->error);
    } else {
        return;
    }
    record->reason = reasons[static_cast<std::size_t>(says)];
}

void LogReader::add_line(std::string_view host, std::string words, bool is_fault, std::string_view line) {
    if (host.empty()) host = place_.collected.host;
    const auto is_again = !lines_.empty() && lines_.back().text == words && lines_.back().host == host;
    if (lines_.size() < most_lines && !is_again)
        lines_.push_back({at(line), std::string(host), std::move(words), is_fault});
}

void LogReader::add_call(int rank, const Fields& fields, std::shared_ptr<const RecordedGroup> group) {
    auto* record = of(rank);
    const auto number = number_in<std::int64_t>(field(fields, fields.contains("seq") ? "seq" : "before"));
    if (!record || !number || *number < 0 || *number == std::numeric_limits<std::int64_t>::max()) return;
    auto entry = RecordedEntry{};
    entry.number = *number + (fields.contains("seq") ? 0 : 1);
    entry.call = std::make_shared<const RecordedOperation>(call_of(fields));
    entry.is_message = entry.call->has_unknown_peer;
    entry.state = RecordedState::started;
    const auto known = std::ranges::find_if(record->entries, [&](const RecordedEntry& other) {
        return other.number == entry.number && *other.call == *entry.call;
    });
    if (known != record->entries.end()) {  // the watchdog's exception repeats it, with the group
        if (group) known->group = std::move(group);
    } else if (record->entries.size() < most_calls) {
        entry.id = std::ssize(record->entries);
        entry.group = std::move(group);
        record->entries.push_back(std::move(entry));
    }
}

void LogReader::add_status(int rank, const Fields& fields,
                           const std::shared_ptr<const RecordedGroup>& group) {
    auto* record = of(rank);
    const auto last = field(fields, "completed");
    const auto enqueued = number_in<std::int64_t>(field(fields, "enqueued"));
    const auto completed = number_in<std::int64_t>(last.substr(0, last.find_first_not_of("-0123456789")));
    if (!record || !group || !enqueued || !completed || record->statuses.size() == most_calls) return;
    const auto number = number_in<std::int64_t>(field(fields, "seq"));
    auto is_message = false;  // its number is not that of a collective
    for (auto& entry : record->entries)
        if (entry.number == number) {
            if (!entry.group) entry.group = group;
            is_message = is_message || entry.is_message;
        }
    // PyTorch 2.3 prints any number where no call has ended.
    const auto over = *completed < 0 || *completed > *enqueued ? 0 : *completed;
    if (!is_message) record->statuses.push_back({group, *enqueued, over});
}

void LogReader::add_ended(std::optional<int> before, const Fields& fields, const std::string& words,
                          std::string_view line) {
    if (place_.rank) before = std::exchange(place_.rank, std::nullopt);
    auto ranks = ranks_in(field(fields, "ranks"));
    if (ranks.empty() && before) ranks = {*before};
    const auto host = fields.contains("host") ? std::string(field(fields, "host")) : place_.host;
    if (field(fields, "code") == "0") return;
    // Launchers end the others so, once one has failed.
    const auto signal = field(fields, "signal");
    const auto is_told = signal.starts_with("15") || signal.starts_with("Terminated");
    const auto pid = cat(place_.file, " ", field(fields, "pid"));
    if (!ranks.empty())
        without_rank_.erase(pid);
    else if (fields.contains("pid"))
        without_rank_.emplace(pid, LoggedLine{at(line), host, cat("a process ", words), !is_told});
    else
        add_line(host, cat("a process ", words), !is_told && place_.ended.empty(), line);
    for (const auto rank : ranks) {
        world_ = std::max(world_, rank + 1);
        if (is_told) continue;
        add_error(rank, Says::ended, words, line);
        auto* record = of(rank);
        if (!record) return;
        if (record->host.empty()) record->host = host;
        place_.ended.push_back(rank);
        if (place_.is_root && !place_.root) place_.root = rank;
    }
}

/// Notes what is true of the ranks that RAS lists next: `count` of them, or of all of a communicator.
void LogReader::add_header(const std::string& words, std::string_view count, std::string_view line) {
    place_.header = words;
    if (count.empty()) {
        place_.counted = 0, place_.others.clear();
    } else if (place_.others.empty()) {
        place_.others = trimmed(line);
    } else {
        place_.header += cat(", but ", place_.others);
    }
    place_.counted += number_in(count).value_or(0);
    if (place_.group == "0-0") world_ = std::max(world_, place_.counted);
}

/// Adds what a line says. Returns false if it says nothing after all.
bool LogReader::use(const Signature& row, std::string_view line, std::size_t begin, const Fields& fields) {
    const auto before = line.substr(0, begin);
    const auto named = rank_in(field(fields, "rank"));
    auto rank = row.says == Says::timeout && named ? named : rank_before(before);
    if (!rank) rank = place_.of_file;
    // Lines of groups name ranks of the group. Where lines begin with ranks of the world, only these count.
    const auto group = group_before(before);
    if (!rank && !place_.has_tags && (!group || group->name == "0")) rank = group_rank_before(before);
    auto words = row.words.empty() ? std::string(trimmed(line.substr(begin))) : filled(row.words, fields);
    auto host = field(fields, "host");
    auto ahead = trimmed(before);
    if (row.says == Says::raised) {
        const auto name = name_of_exception(line, begin, row.pattern, rank.has_value());
        if (!name) return false;
        ahead = trimmed(line.substr(0, *name));
        words = trimmed(line.substr(*name));
    }
    const auto process = rank ? std::nullopt : process_before(ahead);
    words = detail::excerpt(words, most_words);
    switch (row.says) {
        case Says::timeout:
        case Says::lost:
        case Says::error:
        case Says::raised:
            if (host.empty()) host = process.value_or(host_before(before));
            if (!rank && row.says == Says::timeout && host.empty()) return false;
            if (!rank) return add_line(host, words, false, line), true;
            add_error(*rank, row.says, words, line);
            if (fields.contains("op")) add_call(*rank, fields, group);
            if (auto missing = ranks_in(field(fields, "missing")); !missing.empty()) {
                world_ = std::max(world_, missing.back() + 1);
                if (auto* record = of(*rank)) record->missing = std::move(missing);
            }
            return true;
        case Says::status:
            if (rank) add_status(*rank, fields, group);
            return rank.has_value();
        case Says::ended:
            add_ended(rank, fields, words, line);
            return true;
        case Says::fault:
        case Says::remark:
            add_line(host.empty() ? host_before(before) : host, words, row.says == Says::fault, line);
            return true;
        case Says::place:
            if (named) place_.rank = named, world_ = std::max(world_, *named + 1);
            if (!host.empty()) place_.host = host;
            if (fields.contains("group")) place_.group = field(fields, "group"), place_.header.clear();
            return true;
        case Says::root:
            return place_.is_root = true;
        case Says::header:
            add_header(words, field(fields, "n"), line);
            return true;
        case Says::listed:
            if (row.words.empty() || place_.others.empty())
                words = cat(row.words.empty() ? "" : words, place_.header);
            else
                words = cat("has ", field(fields, "text"), ", but ", place_.others);
            if (place_.header.empty()) return false;
            if (!fields.contains("ranks")) add_line(host, words, true, line);
            for (const auto listed : ranks_in(field(fields, "ranks")))
                if (place_.group.empty() || place_.group == "0-0")
                    add_error(listed, place_.group.empty() ? Says::ended : Says::error, words, line);
                else
                    add_line(host, cat("rank ", listed, " of communicator #", place_.group, " ", words), true,
                             line);
            return true;
    }
    return false;
}

bool LogReader::read_line(std::string_view line) {
    const auto is_known = has_symptom(line);
    auto best = std::size(signatures);
    auto begin = std::size_t{0};
    auto fields = Fields{};
    for (std::size_t i = 0; i + 1 < line.size(); ++i)
        for (const auto row : rows_[two_of(line, i)]) {
            if (row >= best) break;
            auto found = fields_of(signatures[row].pattern, line.substr(i));
            if (found) best = row, begin = i, fields = std::move(*found);
        }
    return (best < std::size(signatures) && use(signatures[best], line, begin, fields)) || is_known;
}

/// Notes the symptoms of known faults, and the version of NCCL. Returns true if only one fault has a symptom.
bool LogReader::has_symptom(std::string_view line) {
    constexpr auto before = std::string_view("NCCL version ");
    if (const auto at = line.find(before); at != std::string_view::npos && nccl_.empty()) {
        const auto version = line.substr(at + before.size());
        nccl_ = version.substr(0, version.find_first_not_of("0123456789."));
    }
    auto is_clear = false;
    for (const auto& fault : of_versions::faults)
        if (!fault.symptom.empty() && line.find(fault.symptom) != std::string_view::npos) {
            symptoms_.try_emplace(&fault,
                                  LoggedLine{at(line), {}, cat("known fault of ", text_of(fault)), false});
            is_clear |= fault.is_clear;
        }
    return is_clear;
}

std::vector<LoggedLine> LogReader::lines() const {
    auto all = lines_;
    for (const auto& [pid, line] : without_rank_) all.push_back(line);
    for (const auto& [fault, line] : symptoms_) {
        const auto version = fault->library == "nccl" ? std::string_view(nccl_) : std::string_view{};
        if (version.empty() ? fault->is_clear : fault->versions.has(version)) all.push_back(line);
    }
    return all;
}

/// Returns true if a text begins with `[rank3` of PyTorch, perhaps behind words of a launcher.
bool has_tag(std::string_view text) {
    const auto at = text.find(rank_tag);
    return at != std::string_view::npos && text.find("]:", at) == text.find(']', at);
}

/// Reads a line as it stands in a file: JSON around the lines of a program, or lines that were joined.
bool LogReader::read_raw(std::string_view raw) {
    const auto collected = collected_line(raw);
    place_.collected = collected.value_or(CollectedLine{});
    auto text = collected ? std::string_view(collected->text) : raw;
    auto plain = std::string{};
    if (text.find('\x1b') != std::string_view::npos) text = plain = formats::without_escapes(text);
    const auto of_file = place_.of_file;
    if (collected && collected->rank) place_.of_file = collected->rank;
    auto is_known = false;
    while (!text.empty()) {
        const auto next = text.find(rank_tag, text.find(rank_tag) + 1);
        const auto end = std::min({text.find('\n'), next, text.size()});
        place_.has_tags |= has_tag(text);
        is_known |= read_line(text.substr(0, end));
        text.remove_prefix(end);
        if (text.starts_with('\n')) text.remove_prefix(1);
    }
    place_.of_file = of_file;
    return is_known;
}

bool LogReader::read(std::istream& log, const std::string& shown, std::optional<int> rank) {
    place_ = Place{};
    place_.file = detail::excerpt(shown);
    place_.of_file = rank;
    auto is_known = false;
    auto buffer = std::string(std::size_t{1} << 20, '\0');
    auto line = std::string{};  // that began in an earlier buffer
    while (log) {
        log.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
        auto rest = std::string_view(buffer).substr(0, static_cast<std::size_t>(log.gcount()));
        while (!rest.empty()) {
            const auto end = std::min({rest.find('\n'), most_line - line.size(), rest.size()});
            line += rest.substr(0, end);
            rest.remove_prefix(end);
            const auto is_whole = rest.starts_with('\n');
            if (!is_whole && line.size() < most_line) break;
            // The last of the lines that were joined may be cut, unless it is as long as all that is read.
            const auto last = is_whole ? std::string::npos : line.rfind(rank_tag);
            const auto cut = last == 0 || last == std::string::npos ? line.size() : last;
            is_known |= read_raw(std::string_view(line).substr(0, cut));
            line.erase(0, cut);
            if (is_whole) ++place_.line, rest.remove_prefix(1);
        }
    }
    is_known |= read_raw(line);
    // Of the processes that ended, the first is the cause of the others' end.
    for (const auto ended : place_.ended)
        if (auto& record = ranks_.at(ended);
            ended != place_.root.value_or(place_.ended.front()) && record.reason == "ended")
            record.reason = "ended later";
    return is_known;
}

std::vector<FlightRecord> LogReader::records() const {
    auto all = std::vector<FlightRecord>{};
    const auto group_named = [](const std::string& name) {
        return std::make_shared<const RecordedGroup>(RecordedGroup{.name = name, .description = name});
    };
    const auto has_no_group = [](const RecordedEntry& entry) { return !entry.group; };
    // A rank with several such calls has several groups, whose numbers say nothing about each other.
    const auto are_several = std::ranges::any_of(
        ranks_, [&](const auto& one) { return std::ranges::count_if(one.second.entries, has_no_group) > 1; });
    auto unnamed = group_named("not named in the log");
    for (const auto& [rank, record] : ranks_) {
        all.push_back(record);
        all.back().least_world_size = world_;
        if (are_several) unnamed = group_named(cat("not named in the log of rank ", rank));
        for (auto& entry : all.back().entries)
            if (!entry.group) entry.group = unnamed;
    }
    return all;
}

}  // namespace rankmesh::of_log
