// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "explain/findings.hpp"

namespace rankmesh::detail::explaining {

namespace {

constexpr std::size_t most_details = 3;

std::string it_or_them(const std::vector<int>& ranks) { return ranks.size() == 1 ? "it" : "them"; }

/// Returns true if most members of a group did not make the call in which the others wait, and did not fail
/// earlier.
bool is_extra(const Evidence& evidence, const Standing::Waiting& waiting) {
    if (waiting.entry->is_message) return false;
    for (const auto rank : waiting.missing) {
        const auto* record = evidence.record(rank);
        if (!record || evidence.whereabouts(rank).entry || evidence.gave_up_somewhere(rank)) return false;
        if (Evidence::says_wrong(*record) && !evidence.left_by_consequence(rank)) return false;
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

std::vector<int> listed(const std::set<int>& ranks) { return {ranks.begin(), ranks.end()}; }

/// Returns true for what peers say of a rank that left the communication before they did, without an error.
bool says_returned(std::string_view words) {
    return words.starts_with("has ended this communicator") || words.starts_with("has ended the world") ||
           words.starts_with("have ended this communicator") || words.starts_with("have ended the world");
}

class Roots {
public:
    Roots(const Evidence& evidence, const Standing& standing, const std::set<int>& unfinished)
        : evidence_(evidence),
          places_(evidence.places()),
          waiting_(standing.waiting()),
          held_(standing.graph().held().size()) {
        auto extra = std::set<int>{};
        for (const auto* one : waiting_)
            if (is_extra(evidence, *one)) {
                findings.push_back(extra_finding(evidence, standing, *one));
                extra.insert(one->missing.begin(), one->missing.end());
            }
        for (const auto rank : standing.world_ranks(standing.graph().roots())) {
            if (evidence.gave_up_somewhere(rank)) continue;
            if (!evidence.record(rank))
                absent_.insert(rank);
            else if (evidence.is_told_ended(rank))
                gone_.insert(rank);
            else if (!extra.contains(rank) && !unfinished.contains(rank))
                behind_.insert(rank);
        }
        for (const auto& [rank, record] : evidence.records()) {
            if (record->reason == "ended") gone_.insert(rank);
            for (const auto other : record->missing)
                if (record->reason == "timeout" && !evidence.record(other)) absent_.insert(other);
            for (const auto other : record->lost) {
                lost_by_[other].push_back(rank);
                if (!evidence.record(other))
                    absent_.insert(other);
                else if (!evidence.left_by_consequence(other))
                    gone_.insert(other);
            }
        }
        // In logs, silence is a weaker sign than a rank's own error.
        if (!absent_.empty() && (gone_.empty() || !evidence.has_only_logs())) add_absent();
        auto gone = listed(gone_);
        std::ranges::stable_sort(gone, {}, [&](int rank) { return order_of(*evidence.record(rank)); });
        for (const auto rank : gone) add_left(rank);
        if (!behind_.empty()) add_behind();
    }

    std::vector<Finding> findings;

private:
    const Standing::Waiting* first_of(const std::set<int>& ranks) const {
        for (const auto* one : waiting_)
            if (std::ranges::any_of(one->missing, [&](int rank) { return ranks.contains(rank); })) return one;
        return nullptr;
    }
    Finding start(Finding::Kind kind, const std::set<int>& awaited, const std::set<int>& ranks) const {
        const auto* one = first_of(awaited);
        auto finding = Finding{};
        if (one) finding = finding_on(kind, evidence_.communicator_of(*one->entry), one->entry->number, {});
        finding.kind = kind;
        finding.ranks = listed(ranks);
        return finding;
    }
    void add_waits(Finding& finding, const std::set<int>& ranks) const {
        for (const auto* one : waiting_) {
            if (finding.details.size() >= most_details) break;
            if (std::ranges::any_of(one->missing, [&](int rank) { return ranks.contains(rank); }))
                finding.details.push_back(waits_text(evidence_, *one));
        }
    }
    /// `; 3 ranks wait for it, directly or through others`.
    std::string held_text(const std::vector<int>& ranks) const {
        return held_ == 0 ? ""
                          : cat("; ", ranks_that(held_, "waits", "wait"), " for ", it_or_them(ranks),
                                held_ == 1 ? "" : ", directly or through others");
    }

    void add_absent();
    void say_lost(Finding& finding, const std::set<int>& lost) const;
    void say_missed(Finding& finding, const std::set<int>& lost) const;
    void add_left(int rank);
    void add_behind();

    const Evidence& evidence_;
    const Places& places_;
    std::vector<const Standing::Waiting*> waiting_;
    std::size_t held_;  // ranks that wait
    std::set<int> absent_;
    std::set<int> gone_;
    std::set<int> behind_;
    std::map<int, std::vector<int>> lost_by_;
};

/// Adds ranks without a record. Ranks whose records cannot be read are only blamed if there are no others.
void Roots::add_absent() {
    auto none = std::set<int>{};
    auto unread = std::set<int>{};
    auto lost = std::set<int>{};
    for (const auto rank : absent_) {
        (evidence_.unread(rank) ? unread : none).insert(rank);
        if (lost_by_.contains(rank)) lost.insert(rank);
    }
    auto blamed = none.empty() ? unread : none;
    blamed.insert(lost.begin(), lost.end());
    auto finding = start(Finding::Kind::absent, absent_, blamed);
    const auto& first = none.empty() ? unread : none;
    finding.text = cat(places_.ranks(listed(first)), !evidence_.has_only_logs() ? " left no record"
                                                     : first.size() == 1        ? " reports nothing"
                                                                                : " report nothing");
    if (none.empty()) finding.text += " that can be read";
    if (none.empty() && first.size() == 1)
        finding.text += cat(": ", excerpt(evidence_.unread(*first.begin())->why, 300));
    say_missed(finding, lost);
    if (!lost.empty()) say_lost(finding, lost);
    auto unknown = std::set<int>{};
    std::ranges::copy_if(none, std::inserter(unknown, unknown.end()), [&](int rank) {
        return !lost.contains(rank) && evidence_.reported(rank).first.empty();
    });
    if (!lost.empty() && !unknown.empty())
        finding.text += cat("; no other rank reports what happened to ", places_.ranks(listed(unknown)));
    else if (lost.empty() && unknown == none && !none.empty() && !evidence_.has_only_logs())
        finding.text += none.size() == 1
                            ? ": it died before it could write one, or the record is not here"
                            : ": they died before they could write them, or the records are not here";
    finding.text += held_text(finding.ranks);
    if (!none.empty() && !unread.empty())
        finding.details.push_back(cat(unread.size() == 1 ? "the record of " : "the records of ",
                                      places_.ranks(listed(unread)),
                                      " cannot be read, so what they did is not known"));
    add_waits(finding, absent_);
    findings.push_back(std::move(finding));
}

/// Adds what peers say about the ranks that they lost.
void Roots::say_lost(Finding& finding, const std::set<int>& lost) const {
    auto by = std::set<int>{};
    auto said = std::map<std::string, std::set<int>>{};
    for (const auto rank : lost) {
        by.insert(lost_by_.at(rank).begin(), lost_by_.at(rank).end());
        said[evidence_.reported(rank).first].insert(rank);
    }
    const auto& words = said.begin()->first;
    finding.text +=
        cat(", and ", places_.ranks(listed(by)), " lost ",
            listed(lost) == finding.ranks ? it_or_them(finding.ranks) : places_.ranks(listed(lost)));
    if (said.size() == 1 && !words.empty()) {
        // `is gone: its process has ended or cannot be reached`.
        const auto is_gone = words.starts_with("is gone: ") || words.starts_with("are gone: ");
        finding.text += is_gone ? cat(": ", words.substr(words.find(": ") + 2))
                                : cat(": ", lost.size() == 1 ? "it " : "they ", words);
    } else {
        for (const auto& [text, ranks] : said)
            if (!text.empty()) finding.details.push_back(cat(places_.ranks(listed(ranks)), " ", text));
    }
    for (const auto& [text, ranks] : said)
        if (says_returned(text))
            finding.details.push_back(cat(
                places_.ranks(listed(ranks)), " returned early: look at the branch that ",
                ranks.size() == 1 ? "it" : "they", " took, such as a return, or a loop that ended sooner"));
}

/// Adds what the timeouts of peers say about ranks that they did not lose.
void Roots::say_missed(Finding& finding, const std::set<int>& lost) const {
    auto reports = std::vector<std::string>{};
    for (const auto rank : finding.ranks) {
        if (lost.contains(rank) || reports.size() == most_details) continue;
        if (const auto& [text, reporter] = evidence_.reported(rank); !text.empty())
            reports.push_back(cat(places_.rank(reporter), " reports that ",
                                  finding.ranks.size() == 1 ? "it" : places_.rank(rank), " ", text));
    }
    if (finding.ranks.size() == 1 && !reports.empty())
        finding.text += "; " + reports.front();
    else
        finding.details = std::move(reports);
}

void Roots::add_left(int rank) {
    const auto& record = *evidence_.record(rank);
    auto finding = start(Finding::Kind::left, {rank}, {rank});
    const auto& told = evidence_.reported(rank).first;
    if (!record.error_at.empty())
        finding.text = cat(places_.rank(rank), record.reason == "ended" ? " " : " left: ", said_text(record));
    else
        finding.text = cat(places_.rank(rank), " left",
                           record.reason.empty() ? "" : cat(", reason ", excerpt(record.reason)),
                           !record.error.empty() ? cat(": ", error_text(record.error, 300))
                           : told.empty()        ? ""
                                                 : cat(": it ", told));
    add_waits(finding, {rank});
    behind_.erase(rank);
    findings.push_back(std::move(finding));
}

void Roots::add_behind() {
    auto finding = start(Finding::Kind::behind, behind_, behind_);
    const auto* one = first_of(behind_);
    const auto first = *behind_.begin();
    finding.text = cat(places_.ranks(finding.ranks), behind_.size() == 1 ? " is behind" : " are behind");
    auto made = std::string{};
    if (one && !one->entry->is_message) {
        const auto& communicator = evidence_.communicator_of(*one->entry);
        const auto* member = communicator.find(first);
        made = cat(": ", member ? member->last : 0, " of ", one->entry->number, " calls made on ",
                   communicator.text);
    }
    const auto is_log = evidence_.record(first)->is_log;  // which names only calls that failed
    if (behind_.size() == 1)
        finding.text += cat(made, is_log ? "" : cat("; it ", doing(evidence_, first)));
    else
        finding.details.push_back(
            cat(places_.rank(first), is_log ? made : cat(" ", doing(evidence_, first))));
    finding.text += held_text(finding.ranks);
    add_waits(finding, behind_);
    if (one && !one->entry->is_message)
        if (auto difference = first_difference(evidence_, evidence_.communicator_of(*one->entry).ranks))
            finding.details.push_back(difference->text);
    findings.push_back(std::move(finding));
}

}  // namespace

std::vector<Finding> awaited_ranks(const Evidence& evidence, const Standing& standing,
                                   const std::set<int>& unfinished) {
    return Roots(evidence, standing, unfinished).findings;
}

}  // namespace rankmesh::detail::explaining
