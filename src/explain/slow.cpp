// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/explain/slow.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>

#include "explain/findings.hpp"
#include "explain/meetings.hpp"

namespace rankmesh {
namespace detail::explaining {
namespace {

constexpr double alike_share = 0.5;  // of the excess of the slowest, from which others are slow with it
constexpr std::size_t most_named = 4;
constexpr double least_certainty = 3;  // standard errors by which a mean excess is not noise

/// By how much calls of a rank, or of a group, took longer than others' equal calls.
struct Excess {
    std::vector<double> seconds = {};
    std::vector<const Meeting*> meetings = {};

    void add(double more, const Meeting& meeting) {
        seconds.push_back(more);
        meetings.push_back(&meeting);
    }
    double sum() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }
    std::size_t largest() const {
        return static_cast<std::size_t>(std::ranges::max_element(seconds) - seconds.begin());
    }
    bool is_once() const { return seconds[largest()] > 0.5 * sum() && seconds.size() > 4; }
    /// Returns true if the mean is larger than its standard error explains.
    bool is_certain() const {
        const auto n = static_cast<double>(seconds.size());
        const auto mean = sum() / n;
        auto squares = 0.0;
        for (const auto each : seconds) squares += (each - mean) * (each - mean);
        return n > 1 && mean * n >= least_certainty * std::sqrt(squares / (n - 1) * n);
    }
    /// Adds to `larger` what is more than half of the mean.
    void add_larger(std::vector<double>& larger) const {
        const auto least = sum() / static_cast<double>(seconds.size()) / 2;
        std::ranges::copy_if(seconds, std::back_inserter(larger), [&](double each) { return each > least; });
    }
};

/// The keys whose excess is a large part of the time, and as large as that of the slowest.
template <class Key>
std::vector<Key> slow_among(const std::map<Key, Excess>& all, double span, bool once, double noticed) {
    auto sums = std::vector<double>{};
    for (const auto& [key, excess] : all) sums.push_back(excess.sum());
    const auto common = middle(sums);
    auto most = 0.0;
    const auto counts = [&](const Excess& excess) {
        return excess.sum() - common >= SlowReport::least_share * span &&
               (once ? excess.is_once() && excess.seconds[excess.largest()] > 2 * noticed
                     : !excess.is_once() && excess.is_certain());
    };
    for (const auto& [key, excess] : all)
        if (counts(excess)) most = std::max(most, excess.sum() - common);
    auto slow = std::vector<Key>{};
    for (const auto& [key, excess] : all)
        if (counts(excess) && excess.sum() - common >= alike_share * most) slow.push_back(key);
    return slow;
}

class Slowness {
public:
    Slowness(const Evidence& evidence, const std::optional<Cluster>& cluster)
        : evidence_(evidence), cluster_(cluster), meetings_(evidence) {}

    SlowReport report() {
        auto report = SlowReport{.clock_error = meetings_.clock_error};
        if (meetings_.all.empty()) {
            report.doubts.push_back(
                "no collective of two or more ranks has ended in these records, or they do not say when; "
                "write "
                "records of all ranks while the job runs, of NCCL with TORCH_NCCL_ENABLE_TIMING=1");
            return report;
        }
        measure(report);
        find_slow_ranks(report, false);
        find_slow_ranks(report, true);
        find_slow_groups(report);
        std::ranges::stable_sort(report.findings, std::greater{}, &SlowFinding::seconds);
        for (auto& finding : report.findings)
            finding.details.push_back(cat("this takes about ", time_text(finding.seconds), " of the ",
                                          time_text(report.span), " from the first call to the last"));
        return report;
    }

private:
    /// Fills the rows of groups and ranks, and the excesses.
    void measure(SlowReport& report) {
        auto times = std::map<int, RankTime>{};
        auto rows = std::map<const Communicator*, std::map<int, std::vector<const Meeting*>>>{};
        auto first = meetings_.all.front().visits.front().entered;
        auto last = first;
        for (const auto& meeting : meetings_.all) {
            rows[meeting.communicator][meeting.last().rank].push_back(&meeting);
            for (const auto& visit : meeting.visits) {
                auto& time = times[visit.rank];
                const auto waits =
                    std::clamp(meeting.last().entered - visit.entered, 0.0, visit.left - visit.entered);
                time.computes += visit.computed.value_or(0);
                time.waits += waits;
                time.transfers += visit.left - visit.entered - waits;
                first = std::min(first, visit.entered);
                last = std::max(last, visit.left);
            }
        }
        report.span = last - first;
        for (auto& [rank, time] : times) {
            time.rank = rank;
            report.times.push_back(time);
        }
        for (const auto& [rank, record] : evidence_.records())
            if (!times.contains(rank)) report.unjudged.push_back(rank);
        for (const auto& [communicator, by_rank] : rows)
            report.last.push_back(row_of(*communicator, by_rank));
        std::ranges::stable_sort(report.last, std::greater{}, &LastRank::waited);
        for (const auto& [key, meetings] : meetings_.alike()) compare(meetings);
    }

