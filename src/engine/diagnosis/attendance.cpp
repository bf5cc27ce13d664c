// SPDX-License-Identifier: Apache-2.0
#include "engine/diagnosis/attendance.hpp"

#include <utility>

#include <rankmesh/core/ranks.hpp>

#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

Failure with_ranks(std::string why, Attendance ranks) {
    return {.kind = Failure::Kind::timeout,
            .why = std::move(why),
            .arrived = std::move(ranks.arrived),
            .missing = std::move(ranks.missing),
            .seen = std::move(ranks.seen)};
}

/// `arrived ranks {0..2}, missing rank 3 [dp=3]`; `named` are the missing ranks.
std::string text_of(const std::vector<int>& arrived, const std::vector<int>& missing,
                    const std::string& named) {
    if (missing.empty() && !arrived.empty())
        return cat("all of ", ranks_to_string(arrived), " have arrived, but the call is not complete");
    return cat("arrived ", ranks_text(arrived), ", missing ", named);
}

}  // namespace

std::string last_seen(const std::vector<int>& missing, const Label& label,
                      const std::function<std::string(int)>& doing) {
    auto text = std::string{};
    const auto told = std::min(missing.size(), most_described);
    for (std::size_t i = 0; i < told; ++i)
        append(text, cat(i > 0 ? "; " : "", label.named({missing[i]}), " ", doing(missing[i])));
    if (told < missing.size()) append(text, cat("; and ", missing.size() - told, " more"));
    return text;
}

Attendance Attendance::of(const Label& label, int group_rank, const std::vector<int>& awaited,
                          const std::vector<Channel::PeerStatus>& statuses) {
    auto attendance = Attendance{};
    auto positions = std::vector<std::size_t>{};  // of the missing ranks
    for (auto i = 0; i < std::min(label.ranks.size(), static_cast<int>(statuses.size())); ++i) {
        const auto& status = statuses[static_cast<std::size_t>(i)];
        if (i == group_rank || (awaited.empty() && status.arrived))
            attendance.arrived.push_back(label.ranks[i]);
        else if (!awaited.empty() && !contains(awaited, i))
            continue;
        else if (!status.known)
            attendance.unreachable.push_back(label.ranks[i]);
        else
            positions.push_back(static_cast<std::size_t>(i));
    }
    // Of the two ends of an exchange one may have arrived: the end that does not answer is the missing one.
    const auto answers = [&](std::size_t i) { return statuses[i].answers; };
    if (!awaited.empty() && !std::ranges::all_of(positions, answers)) std::erase_if(positions, answers);
    for (const auto i : positions) attendance.missing.push_back(label.ranks[static_cast<int>(i)]);
    attendance.seen = last_seen(attendance.missing, label, [&](int rank) {
        const auto nth = std::ranges::find(attendance.missing, rank) - attendance.missing.begin();
        return statuses[positions[static_cast<std::size_t>(nth)]].doing;
    });
    return attendance;
}

std::string Attendance::text(const Label& label) const {
    if (unreachable.empty()) return text_of(arrived, missing, label.named(missing));
    return cat("arrived ", ranks_text(arrived),
               missing.empty() ? "" : cat(", missing ", label.named(missing)), ", no answer from ",
               label.named(unreachable),
               unreachable.size() == 1 ? ", which is on another host" : ", which are on other hosts");
}

Failure timeout_failure(Duration timeout, int rank, const std::string& what, const Label& label,
                        Attendance ranks) {
    auto why = cat("the timeout of ", to_text(timeout), " expired on rank ", rank, " in ", what, " on ",
                   label.text(), ", group ", to_string(label.ranks), ": ", ranks.text(label));
    return with_ranks(std::move(why), std::move(ranks));
}

Failure timeout_failure_elsewhere(const Label& label, Attendance ranks) {
    auto why = cat("a timeout expired on ", ranks_text(ranks.arrived), ", on ", label.text(), ", group ",
                   to_string(label.ranks), ": ", ranks.text(label));
    return with_ranks(std::move(why), std::move(ranks));
}

Timeout timeout_error_in(const std::string& phase, Duration timeout, int rank,
                         const std::vector<int>& arrived, const std::vector<int>& missing,
                         const std::string& missing_text, const std::string& seen) {
    return {cat("the timeout of ", to_text(timeout), " expired in ", phase, " on rank ", rank, ": ",
                text_of(arrived, missing, missing_text)),
            arrived, missing, seen};
}

}  // namespace rankmesh::detail
