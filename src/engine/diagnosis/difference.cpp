// SPDX-License-Identifier: Apache-2.0
#include "engine/diagnosis/difference.hpp"

#include <algorithm>

namespace rankmesh::detail {
namespace {

/// A tag of 0 is written only where the other end has another one.
std::string_view with_tag_0(const MessageEnd& end, const MessageEnd& other) {
    const auto has_tag = [](const MessageEnd& each) {
        return each.what.find(" with tag ") != each.what.npos;
    };
    return !has_tag(end) && has_tag(other) ? " with tag 0" : "";
}

}  // namespace

void add_call(std::vector<DifferingCall>& calls, const std::string& text, int rank) {
    auto known = std::ranges::find(calls, text, &DifferingCall::text);
    if (known == calls.end()) known = calls.insert(known, {text, {}, 0});
    known->ranks.push_back(rank);
    ++known->count;
}

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
            .why = cat("on ", label.text(), ", group ", to_string(label.ranks), ", ", sender.name, " sends ",
                       sender.what, with_tag_0(sender, receiver), " to ", receiver.name, ", which receives ",
                       receiver.what, with_tag_0(receiver, sender), ", message number ", number,
                       " from rank ", sender.rank, " to rank ", receiver.rank),
            .lost = {std::min(sender.rank, receiver.rank), std::max(sender.rank, receiver.rank)}};
}

}  // namespace rankmesh::detail