    static LastRank row_of(const Communicator& communicator,
                           const std::map<int, std::vector<const Meeting*>>& by_rank) {
        const auto& [rank, most] =
            *std::ranges::max_element(by_rank, {}, [](const auto& each) { return each.second.size(); });
        auto row = LastRank{.communicator = communicator.label,
                            .axes = communicator.axes,
                            .group = communicator.ranks,
                            .rank = rank};
        for (const auto& [other, meetings] : by_rank) row.calls += static_cast<int>(meetings.size());
        row.last = static_cast<int>(most.size());
        auto late = std::vector<double>{};
        for (const auto* meeting : most) {
            late.push_back(meeting->last().entered - meeting->visits[meeting->visits.size() - 2].entered);
            row.waited += waited_in(*meeting);
        }
        row.late = middle(std::move(late));
        return row;
    }

    static double waited_in(const Meeting& meeting) {
        auto waited = 0.0;
        for (const auto& visit : meeting.visits) waited += meeting.last().entered - visit.entered;
        return waited;
    }

    /// Compares what ranks and groups take for equal calls.
    void compare(const std::vector<const Meeting*>& meetings) {
        auto computed = std::vector<double>{};
        auto transfers = std::vector<double>{};
        for (const auto* meeting : meetings) {
            transfers.push_back(meeting->transfer());
            for (const auto& visit : meeting->visits)
                if (visit.computed) computed.push_back(*visit.computed);
        }
        const auto usual = middle(std::move(computed));
        const auto usual_transfer = middle(std::move(transfers));
        for (const auto* meeting : meetings) {
            for (const auto& visit : meeting->visits)
                if (visit.computed) of_ranks_[visit.rank].add(*visit.computed - usual, *meeting);
            if (meetings.size() > 1)
                of_groups_[meeting->communicator].add(meeting->transfer() - usual_transfer, *meeting);
        }
    }

    void find_slow_ranks(SlowReport& report, bool once) {
        const auto slow = slow_among(of_ranks_, report.span, once, meetings_.noticed);
        if (slow.empty()) return;
        auto finding = SlowFinding{.kind = once ? SlowFinding::Kind::paused : SlowFinding::Kind::computes};
        auto calls = std::size_t{0};
        auto larger = std::vector<double>{};
        for (const auto rank : slow) {
            const auto& excess = of_ranks_.at(rank);
            finding.seconds = std::max(finding.seconds, excess.sum());
            calls += excess.seconds.size();
            excess.add_larger(larger);
        }
        finding.ranks = slow;
        auto by_group = std::map<std::string, double>{};
        for (const auto& meeting : meetings_.all)
            if (std::ranges::binary_search(slow, meeting.last().rank)) {
                finding.lost += waited_in(meeting);
                by_group[meeting.communicator->text] += waited_in(meeting);
            }
        const auto who = cat(unit_of(slow), evidence_.places().ranks(slow));
        const auto& first = of_ranks_.at(slow.front());
        const auto one = slow.size() == 1;
        finding.text =
            once ? cat(who,
                       one ? " pauses once: " : " pause once: ", time_text(first.seconds[first.largest()]),
                       " more than others before ", text_of_call(*first.meetings[first.largest()]))
                 : cat(who, one ? " computes longer between calls: " : " compute longer between calls: ",
                       time_text(std::accumulate(larger.begin(), larger.end(), 0.0) /
                                 static_cast<double>(larger.size())),
                       " more than others in ", larger.size(), " of ", calls, " calls");
        if (const auto most =
                std::ranges::max_element(by_group, {}, [](const auto& each) { return each.second; });
            most != by_group.end())
            finding.details.push_back(cat("the other ranks waited ", time_text(finding.lost), " for ",
                                          one ? "it" : "them", " together, most on ", most->first));
        add(report, std::move(finding));
    }

