// SPDX-License-Identifier: Apache-2.0
#include "engine/mpi/inquiry.hpp"

#include <algorithm>

#include "engine/diagnosis/failure.hpp"

namespace rankmesh::detail {

PeerQuery::Answers Inquiry::ask(const std::vector<int>& ranks, Duration patience) const {
    const auto number = call_.is_message() ? 0 : call_.number();
    return call_.world()->ask(ranks, call_.key(), number, self_, patience, patience > brief);
}

std::vector<Channel::PeerStatus> Inquiry::statuses_of(const PeerQuery& world, const std::vector<int>& ranks,
                                                      const PeerQuery::Answers& answers) {
    auto statuses = std::vector<Channel::PeerStatus>{};
    for (const auto rank : ranks) {
        const auto told = answers.told.find(rank);
        if (rank == world.rank())
            statuses.push_back({.arrived = true, .doing = {}});
        else if (told != answers.told.end())
            statuses.push_back({.arrived = told->second.arrived,
                                .doing = cat("is ", told->second.text),
                                .ended = told->second.ended});
        else if (contains(answers.mute, rank))
            statuses.push_back({.doing = missing_because::it_is_stopped, .answers = false});
        else if (world.is_local(rank))
            statuses.push_back({.doing = missing_because::its_process_ended, .answers = false});
        else
            statuses.push_back({.doing = {}, .known = false});
    }
    return statuses;
}

Attendance Inquiry::attendance() const {
    if (!call_.world()) return {};
    const auto& label = call_.label();
    const auto peer = call_.is_message() ? call_.call().argument : -1;
    auto ranks = std::vector<int>{};
    for (int i = 0; i < std::max(std::min(label.ranks.size(), most_asked), peer + 1); ++i)
        ranks.push_back(label.ranks[i]);
    const auto answers = ask(peer < 0 ? ranks : std::vector{ranks[static_cast<std::size_t>(peer)]}, patience);
    auto statuses = statuses_of(*call_.world(), ranks, answers);
    auto known_mute = answers.mute;
    auto described = std::size_t{0};
    for (std::size_t i = 0; i < ranks.size() && described < most_described; ++i) {
        auto& status = statuses[i];
        if (status.arrived || !status.known || (peer >= 0 && std::cmp_not_equal(i, peer))) continue;
        ++described;
        if (const auto answer = answers.told.find(ranks[i]); answer != answers.told.end())
            append(status.doing, who_is_awaited(ranks[i], answer->second, known_mute));
        else if (call_.is_start() && !contains(answers.mute, ranks[i]))
            status.doing = "has not come to it, or is gone";
    }
    const auto here = static_cast<int>(std::ranges::find(ranks, call_.world()->rank()) - ranks.begin());
    auto attendance =
        Attendance::of(label, here, peer < 0 ? std::vector<int>{} : std::vector{peer}, statuses);
    if (attendance.missing.empty()) attendance.seen = difference(answers);
    return attendance;
}

std::string Inquiry::difference(const PeerQuery::Answers& answers) const {
    const auto number = call_.number();
    const auto own = call_.collective(number);
    if (own.empty()) return {};
    auto calls = std::vector<DifferingCall>{};
    add_call(calls, own, call_.world()->rank());
    for (const auto& [rank, status] : answers.told)
        if (!status.call.empty()) add_call(calls, status.call, rank);
    if (calls.size() == 1) return "if the calls differ, RANKMESH_CHECK=1 names them";
    return differing_calls(number, call_.label(), std::move(calls)).why;
}

/// ` and waits for 5 [dp=2 tp=1]; rank 5 is stopped, or has no time to answer`, from rank to rank while each
/// waits for another one; "" for a rank that waits for none. The mute ranks are waited for once in a report.
std::string Inquiry::who_is_awaited(int rank, RankStatus status, std::vector<int>& mute) const {
    constexpr auto most_followed = 4;
    const auto& label = call_.label();
    auto text = std::string{};
    auto followed = std::vector<int>{call_.world()->rank(), rank};
    for (auto hop = 0; hop < most_followed && status.waits; ++hop) {
        const auto call = *status.waits;
        if (call.ranks.size() > most_asked) break;
        auto ranks = call.ranks;
        std::erase(ranks, followed.back());
        auto asked = ranks;
        std::erase_if(asked, [&](int each) { return contains(mute, each); });
        auto answers = call_.world()->ask(asked, call.key, call.number, self_, patience, true);
        mute.insert(mute.end(), answers.mute.begin(), answers.mute.end());
        // One that does not answer says more than one that waits as well.
        const auto is_silent = [&](int each) {
            return !answers.told.contains(each) && call_.world()->is_local(each) &&
                   each != call_.world()->rank();
        };
        auto found = std::ranges::find_if(ranks, is_silent);
        if (found == ranks.end())
            found = std::ranges::find_if(ranks, [&](int each) {
                const auto answer = answers.told.find(each);
                return answer != answers.told.end() && !answer->second.arrived;
            });
        if (found == ranks.end()) break;
        append(text, cat(" and waits for ", label.named({*found})));
        if (std::ranges::find(followed, *found) != followed.end()) break;
        followed.push_back(*found);
        if (is_silent(*found)) {
            append(text, cat("; rank ", *found, " ",
                             contains(mute, *found) ? missing_because::it_is_stopped
                                                    : missing_because::its_process_ended));
            break;
        }
        status = std::move(answers.told[*found]);
        append(text, cat("; rank ", *found, " is ", status.text));
    }
    return text;
}

}  // namespace rankmesh::detail
