// SPDX-License-Identifier: Apache-2.0
#include "engine/diagnosis/failure.hpp"

#include <rankmesh/core/detail/quote.hpp>
#include <rankmesh/core/ranks.hpp>

#include "engine/fields.hpp"

namespace rankmesh::detail {

std::exception_ptr Failure::error() const {
    switch (kind) {
        case Kind::timeout:
            return std::make_exception_ptr(Timeout(why, arrived, missing, seen));
        case Kind::gone:
        case Kind::left:
        case Kind::renewed:
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
    const auto names_lost = kind == Kind::gone || kind == Kind::left || kind == Kind::renewed;
    const auto is_broken = names_lost || kind == Kind::engine;
    auto members = names_lost ? lost : std::vector<int>{};
    if (!members.empty())
        std::erase_if(members, [all = label.ranks.list()](int each) { return !contains(all, each); });
    append(of_group.why,
           cat("; ", is_broken ? label.unusable(members) : cat(label.text(), " cannot be used any more")));
    return of_group.error();
}

std::string numbered(const Call& call, std::uint64_t number, const Ranks* ranks) {
    return cat(to_string(call, ranks),
               is_point_to_point(call.operation) ? ", message number " : ", call number ", number);
}

std::string to_text(const Failure& failure, std::size_t most) {
    auto text = std::string{};
    for (const auto* list : {&failure.lost, &failure.arrived, &failure.missing}) {
        const auto ranks = ranks_to_string(*list);
        append(text, ranks.size() < most / 4 ? ranks : "{}");  // the reason names them as well
        text += '\0';
    }
    text += failure.why;
    constexpr auto worth_sending = std::size_t{60};
    if (const auto used = text.size() + 2; !failure.seen.empty() && used + worth_sending < most)
        text += cat('\0', shortened(failure.seen, most - used));
    return text;
}

Failure failure_from(std::uint32_t kind, std::string_view text, std::size_t most_ranks) {
    auto fields = Fields(text, "what another rank tells of a failure");
    if (kind > static_cast<std::uint32_t>(Failure::Kind::renewed)) fields.throw_unreadable();
    auto failure = Failure{.kind = static_cast<Failure::Kind>(kind), .why = {}};
    for (auto* list : {&failure.lost, &failure.arrived, &failure.missing})
        *list = fields.ranks(fields.until('\0'), most_ranks);
    failure.why = fields.until('\0');
    if (!fields.at_end()) failure.seen = fields.until('\0');
    return failure;
}

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