    void find_slow_groups(SlowReport& report) {
        const auto slow = slow_among(of_groups_, report.span, false, meetings_.noticed);
        if (slow.empty()) return;
        auto finding = SlowFinding{.kind = SlowFinding::Kind::transfers};
        auto shared = std::map<int, std::size_t>{};
        for (const auto* communicator : slow) {
            finding.seconds = std::max(finding.seconds, of_groups_.at(communicator).sum());
            for (const auto rank : communicator->ranks) ++shared[rank];
        }
        for (const auto& [rank, times] : shared)
            if (times == slow.size()) finding.ranks.push_back(rank);
        if (finding.ranks.empty())
            for (const auto& [rank, times] : shared) finding.ranks.push_back(rank);
        const auto& first = of_groups_.at(slow.front());
        finding.text =
            cat("calls on ", slow.front()->text,
                slow.size() > 1 ? cat(" and ", counted(slow.size() - 1, "other group")) : std::string{},
                " take ", time_text(first.sum() / static_cast<double>(first.seconds.size())),
                " longer than the same calls of other groups, after their last rank has come");
        finding.details.push_back(
            cat("look at the network of ", unit_of(finding.ranks), evidence_.places().ranks(finding.ranks)));
        add(report, std::move(finding));
    }

    void add(SlowReport& report, SlowFinding finding) const {
        set_places(evidence_, finding);
        auto hosts = std::set<std::string>(finding.hosts.begin(), finding.hosts.end());
        hosts.erase("");
        auto text = std::string{};
        for (const auto& host : hosts) append(text, cat(text.empty() ? "" : ", ", excerpt(host)));
        if (hosts.size() > most_named) text = cat(hosts.size(), " hosts");
        if (!hosts.empty())
            finding.details.push_back(cat(finding.ranks.size() == 1 ? "it is on " : "they are on ", text));
        report.findings.push_back(std::move(finding));
    }

    /// Returns `host b, `, or `rack 1, `, if exactly its ranks are meant.
    std::string unit_of(const std::vector<int>& ranks) const {
        const auto all_on = [&](const auto& unit) {
            const auto mine = unit(ranks.front());
            return std::ranges::all_of(evidence_.records(), [&](const auto& each) {
                return std::ranges::binary_search(ranks, each.first) == (unit(each.first) == mine);
            });
        };
        if (cluster_ && evidence_.ranks().back() < cluster_->size())
            for (int level = 0; level + 1 < cluster_->level_count(); ++level)
                if (all_on([&](int rank) { return cluster_->unit(rank, level); }))
                    return cat(cluster_->unit_name(cluster_->unit(ranks.front(), level), level), ", ");
        const auto host = [&](int rank) {
            return evidence_.record(rank) ? evidence_.record(rank)->host : "";
        };
        return !host(ranks.front()).empty() && all_on(host) ? cat("host ", excerpt(host(ranks.front())), ", ")
                                                            : "";
    }

    std::string text_of_call(const Meeting& meeting) const {
        const auto* member = meeting.communicator->find(meeting.visits.front().rank);
        return evidence_.text(*member->find(meeting.number));
    }

    const Evidence& evidence_;
    const std::optional<Cluster>& cluster_;
    const Meetings meetings_;
    std::map<int, Excess> of_ranks_;
    std::map<const Communicator*, Excess> of_groups_;
};

}  // namespace
}  // namespace detail::explaining

SlowReport explain_slow(std::span<const FlightRecord> records, const std::optional<Placement>& where,
                        const std::optional<Cluster>& cluster) {
    using namespace detail::explaining;
    const auto evidence = Evidence(records, {}, where ? Places(*where) : places_of(records));
    return Slowness(evidence, cluster).report();
}

std::string_view to_string(SlowFinding::Kind kind) {
    constexpr std::string_view names[] = {"computes", "paused", "transfers"};
    return names[static_cast<std::size_t>(kind)];
}

}  // namespace rankmesh
