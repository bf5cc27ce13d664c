// SPDX-License-Identifier: Apache-2.0
#include "engine/diagnosis/difference.hpp"

#include <algorithm>

namespace rankmesh::detail {

Failure differing_calls(std::uint64_t number, const Label& label, std::vector<DifferingCall> calls,
                        const std::vector<int>& silent, bool of_two) {
    constexpr auto most_told = std::size_t{8};
    std::ranges::stable_sort(calls, [](const auto& a, const auto& b) { return a.count > b.count; });
    auto failure = Failure{.kind = Failure::Kind::disagreement,
                           .why = cat("call number ", number, " on ", label.text(), ", group ",
                                      to_string(label.ranks), ", is not the same on all its ranks: ")};
    for (std::size_t i = 0; i < calls.size(); ++i) {
        auto& [text, ranks, count] = calls[i];
        std::ranges::sort(ranks);
        if (i < most_told) append(failure.why, cat(i > 0 ? "; " : "", text, " on ", label.named(ranks)));
        if (i < most_told && count > ranks.size())
            append(failure.why, cat(" and ", count - ranks.size(), " more"));
        if (i > 0 || of_two) failure.lost.insert(failure.lost.end(), ranks.begin(), ranks.end());
    }
    if (calls.size() > most_told) append(failure.why, cat("; and ", calls.size() - most_told, " more"));
    if (!silent.empty()) append(failure.why, cat("; no answer from ", label.named(silent)));
    std::ranges::sort(failure.lost);
    return failure;
}

Failure differing_ends(std::uint64_t number, const Label& label, const MessageEnd& sender,
                       const MessageEnd& receiver) {
    return {.kind = Failure::Kind::disagreement,
            .why = cat("on ", label.text(), ", group ", to_string(label.ranks), ", rank ", sender.name,
                       " sends ", sender.what, " to rank ", receiver.name, ", which receives ", receiver.what,
                       ", in message number ", number, " between them that way"),
            .lost = {std::min(sender.rank, receiver.rank), std::max(sender.rank, receiver.rank)}};
}

}  // namespace rankmesh::detail
