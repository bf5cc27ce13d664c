// SPDX-License-Identifier: Apache-2.0
#include "engine/failure.hpp"

#include <algorithm>
#include <utility>

#include <rankmesh/core/ranks.hpp>

#include "engine/timeout.hpp"

namespace rankmesh::detail {

std::exception_ptr Failure::error() const {
    switch (kind) {
        case Kind::timeout:
            return std::make_exception_ptr(Timeout(why, arrived, missing, seen));
        case Kind::gone:
        case Kind::left:
            return std::make_exception_ptr(PeerLost(why, lost));
        case Kind::disagreement:
            return std::make_exception_ptr(Disagreement(why, lost));
        case Kind::engine:
            break;
    }
    return std::make_exception_ptr(EngineFailure(why));
}

std::exception_ptr Failure::error(const Label& label) const {
    auto of_group = *this;
    const auto names_lost = kind == Kind::gone || kind == Kind::left;
    const auto is_broken = names_lost || kind == Kind::engine;
    auto members = names_lost ? lost : std::vector<int>{};
    if (!members.empty())
        std::erase_if(members, [all = label.ranks.list()](int each) { return !contains(all, each); });
    append(of_group.why,
           cat("; ", is_broken ? label.unusable(members) : cat(label.text(), " cannot be used any more")));
    return of_group.error();
}

std::string numbered(const Call& call, std::uint64_t number) {
    return cat(to_string(call), is_point_to_point(call.operation) ? ", message number " : ", call number ",
               number);
}

namespace {

/// `arrived {0..2}, missing 3 [dp=3]`.
std::string came_text(const std::vector<int>& arrived, const std::vector<int>& missing,
                      const std::string& missing_text) {
    if (missing.empty() && !arrived.empty())
        return cat("all of ", ranks_to_string(arrived), " have arrived, and it is not complete");
    return cat("arrived ", ranks_to_string(arrived), ", missing ", missing_text);
}

}  // namespace

Failure expired(Duration timeout, int rank, const std::string& what, const Label& label,
                std::vector<int> arrived, std::vector<int> missing, std::string seen) {
    auto why = cat("the timeout of ", to_text(timeout), " expired on rank ", rank, " in ", what, " on ",
                   label.text(), ", group ", to_string(label.ranks), ": ",
                   came_text(arrived, missing, label.named(missing)));
    return {.kind = Failure::Kind::timeout,
            .why = std::move(why),
            .arrived = std::move(arrived),
            .missing = std::move(missing),
            .seen = std::move(seen)};
}

Failure expired_elsewhere(const Label& label, std::vector<int> arrived, std::vector<int> missing,
                          std::string seen) {
    auto why = cat("a timeout expired on ", ranks_to_string(arrived), ", on ", label.text(), ", group ",
                   to_string(label.ranks), ": ", came_text(arrived, missing, label.named(missing)));
    return {.kind = Failure::Kind::timeout,
            .why = std::move(why),
            .arrived = std::move(arrived),
            .missing = std::move(missing),
            .seen = std::move(seen)};
}

Timeout expired_in(const std::string& phase, Duration timeout, int rank, const std::vector<int>& arrived,
                   const std::vector<int>& missing, const std::string& missing_text,
                   const std::string& seen) {
    return {cat("the timeout of ", to_text(timeout), " expired in ", phase, " on rank ", rank, ": ",
                came_text(arrived, missing, missing_text)),
            arrived, missing, seen};
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

}  // namespace rankmesh::detail
