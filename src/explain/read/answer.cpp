// SPDX-License-Identifier: Apache-2.0
// The answer in words and as JSON.
#include <set>

#include <rankmesh/core/detail/quote.hpp>
#include <rankmesh/core/error.hpp>
#include <rankmesh/core/ranks.hpp>
#include <rankmesh/explain/explain.hpp>
#include <rankmesh/explain/read.hpp>
#include <rankmesh/explain/slow.hpp>
#include <rankmesh/explain/watch.hpp>

#include "explain/words.hpp"
#include "formats/json.hpp"

namespace rankmesh {

using detail::cat;
using detail::explaining::time_text;
using formats::Json;

namespace of_answer {

/// A bar of twenty characters: what a rank computes, waits and transfers.
std::string bar_of(const RankTime& time) {
    const auto whole = std::max(time.computes + time.waits + time.transfers, 1e-9);
    const auto characters = [&](double seconds) {
        return static_cast<std::size_t>(seconds / whole * 20 + 0.5);
    };
    const auto computes = characters(time.computes);
    const auto waits = characters(time.waits);
    auto bar = std::string{};
    for (std::size_t i = 0; i < 20; ++i) bar += i < computes ? "█" : i < computes + waits ? "·" : "▒";
    return bar;
}

void add(std::vector<AnswerLine>& lines, std::size_t number, const auto& finding) {
    lines.push_back({3, cat(number, ". ", finding.text)});
    for (const auto& line : finding.details) lines.push_back({5, cat("   - ", line)});
    lines.push_back({0, ""});
}

/// `8 records of ranks {0..7}, of PyTorch's nccl`.
std::string summary(const std::vector<FlightRecord>& records) {
    auto ranks = std::set<int>{};
    auto writers = std::set<std::string>{};
    for (const auto& record : records) {
        ranks.insert(record.rank);
        if (!record.is_torch || record.is_log)
            writers.insert(detail::excerpt(record.engine));
        else
            writers.insert(record.entries.empty()
                               ? "PyTorch"
                               : cat("PyTorch's ", detail::excerpt(record.entries.front().call->backend)));
    }
    if (records.empty()) return "no record of a rank, but lines of logs";
    auto text = cat(detail::counted(records.size(), "record"), " of ranks ",
                    ranks_to_string(std::vector(ranks.begin(), ranks.end())), ", of ");
    for (const auto& writer : writers) text += cat(&writer == &*writers.begin() ? "" : ", ", writer);
    return text;
}

Json json_of(const Finding& finding) {
    auto one = Json{{"kind", to_string(finding.kind)}, {"ranks", finding.ranks}};
    for (const auto& [key, texts] :
         {std::pair("coordinates", &finding.coordinates), {"hosts", &finding.hosts}}) {
        one[key] = Json::array();
        for (const auto& text : *texts) one[key].push_back(text.empty() ? Json() : Json(text));
    }
    one["communicator"] = finding.communicator.empty() ? Json() : Json(finding.communicator);
    one["axes"] = finding.axes.empty() ? Json() : Json(finding.axes);
    one["group"] = finding.group;
    one["group_is_inferred"] = finding.is_group_inferred;
    one["call"] = finding.call > 0 ? Json(finding.call) : Json();
    one["text"] = finding.text;
    one["details"] = finding.details;
    return one;
}

}  // namespace of_answer

std::vector<AnswerLine> lines_of(const std::vector<FlightRecord>& records, const Explanation& explanation,
                                 std::size_t most) {
    auto lines = std::vector<AnswerLine>{{0, of_answer::summary(records)}, {0, ""}};
    const auto& findings = explanation.findings;
    for (std::size_t i = 0; i < findings.size(); ++i) {
        if (i == most) {
            lines.push_back({0, cat("and ", findings.size() - i, " more; --json lists all")});
            lines.push_back({0, ""});
            break;
        }
        of_answer::add(lines, i + 1, findings[i]);
    }
    if (!explanation.doubts.empty()) {
        const auto logs = std::ranges::count(records, true, &FlightRecord::is_log);
        const auto is_torch = logs == 0 && std::ranges::all_of(records, &FlightRecord::is_torch);
        lines.push_back({0, cat("cannot tell whether something is wrong: ",
                                logs == std::ssize(records) ? "the logs show no error of a rank, and"
                                : is_torch                  ? "PyTorch's dumps have no errors, and"
                                                            : "the records show no error, but")});
        for (const auto& doubt : explanation.doubts) lines.push_back({5, cat("   - ", doubt)});
    } else if (findings.empty()) {
        lines.push_back(
            {0, "nothing is wrong: every rank has a record, and all calls match and are complete"});
    }
    for (const auto& note : explanation.notes) lines.push_back({6, cat("note: ", note)});
    return lines;
}

std::vector<AnswerLine> lines_of(const std::vector<FlightRecord>& records, const SlowReport& report) {
    using namespace of_answer;
    constexpr auto most = std::size_t{8};  // rows of a table
    auto lines = std::vector<AnswerLine>{{0, summary(records)}, {0, ""}};
    for (const auto& doubt : report.doubts) lines.push_back({0, cat("cannot tell who is slow: ", doubt)});
    for (std::size_t i = 0; i < report.findings.size(); ++i) add(lines, i + 1, report.findings[i]);
    if (!report.doubts.empty()) return lines;
    if (report.findings.empty())
        lines.push_back({0, cat("nobody is slow: no rank and no group takes ", 100 * report.least_share,
                                " % of ", time_text(report.span), " longer than the others")});
    if (!report.unjudged.empty())
        lines.push_back({6, cat("note: not judged: ranks ", ranks_to_string(report.unjudged),
                                ", whose records have no call that ended on all its ranks")});
    auto late = report.last;
    std::erase_if(late, [&](const LastRank& row) { return row.waited < report.least_share * report.span; });
    if (!late.empty()) lines.push_back({0, "who comes last, in the groups that wait most:"});
    for (const auto& row : std::span(late).first(std::min(late.size(), most)))
        lines.push_back(
            {4, cat("  rank ", row.rank, " on ", row.communicator, " ", ranks_to_string(row.group), ": ",
                    row.last, " of ", row.calls, " calls, ", time_text(row.late),
                    " after the others; they waited ", time_text(row.waited))});
    lines.push_back(
        {0, "what ranks do, those that wait least first (█ between calls, · waits, ▒ in calls):"});
    auto times = report.times;
    std::ranges::stable_sort(times, {}, &RankTime::waits);
    for (const auto& time : std::span(times).first(std::min(times.size(), most)))
        lines.push_back({4, cat("  ", bar_of(time), " rank ", time.rank, ": ", time_text(time.computes), ", ",
                                time_text(time.waits), ", ", time_text(time.transfers))});
    if (report.clock_error > 0)
        lines.push_back(
            {6, cat("note: clocks of hosts are aligned by the calls, to ", time_text(report.clock_error))});
    return lines;
}

std::string json_of(const std::vector<FlightRecord>& records, const SlowReport& report) {
    auto out = Json{{"records", records.size()},
                    {"slow", report.doubts.empty() ? Json(!report.findings.empty()) : Json()},
                    {"span", report.span},
                    {"unjudged", report.unjudged},
                    {"clock_error", report.clock_error},
                    {"findings", Json::array()},
                    {"last", Json::array()},
                    {"times", Json::array()},
                    {"doubts", report.doubts}};
    for (const auto& each : report.findings)
        out["findings"].push_back({{"kind", to_string(each.kind)},
                                   {"ranks", each.ranks},
                                   {"coordinates", each.coordinates},
                                   {"hosts", each.hosts},
                                   {"seconds", each.seconds},
                                   {"lost", each.lost},
                                   {"text", each.text},
                                   {"details", each.details}});
    for (const auto& each : report.last)
        out["last"].push_back({{"communicator", each.communicator},
                               {"axes", each.axes.empty() ? Json() : Json(each.axes)},
                               {"group", each.group},
                               {"rank", each.rank},
                               {"calls", each.calls},
                               {"last", each.last},
                               {"late", each.late},
                               {"waited", each.waited}});
    for (const auto& each : report.times)
        out["times"].push_back({{"rank", each.rank},
                                {"computes", each.computes},
                                {"waits", each.waits},
                                {"transfers", each.transfers}});
    return out.dump();
}

std::string json_of(const WatchEvent& event) {
    auto out = of_answer::json_of(event.finding);
    out["event"] = to_string(event.kind);
    out["since_ns"] = event.since_ns > 0 ? Json(event.since_ns) : Json();
    out["until_ns"] = event.until_ns > 0 ? Json(event.until_ns) : Json();
    out["stack"] = event.stack.empty() ? Json() : Json(event.stack);
    return out.dump();
}

std::string json_of(const std::vector<FlightRecord>& records, const Explanation& explanation) {
    auto out = Json{{"records", records.size()},
                    {"ranks", explanation.ranks},
                    {"wrong", !explanation.findings.empty()},
                    {"findings", Json::array()}};
    if (!explanation.doubts.empty()) out["wrong"] = nullptr;
    for (const auto& finding : explanation.findings) out["findings"].push_back(of_answer::json_of(finding));
    out["doubts"] = explanation.doubts;
    out["notes"] = explanation.notes;
    return out.dump();
}

}  // namespace rankmesh
