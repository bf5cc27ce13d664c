// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/explain/explain.hpp>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "explain/evidence.hpp"
#include "explain/findings.hpp"

namespace rankmesh {

namespace detail::explaining {

namespace {

constexpr std::size_t most_errors = 3;
constexpr std::size_t most_hosts = 4;

/// Returns true for the mesh of PyTorch's groups, `world=4`: its coordinates are the ranks.
bool is_world(const Mesh& mesh) { return mesh.axis_count() == 1 && mesh.name(AxisId{0}) == "world"; }

}  // namespace

Places places_of(std::span<const FlightRecord> records) {
    auto best = std::optional<Placement>{};
    auto size = 0;
    for (const auto& record : records)
        for (const auto& one : record.meshes) try {
                const auto mesh = Mesh::parse(one.mesh);
                if (mesh.size() <= size || is_world(mesh)) continue;
                best = one.placed.empty() ? Placement(mesh) : Placement(mesh, one.placed);
                size = mesh.size();
            } catch (const UsageError&) {
                continue;  // then texts have no coordinates
            }
    return best ? Places(std::move(*best)) : Places();
}

namespace {

/// Returns the part of an error that is equal on all ranks with this error: its first clause, without the
/// rank on which a timeout expired, and since when it waited: `on rank 3 [dp=1 tp=1]`, `since 10:46:40`.
std::string shared_part(std::string_view error) {
    auto text = std::string(error.substr(0, error.find(';')));
    for (const std::string_view begin : {" on rank ", ", since "}) {
        const auto at = text.find(begin, text.find("expired"));
        if (at == std::string::npos) continue;
        auto end = text.find_first_not_of("0123456789:", at + begin.size());
        if (text.find(" [", end) == end) end = text.find(']', end);
        text.erase(at, end - at);
    }
    return text;
}

/// Returns the ranks' own errors: timeouts and lost peers last, then by time in logs, and errors that many
/// ranks share first.
std::vector<std::string> errors_of(const Evidence& evidence) {
    auto shared = std::map<std::pair<std::string, std::string>, std::vector<int>>{};
    for (const auto& [rank, record] : evidence.records())
        if (Evidence::says_wrong(*record))
            shared[{record->reason, shared_part(record->error)}].push_back(rank);
    auto all = std::vector<std::vector<int>>{};
    for (auto& [error, ranks] : shared) all.push_back(std::move(ranks));
    const auto first_of = [&](const auto& ranks) -> const FlightRecord& {
        return *evidence.record(
            *std::ranges::min_element(ranks, {}, [&](int rank) { return order_of(*evidence.record(rank)); }));
    };
    std::ranges::stable_sort(all, {}, [&](const auto& ranks) {
        return std::tuple(evidence.left_by_consequence(ranks.front()), order_of(first_of(ranks)),
                          -std::ssize(ranks));
    });
    auto texts = std::vector<std::string>{};
    for (const auto& ranks : all) {
        if (texts.size() == most_errors) {
            texts.push_back(cat("and ", counted(all.size() - most_errors, "more error"), " of other ranks"));
            break;
        }
        const auto& first = first_of(ranks);
        const auto who = evidence.places().ranks(ranks);
        auto said = said_text(first);
        if (ranks.size() > 1 && said.starts_with("was ")) said.replace(0, 3, "were");
        if (first.reason.starts_with("ended"))
            texts.push_back(cat(who, " ", said));
        else
            texts.push_back(cat(who, ranks.size() == 1 ? " reports " : " report ", excerpt(first.reason),
                                first.error.empty() ? ""
                                : ranks.size() == 1 ? ": "
                                                    : "; the first: ",
                                said));
    }
    return texts;
}

/// Returns true if a rank only left because of another finding: its group made wrong calls, and it reports
/// so.
bool only_follows(const Evidence& evidence, const Finding& one, const std::vector<Finding>& all) {
    if (one.kind != Finding::Kind::left) return false;
    const auto rank = one.ranks.front();
    return evidence.record(rank)->reason == "disagreement" &&
           std::ranges::any_of(all, [&](const Finding& other) {
               return other.kind <= Finding::Kind::extra &&
                      std::ranges::find(other.group, rank) != other.group.end();
           });
}

/// Adds a remark if dumps do not show whether calls have ended. Those of PyTorch's Gloo show it.
void add_assumed_ends(const Evidence& evidence, std::vector<std::string>& notes) {
    auto backends = std::set<std::string>{};
    for (const auto& [rank, record] : evidence.records())
        for (const auto& entry : record->entries)
            if (entry.is_end_assumed && entry.call->backend != "gloo") backends.insert(entry.call->backend);
    for (const auto& backend : backends)
        notes.push_back(
            cat("dumps of ", excerpt(backend),
                " say that calls were issued, not that they have ended: a call that hangs on all its ranks "
                "looks complete"));
}

/// Adds the calls in which ranks of a log waited, and the ranks that the log does not name.
void add_silent(const Evidence& evidence, Finding& finding) {
    auto waiting = std::map<std::string, std::vector<int>>{};
    for (const auto& [rank, record] : evidence.records())
        if (const auto* entry = evidence.whereabouts(rank).entry)
            waiting[evidence.text(*entry)].push_back(rank);
    for (const auto& [call, ranks] : waiting)
        if (finding.details.size() < most_errors)
            finding.details.push_back(cat(evidence.places().ranks(ranks), " waited in ", call));
    const auto silent = evidence.absent();
    if (!silent.empty())
        finding.details.push_back(
            cat(evidence.places().ranks(silent),
                silent.size() == 1 ? " reports nothing: it may not have come, so look at what it did"
                                   : " report nothing: they may not have come, so look at what they did"));
}

/// Adds what logs say about no rank: a fault is a finding, the others are notes.
void add_lines(std::span<const LoggedLine> lines, Explanation& result) {
    const auto text_of = [](const LoggedLine& line) {
        return cat(line.host.empty() ? "" : cat(excerpt(line.host), ": "), error_text(line.text, 300), " (",
                   line.at, ")");
    };
    auto fault = Finding{};
    fault.kind = Finding::Kind::fault;
    auto remarks = std::size_t{0};
    for (const auto& line : lines)
        if (line.is_fault && fault.text.empty())
            fault.text = text_of(line);
        else if (line.is_fault && fault.details.size() < most_errors)
            fault.details.push_back(text_of(line));
        else if (remarks++ < most_errors)
            result.notes.push_back(text_of(line));
    if (remarks > most_errors)
        result.notes.push_back(cat("and ", counted(remarks - most_errors, "more line"), " of logs"));
    if (!fault.text.empty()) result.findings.push_back(std::move(fault));
}

/// Adds the coordinates and hosts of the ranks. Texts name hosts only if the job has several.
void add_places(const Evidence& evidence, Finding& finding) {
    set_places(evidence, finding);
    auto by_host = std::map<std::string, std::vector<int>>{};
    for (std::size_t i = 0; i < finding.ranks.size(); ++i)
        if (!finding.hosts[i].empty()) by_host[finding.hosts[i]].push_back(finding.ranks[i]);
    const auto on_first_host = [&](const auto& one) {
        return one.second->host == evidence.records().begin()->second->host;
    };
    if (by_host.empty() || std::ranges::all_of(evidence.records(), on_first_host)) return;
    auto text = std::string{};
    auto left = by_host.size();
    for (const auto& [host, ranks] : by_host) {
        if (by_host.size() - left == most_hosts) break;
        --left;
        text += cat(text.empty() ? "" : ", ", Places().ranks(ranks),
                    ranks.size() == 1 ? " is on " : " are on ", excerpt(host));
    }
    if (left > 0) text += cat(", and others on ", counted(left, "more host"));
    finding.details.insert(finding.details.begin(), text);
}

}  // namespace
}  // namespace detail::explaining

std::string_view to_string(Finding::Kind kind) {
    constexpr std::string_view names[] = {"calls_differ", "peer",       "cycle",  "extra",  "fault", "absent",
                                          "left",         "unfinished", "behind", "failed", "order"};
    return names[static_cast<std::size_t>(kind)];
}

Explanation explain(std::span<const FlightRecord> records, std::span<const UnreadFile> unread,
                    const std::optional<Placement>& where, std::span<const LoggedLine> lines) {
    using namespace detail::explaining;
    using detail::cat;
    const auto evidence = Evidence(records, unread, where ? Places(*where) : places_of(records));
    auto result = Explanation{};
    result.ranks = evidence.world();
    const auto messages = Messages(evidence);
    auto found = differing_calls(evidence);
    const auto waiting = waits(evidence, messages, found);
    found.insert(found.end(), waiting.begin(), waiting.end());
    std::ranges::copy_if(found, std::back_inserter(result.findings),
                         [&](const Finding& finding) { return !only_follows(evidence, finding, found); });
    const auto errors = errors_of(evidence);
    if (result.findings.empty() && !errors.empty()) {
        auto finding = Finding{};
        finding.kind = Finding::Kind::failed;
        for (const auto& [rank, record] : evidence.records())
            if (Evidence::says_wrong(*record)) finding.ranks.push_back(rank);
        finding.text = errors.front();
        finding.details.assign(errors.begin() + 1, errors.end());
        if (evidence.has_only_logs()) add_silent(evidence, finding);
        result.findings.push_back(std::move(finding));
    } else {
        std::ranges::copy_if(errors, std::back_inserter(result.notes), [&](const std::string& error) {
            return std::ranges::find(result.findings, error, &Finding::text) == result.findings.end();
        });
    }
    if (result.findings.empty()) result.findings = blocking_orders(evidence, messages);
    add_lines(lines, result);
    std::ranges::stable_sort(result.findings, {}, &Finding::kind);
    for (auto& finding : result.findings) add_places(evidence, finding);

    if (result.findings.empty()) {
        result.doubts = doubts(evidence, messages);
        if (result.doubts.empty()) add_assumed_ends(evidence, result.notes);
    } else {
        result.notes.insert(result.notes.end(), evidence.notes().begin(), evidence.notes().end());
        auto absent = evidence.absent();
        std::erase_if(absent, [&](int rank) { return evidence.unread(rank) != nullptr; });
        if (!absent.empty() && !evidence.has_only_logs())
            result.notes.push_back(cat("no record of ", evidence.places().ranks(absent)));
    }
    const auto is_of_ras = [](const FlightRecord& record) { return record.engine == "NCCL RAS"; };
    if (!result.findings.empty() && std::ranges::any_of(records, is_of_ras))
        result.notes.emplace_back(
            "RAS counts calls that were launched, so a job that still runs looks the same: ask again, and "
            "see whether the counts rise");
    const auto& files = evidence.unread();
    for (std::size_t i = 0; i < files.size(); ++i) {
        if (i == most_errors) {
            result.notes.push_back(cat("and ", files.size() - i, " more files hold no record"));
            break;
        }
        result.notes.push_back(detail::excerpt(files[i].why, 300));
    }
    return result;
}

}  // namespace rankmesh
