// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include <rankmesh/explain/order.hpp>

#include "explain/agreement.hpp"
#include "explain/findings.hpp"
#include "explain/messages.hpp"
#include "explain/wait_graph.hpp"

namespace rankmesh::detail::explaining {

namespace {

constexpr std::size_t most_details = 3;

/// The calls in which ranks were when their records were written, and the ranks that have not made these
/// calls.
class Standing {
public:
    Standing(const Evidence& evidence, const Messages& messages)
        : evidence_(evidence), messages_(messages), graph_(evidence.ranks().size()) {
        for (const auto& [rank, record] : evidence.records()) place(rank, *record);
        graph_.narrow(from_any_);
    }

    struct Waiting {
        const RecordedEntry* entry = nullptr;
        std::vector<int> ranks;    ///< world ranks that wait in the call
        std::vector<int> missing;  ///< world ranks
    };

    const WaitGraph& graph() const { return graph_; }
    /// Returns each call in which ranks wait for other ranks; calls that wait for the fewest ranks first.
    std::vector<const Waiting*> waiting() const {
        auto all = std::vector<const Waiting*>{};
        for (const auto& one : waiting_) all.push_back(&one);
        std::ranges::stable_sort(all, {}, [](const Waiting* one) {
            return std::pair(one->missing.size(), -std::ssize(one->ranks));
        });
        return all;
    }
    /// Returns each collective that all members have made and that has not ended on all.
    const std::map<std::pair<int, std::int64_t>, std::vector<int>>& unfinished() const { return unfinished_; }
    /// Returns the call in which a held rank waits.
    const RecordedEntry& entry(int rank) const { return *held_.at(rank); }
    std::vector<int> world_ranks(const std::vector<int>& places) const {
        auto ranks = std::vector<int>{};
        for (const auto place : places) ranks.push_back(evidence_.ranks()[at(place)]);
        return ranks;
    }

private:
    /// Returns the entries that may hold the rank.
    static std::vector<const RecordedEntry*> candidates(const FlightRecord& record,
                                                        const RecordedEntry& first) {
        auto all = std::vector<const RecordedEntry*>{&first};
        for (const auto& entry : record.entries) {
            if (&entry == &first || Evidence::is_over(entry)) continue;
            const auto is_one_batch = entry.is_message && first.is_message && entry.number == first.number &&
                                      entry.group == first.group;
            if (record.is_torch ? is_one_batch : entry.state == RecordedState::started) all.push_back(&entry);
        }
        return all;
    }

    void place(int rank, const FlightRecord& record) {
        const auto* first = evidence_.whereabouts(rank).entry;
        if (!first) return;
        for (const auto* entry : candidates(record, *first)) {
            const auto call = entry->is_message ? message(rank, *entry) : collective(*entry);
            if (call < 0) continue;
            graph_.hold(evidence_.place(rank), call);
            waiting_[at(call)].ranks.push_back(rank);
            held_[rank] = entry;
            return;
        }
        if (!first->is_message) unfinished_[{evidence_.number_of(*first), first->number}].push_back(rank);
    }

    int add(const RecordedEntry& entry, std::vector<int> missing) {
        if (missing.empty()) return -1;
        auto places = std::vector<int>{};
        for (const auto rank : missing) places.push_back(evidence_.place(rank));
        waiting_.push_back({&entry, {}, std::move(missing)});
        return graph_.call(std::move(places));
    }
    int message(int rank, const RecordedEntry& entry) {
        const auto call = add(entry, messages_.missing(rank, entry));
        if (call >= 0 && is_from_any(*entry.call)) from_any_.push_back(call);
        return call;
    }
    int collective(const RecordedEntry& entry) {
        const auto [call, is_new] = calls_.try_emplace({evidence_.number_of(entry), entry.number}, -1);
        if (!is_new) return call->second;
        auto missing = std::vector<int>{};
        for (const auto& member : evidence_.communicator_of(entry).members)
            if (!has_come(member, entry.number)) missing.push_back(member.rank);
        if (missing.empty() && evidence_.communicator_of(entry).lacks_members) missing = evidence_.absent();
        return call->second = add(entry, std::move(missing));
    }
    bool has_come(const Member& member, std::int64_t number) const {
        if (!member.record || member.last < number) return false;
        // A device first runs earlier enqueued calls.
        const auto* entry = member.find(number);
        const auto* doing = evidence_.whereabouts(member.rank).entry;
        return !entry || entry->state != RecordedState::scheduled || !Evidence::is_device(*entry) || !doing ||
               doing == entry || (doing->group == entry->group && doing->number == entry->number);
    }

