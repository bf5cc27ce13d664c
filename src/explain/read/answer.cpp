// SPDX-License-Identifier: Apache-2.0
// The answer in words and as JSON.
#include <algorithm>
#include <set>

#include <rankmesh/core/detail/quote.hpp>
#include <rankmesh/core/error.hpp>
#include <rankmesh/core/ranks.hpp>
#include <rankmesh/explain/explain.hpp>
#include <rankmesh/explain/read.hpp>

#include "formats/json.hpp"

namespace rankmesh {

using detail::cat;
using formats::Json;

namespace of_answer {

/// `8 records of ranks {0..7}, of PyTorch's nccl`.
std::string summary(const std::vector<FlightRecord>& records) {
    auto ranks = std::vector<int>{};
    auto writers = std::set<std::string>{};
    for (const auto& record : records) {
        ranks.push_back(record.rank);
        if (!record.is_torch || record.is_log)
            writers.insert(detail::excerpt(record.engine));
        else
            writers.insert(record.entries.empty()
                               ? "PyTorch"
                               : cat("PyTorch's ", detail::excerpt(record.entries.front().call->backend)));
    }
    if (records.empty()) return "no record of a rank, but lines of logs";
    auto text = cat(detail::counted(records.size(), "record"), " of ranks ", ranks_to_string(ranks), ", of ");
    for (const auto& writer : writers) text += cat(&writer == &*writers.begin() ? "" : ", ", writer);
    return text;
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
        lines.push_back({3, cat(i + 1, ". ", findings[i].text)});
        for (const auto& line : findings[i].details) lines.push_back({5, cat("   - ", line)});
        lines.push_back({0, ""});
    }
    if (!explanation.doubts.empty()) {
        const auto is_torch = std::ranges::all_of(
            records, [](const FlightRecord& record) { return record.is_torch && !record.is_log; });
        lines.push_back(
            {0, cat("cannot tell whether something is wrong: ",
                    is_torch ? "PyTorch's dumps have no errors, and" : "the records show no error, but")});
        for (const auto& doubt : explanation.doubts) lines.push_back({5, cat("   - ", doubt)});
    } else if (findings.empty()) {
        lines.push_back(
            {0, "nothing is wrong: every rank has a record, and all calls match and are complete"});
    }
    for (const auto& note : explanation.notes) lines.push_back({6, cat("note: ", note)});
    return lines;
}

std::string json_of(const std::vector<FlightRecord>& records, const Explanation& explanation) {
    auto out = Json{{"records", records.size()},
                    {"ranks", explanation.ranks},
                    {"wrong", !explanation.findings.empty()},
                    {"findings", Json::array()}};
    if (!explanation.doubts.empty()) out["wrong"] = nullptr;
    for (const auto& finding : explanation.findings) {
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
        out["findings"].push_back(std::move(one));
    }
    out["doubts"] = explanation.doubts;
    out["notes"] = explanation.notes;
    return out.dump();
}

}  // namespace rankmesh