    const Evidence& evidence_;
    const Messages& messages_;
    WaitGraph graph_;
    std::vector<Waiting> waiting_;  // index: call of the graph
    std::map<std::pair<int, std::int64_t>, int> calls_;
    std::map<std::pair<int, std::int64_t>, std::vector<int>> unfinished_;
    std::map<int, const RecordedEntry*> held_;
    std::vector<int> from_any_;  // calls of the graph that need one of the ranks that are missing
};

/// Returns all members of the communicators in which these ranks wait; with `alike`, also of other
/// communicators along the same axes.
std::vector<int> concerned(const Evidence& evidence, const Standing& standing, const std::vector<int>& ranks,
                           bool alike = false) {
    auto communicators = std::set<const Communicator*>{};
    auto kinds = std::set<std::string>{};
    for (const auto rank : ranks) {
        const auto& communicator = evidence.communicator_of(standing.entry(rank));
        communicators.insert(&communicator);
        if (alike && !communicator.kind.empty()) kinds.insert(communicator.kind);
    }
    auto all = std::set<int>{};
    for (const auto& other : evidence.communicators())
        if (communicators.contains(&other) || kinds.contains(other.kind))
            all.insert(other.ranks.begin(), other.ranks.end());
    return {all.begin(), all.end()};
}

/// Returns where the lists of calls of ranks that wait for one another first differ, if most ranks agree.
std::optional<ListDifference> difference_of(const Evidence& evidence, const Standing& standing,
                                            const std::vector<int>& ranks) {
    const auto all = concerned(evidence, standing, ranks);
    for (const auto peers : {false, true})
        if (auto difference = first_difference(evidence, all, peers)) return difference;
    // Two ranks cannot outvote each other, but groups along the same axes may agree with one of them.
    auto difference = first_difference(evidence, concerned(evidence, standing, ranks, true));
    if (difference && std::ranges::includes(all, difference->ranks)) return difference;
    return std::nullopt;
}

Finding cycle_finding(const Evidence& evidence, const Standing& standing, const std::vector<int>& ranks) {
    auto deadlock = Deadlock{};
    deadlock.is_cycle = true;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        const auto& entry = standing.entry(ranks[i]);
        const auto& communicator = evidence.communicator_of(entry);
        deadlock.chain.push_back({.rank = ranks[i],
                                  .operation = excerpt(words_of(*entry.call)),
                                  .communicator = communicator.label,
                                  .group = communicator.ranks,
                                  .number = entry.number,
                                  .is_message = entry.is_message,
                                  .waits_for = ranks[(i + 1) % ranks.size()]});
    }
    const auto& entry = standing.entry(ranks.front());
    auto finding = finding_on(Finding::Kind::cycle, evidence.communicator_of(entry), entry.number, ranks);
    std::ranges::sort(finding.ranks);
    finding.text = cat(ranks.size(), " ranks wait for one another: ", text_of(deadlock, evidence.places()));
    if (const auto difference = difference_of(evidence, standing, ranks)) {
        finding.ranks = difference->ranks;
        finding.details.push_back(std::move(finding.text));
        finding.text = difference->text;
    }
    return finding;
}

std::string it_or_them(const std::vector<int>& ranks) { return ranks.size() == 1 ? "it" : "them"; }

std::string waits_text(const Evidence& evidence, const Standing::Waiting& waiting) {
    return cat(evidence.places().ranks(waiting.ranks), waiting.ranks.size() == 1 ? " waits in " : " wait in ",
               evidence.text(*waiting.entry), ", for ", evidence.places().ranks(waiting.missing));
}

/// Returns true if a rank left because other ranks were missing or lost; it is not the cause.
bool is_consequence(const FlightRecord& record) {
    return record.reason == "timeout" || record.reason == "peer_lost";
}

/// Returns true if most members of a group did not make the call in which the others wait, and did not fail
/// earlier.
bool is_extra(const Evidence& evidence, const Standing::Waiting& waiting) {
    if (waiting.entry->is_message) return false;
    for (const auto rank : waiting.missing) {
        const auto* record = evidence.record(rank);
        if (!record || evidence.whereabouts(rank).entry) return false;
        if (Evidence::says_wrong(*record) && !is_consequence(*record)) return false;
    }
    const auto& communicator = evidence.communicator_of(*waiting.entry);
    auto reached = std::size_t{0};
    auto not_reached = std::size_t{0};
    for (const auto& other : evidence.communicators()) {
        if (&other == &communicator || other.kind.empty() || other.kind != communicator.kind) continue;
        for (const auto& member : other.members)
            if (member.record) ++(member.last >= waiting.entry->number ? reached : not_reached);
    }
    if (reached != not_reached) return not_reached > reached;
    return waiting.ranks.size() < waiting.missing.size();
}

Finding extra_finding(const Evidence& evidence, const Standing& standing, const Standing::Waiting& waiting) {
    const auto& communicator = evidence.communicator_of(*waiting.entry);
    auto finding = finding_on(Finding::Kind::extra, communicator, waiting.entry->number, waiting.ranks);
    finding.text = cat(
        waits_text(evidence, waiting), waiting.missing.size() == 1 ? ", which has" : ", which have", " made ",
        waiting.entry->number - 1, " calls there and ", waiting.missing.size() == 1 ? "is" : "are",
        " outside any call: ", waiting.ranks.size() == 1 ? "the first made" : "the first ones made",
        " a call too many");
    if (auto difference = first_difference(evidence, concerned(evidence, standing, {waiting.ranks.front()})))
        finding.details.push_back(difference->text);
    return finding;
}

/// Returns what a rank is doing for which others wait.
std::string doing(const Evidence& evidence, int rank) {
    const auto& [entry, last, late] = evidence.whereabouts(rank);
    if (entry) return cat("is in ", evidence.text(*entry));
    return cat(late ? "was" : "is", " outside any call",
               last ? cat(", after ", evidence.text(*last)) : ", and had made none",
               late ? cat(", and came to ", evidence.text(*late), " when others had given up") : "");
}

/// Returns true if the records of these ranks would contain the end of their current call.
bool note_ends(const Evidence& evidence, const std::vector<int>& ranks) {
    return std::ranges::all_of(ranks, [&](int rank) {
        const auto& record = *evidence.record(rank);
        return record.is_torch && !Evidence::notes_ends_late(record, *evidence.whereabouts(rank).entry);
    });
}

/// Returns true if a rank has made further calls since its current call.
bool has_called_more(const Evidence& evidence, int rank) {
    const auto& entries = evidence.record(rank)->entries;
    const auto& entry = *evidence.whereabouts(rank).entry;
    return !entries.empty() && (entries.back().group != entry.group || entries.back().number != entry.number);
}

/// Adds details to a call that all members have made: no program is to blame, and where to look.
void say_that_none_ends(const Evidence& evidence, const RecordedEntry& entry, Finding& finding) {
    const auto is_known = !Evidence::is_unrecorded(entry);
    finding.text = cat("all members have come to ", evidence.text(entry), ", and none has finished it",
                       !is_known ? ""
                       : ends_early(*entry.call) && !entry.call->argument
                           ? ": their calls agree, but for the root, which records do not have"
                           : ": their calls agree, so the program is not to blame");
    if (is_known && !Evidence::is_device(entry)) {
        finding.details.emplace_back("look at the network between the hosts");
        return;
    }
    finding.details.emplace_back(
        "look at the network between the hosts, at the devices (Xid errors in the kernel's log, clocks, "
        "kernels that do not end), and at what ranks log with NCCL_DEBUG=INFO");
    finding.details.emplace_back(
        "records of a job that still runs can look the same: write them again, and see whether the number of "
        "the call has risen");
}

/// Adds collectives that all members have made and that have ended or started on some. Returns the ranks in
/// them.
std::set<int> add_unfinished(const Evidence& evidence, const Standing& standing,
                             const std::vector<Finding>& differing, std::vector<Finding>& findings) {
    auto all = std::set<int>{};
    auto awaited = std::set<int>{};
    for (const auto* one : standing.waiting()) awaited.insert(one->missing.begin(), one->missing.end());
    const auto reports = std::ranges::any_of(
        evidence.records(), [](const auto& one) { return Evidence::says_wrong(*one.second); });
    for (const auto& [call, ranks] : standing.unfinished()) {
        const auto& communicator = evidence.communicators()[at(call.first)];
        const auto differs = std::ranges::any_of(differing, [&, number = call.second](const Finding& other) {
            return other.group == communicator.ranks && other.communicator == communicator.label &&
                   other.call == number;
        });
        if (differs) {  // differing calls do not end
            all.insert(ranks.begin(), ranks.end());
            continue;
        }
        auto over = std::vector<int>{};
        auto started = std::vector<int>{};
        auto not_started = std::vector<int>{};
        for (const auto& member : communicator.members) {
            const auto* entry = member.find(call.second);
            if (entry ? Evidence::is_over(*entry) : member.completed >= call.second)
                over.push_back(member.rank);
            else
                (entry && entry->state == RecordedState::scheduled && Evidence::is_device(*entry)
                     ? not_started
                     : started)
                    .push_back(member.rank);
        }
        const auto& entry = *evidence.whereabouts(ranks.front()).entry;
        // If the call has ended on some ranks, the records of the others may be older, unless ranks wait for
        // these.
        const auto is_needed = [&](int rank) {
            return awaited.contains(rank) || has_called_more(evidence, rank);
        };
        if (!reports &&
            !(note_ends(evidence, ranks) && (over.empty() || std::ranges::any_of(ranks, is_needed))))
            continue;
        auto culprits = !over.empty()                              ? ranks
                        : !started.empty() && !not_started.empty() ? not_started
                                                                   : std::vector<int>{};
        auto finding = finding_on(Finding::Kind::unfinished, communicator, call.second, culprits);
        const auto told = std::ranges::find_if(
            ranks, [&](int rank) { return evidence.record(rank)->reason == "disagreement"; });
        if (told != ranks.end()) {
            finding.kind = Finding::Kind::calls_differ;
            finding.ranks = evidence.record(*told)->differ;
            finding.text = cat("the records show no difference in ", evidence.text(entry), ", but ",
                               evidence.places().rank(*told),
                               " reports: ", error_text(evidence.record(*told)->error, 400));
            auto first = std::int64_t{0};
            for (const auto& member : communicator.members)
                if (!member.collectives.empty()) first = std::max(first, member.collectives.front()->number);
            if (first > 1)
                finding.details.push_back(
                    cat("the records begin with call ", first,
                        ": an earlier call can differ, and RANKMESH_CHECK=1 on all ranks "
                        "stops at the first one that does"));
        } else if (culprits.empty()) {
            say_that_none_ends(evidence, entry, finding);
        } else {
            finding.text =
                cat(evidence.places().ranks(culprits),
                    over.empty()           ? culprits.size() == 1 ? " has not begun " : " have not begun "
                    : culprits.size() == 1 ? " has not finished "
                                           : " have not finished ",
                    evidence.text(entry), ", which ", evidence.places().ranks(over.empty() ? started : over),
                    over.empty() ? " began" : " finished");
        }
        findings.push_back(std::move(finding));
        all.insert(ranks.begin(), ranks.end());
    }
    return all;
}

/// Adds the ranks for which others wait and that do not wait themselves.
void add_roots(const Evidence& evidence, const Standing& standing, const std::set<int>& unfinished,
               std::vector<Finding>& findings) {
    const auto waiting = standing.waiting();
    const auto& places = evidence.places();
    auto extra = std::set<int>{};
    for (const auto* one : waiting)
        if (is_extra(evidence, *one)) {
            findings.push_back(extra_finding(evidence, standing, *one));
            extra.insert(one->missing.begin(), one->missing.end());
        }
    auto absent = std::set<int>{};
    auto behind = std::set<int>{};
    for (const auto rank : standing.world_ranks(standing.graph().roots())) {
        if (!evidence.record(rank))
            absent.insert(rank);
        else if (!extra.contains(rank) && !unfinished.contains(rank))
            behind.insert(rank);
    }
    auto gone = std::set<int>{};
    for (const auto& [rank, record] : evidence.records()) {
        for (const auto other : record->missing)
            if (record->reason == "timeout" && !evidence.record(other)) absent.insert(other);
        for (const auto other : record->lost) {
            if (!evidence.record(other))
                absent.insert(other);
            else if (!evidence.left_by_consequence(other))
                gone.insert(other);
        }
    }

    const auto first_of = [&](const std::set<int>& ranks) -> const Standing::Waiting* {
        for (const auto* one : waiting)
            if (std::ranges::any_of(one->missing, [&](int rank) { return ranks.contains(rank); })) return one;
        return nullptr;
    };
    const auto start = [&](Finding::Kind kind, const std::set<int>& ranks) {
        const auto* one = first_of(ranks);
        auto finding = Finding{};
        if (one) finding = finding_on(kind, evidence.communicator_of(*one->entry), one->entry->number, {});
        finding.kind = kind;
        finding.ranks.assign(ranks.begin(), ranks.end());
        return finding;
    };
    const auto add_waits = [&](Finding& finding, const std::set<int>& ranks) {
        for (const auto* one : waiting) {
            if (finding.details.size() == most_details) break;
            if (std::ranges::any_of(one->missing, [&](int rank) { return ranks.contains(rank); }))
                finding.details.push_back(waits_text(evidence, *one));
        }
    };
    const auto held = standing.graph().held().size();

    if (!absent.empty()) {
        auto finding = start(Finding::Kind::absent, absent);
        auto lost = std::set<int>{};
        auto lost_by = std::vector<int>{};
        for (const auto& [rank, record] : evidence.records()) {
            auto found = false;
            for (const auto other : record->lost)
                if (absent.contains(other)) found = true, lost.insert(other);
            if (found) lost_by.push_back(rank);
        }
        const auto is_one = absent.size() == 1;
        const auto* unread = is_one ? evidence.unread(*absent.begin()) : nullptr;
        finding.text = cat(places.ranks(finding.ranks), " left no record",
                           unread ? cat(" that can be read: ", excerpt(unread->why, 300)) : "");
        auto reports = std::vector<std::string>{};
        for (const auto rank : finding.ranks)
            if (const auto [text, reporter] = evidence.reported(rank); !text.empty())
                reports.push_back(cat(places.rank(reporter), " reports that ",
                                      is_one ? "it" : places.rank(rank), " ", text));
        if (is_one && !reports.empty()) {
            finding.text += "; " + reports.front();
        } else {
            reports.resize(std::min(reports.size(), most_details));
            finding.details = reports;
        }
        if (!lost_by.empty())
            finding.text += cat(", and ", places.ranks(lost_by), " lost ",
                                lost == absent ? it_or_them(finding.ranks)
                                               : places.ranks(std::vector(lost.begin(), lost.end())),
                                ": ", lost.size() == 1 ? "its process has" : "their processes have",
                                " ended or cannot be reached");
        auto unknown = std::vector<int>{};
        std::ranges::copy_if(absent, std::back_inserter(unknown), [&](int rank) {
            return !lost.contains(rank) && !evidence.unread(rank) && evidence.reported(rank).first.empty();
        });
        if (!lost_by.empty() && !unknown.empty())
            finding.text += cat("; no other rank reports what happened to ", places.ranks(unknown));
        else if (lost_by.empty() && !unread && reports.empty())
            finding.text += is_one ? ": it died before it could write one, or the record is not here"
                                   : ": they died before they could write them, or the records are not here";
        if (held > 0)
            finding.text += cat("; ", ranks_that(held, "waits", "wait"), " for ", it_or_them(finding.ranks),
                                ", directly or through others");
        add_waits(finding, absent);
        findings.push_back(std::move(finding));
    }
    for (const auto rank : gone) {
        const auto& record = *evidence.record(rank);
        auto finding = start(Finding::Kind::left, {rank});
        finding.text = cat(places.rank(rank), " left",
                           record.reason.empty() ? "" : cat(", reason ", excerpt(record.reason)),
                           record.error.empty() ? "" : cat(": ", error_text(record.error, 300)));
        add_waits(finding, {rank});
        behind.erase(rank);
        findings.push_back(std::move(finding));
    }
    if (!behind.empty()) {
        auto finding = start(Finding::Kind::behind, behind);
        const auto* one = first_of(behind);
        const auto is_one = behind.size() == 1;
        finding.text = cat(places.ranks(finding.ranks), is_one ? " is behind" : " are behind");
        if (is_one) {
            const auto rank = *behind.begin();
            const auto& communicator = evidence.communicator_of(*one->entry);
            if (!one->entry->is_message)
                finding.text += cat(": ", communicator.find(rank)->last, " of ", one->entry->number,
                                    " calls made on ", communicator.text());
            finding.text += cat("; it ", doing(evidence, rank));
        } else {
            finding.details.push_back(
                cat(places.rank(*behind.begin()), " ", doing(evidence, *behind.begin())));
        }
        finding.text += cat("; ", ranks_that(held, "waits", "wait"), " for ", it_or_them(finding.ranks),
                            held == 1 ? "" : ", directly or through others");
        add_waits(finding, behind);
        if (one && !one->entry->is_message)
            if (auto difference = first_difference(evidence, evidence.communicator_of(*one->entry).ranks))
                finding.details.push_back(difference->text);
        findings.push_back(std::move(finding));
    }
}

}  // namespace

std::vector<Finding> waits(const Evidence& evidence, const Messages& messages,
                           const std::vector<Finding>& differing) {
    auto findings = differing_messages(evidence, messages);
    const auto standing = Standing(evidence, messages);
    if (const auto cycle = standing.graph().cycle(); !cycle.empty())
        findings.push_back(cycle_finding(evidence, standing, standing.world_ranks(cycle)));
    const auto unfinished = add_unfinished(evidence, standing, differing, findings);
    add_roots(evidence, standing, unfinished, findings);
    return findings;
}

}  // namespace rankmesh::detail::explaining
