// SPDX-License-Identifier: Apache-2.0
#include "explain/messages.hpp"

#include <algorithm>
#include <utility>

#include "explain/findings.hpp"

namespace rankmesh::detail::explaining {

namespace {

bool sends(const RecordedEntry& entry) { return entry.call->operation.starts_with("send"); }
bool receives(const RecordedEntry& entry) {
    return entry.call->operation == "recv" || entry.call->operation == "send_recv";
}

}  // namespace

Messages::Messages(const Evidence& evidence) : evidence_(evidence) {
    const auto& communicators = evidence.communicators();
    for (std::size_t c = 0; c < communicators.size(); ++c) {
        for (const auto& member : communicators[c].members)
            for (const auto* entry : member.messages) {
                const auto [to, from] = peers(*entry);
                if (to >= 0) streams_[{static_cast<int>(c), member.rank, to}].sends.push_back(entry);
                if (from >= 0) streams_[{static_cast<int>(c), from, member.rank}].receives.push_back(entry);
            }
    }
    for (auto& [key, stream] : streams_) {
        const auto& [communicator, from, to] = key;
        for (const auto rank : {from, to}) {
            const auto* member = communicators[static_cast<std::size_t>(communicator)].find(rank);
            stream.is_whole = stream.is_whole && member && member->record && member->is_whole();
        }
    }
}

std::pair<int, int> Messages::peers(const RecordedEntry& entry) const {
    const auto& ranks = entry.group->ranks;
    const auto world = [&](const std::optional<std::int64_t>& number) {
        return number && *number >= 0 && *number < std::ssize(ranks)
                   ? ranks[static_cast<std::size_t>(*number)]
                   : -1;
    };
    const auto& call = *entry.call;
    if (call.operation == "send_recv") return {world(call.argument), world(call.source)};
    return {sends(entry) ? world(call.argument) : -1, receives(entry) ? world(call.argument) : -1};
}

bool Messages::has_come(const Key& key, const RecordedEntry& entry, bool is_send) const {
    const auto found = streams_.find(key);
    if (found == streams_.end()) return false;
    const auto& stream = found->second;
    const auto& mine = is_send ? stream.sends : stream.receives;
    const auto& theirs = is_send ? stream.receives : stream.sends;
    if (!stream.is_whole)
        return std::ranges::any_of(theirs, [](const auto* other) { return !Evidence::is_over(*other); });
    const auto number = static_cast<std::size_t>(std::ranges::find(mine, &entry) - mine.begin());
    if (number >= theirs.size()) return false;
    const auto& other = *theirs[number];
    const auto peer = is_send ? std::get<2>(key) : std::get<1>(key);
    const auto* doing = evidence_.whereabouts(peer).entry;
    const auto is_behind_another = Evidence::is_device(other) && other.state == RecordedState::scheduled &&
                                   doing && doing != &other && doing->number != other.number;
    return !is_behind_another;
}

/// Returns the ranks that could send the message for which a probe, or a recv from any rank, waits. Empty if
/// one of them has sent it.
std::vector<int> Messages::missing_senders(int rank, const RecordedEntry& entry) const {
    const auto communicator = evidence_.number_of(entry);
    auto ranks = std::vector<int>{};
    for (std::size_t i = 0; i < entry.group->ranks.size(); ++i) {
        const auto from = entry.group->ranks[i];
        if (from == rank ||
            std::cmp_not_equal(entry.call->argument.value_or(static_cast<std::int64_t>(i)), i))
            continue;
        const auto found = streams_.find({communicator, from, rank});
        if (found != streams_.end() && found->second.is_whole) {
            const auto& [sends, receives, whole] = found->second;
            if (sends.size() > receives.size() && sends[receives.size()]->call->tag == entry.call->tag)
                return {};
        }
        ranks.push_back(from);
    }
    return ranks;
}

std::vector<int> Messages::missing(int rank, const RecordedEntry& entry) const {
    if (entry.call->operation == "probe" || is_from_any(*entry.call)) return missing_senders(rank, entry);
    const auto [to, from] = peers(entry);
    const auto communicator = evidence_.number_of(entry);
    auto ranks = std::vector<int>{};
    if (to >= 0 && !has_come({communicator, rank, to}, entry, true)) ranks.push_back(to);
    if (from >= 0 && from != to && !has_come({communicator, from, rank}, entry, false)) ranks.push_back(from);
    return ranks;
}

std::vector<Finding> differing_messages(const Evidence& evidence, const Messages& messages) {
    auto findings = std::vector<Finding>{};
    const auto& places = evidence.places();
    for (const auto& [key, stream] : messages.streams()) {
        if (!stream.is_whole) continue;
        const auto& [number, from, to] = key;
        const auto& communicator = evidence.communicators()[static_cast<std::size_t>(number)];
        for (std::size_t i = 0; i < std::min(stream.sends.size(), stream.receives.size()); ++i) {
            const auto& send = *stream.sends[i]->call;
            const auto& receive = *stream.receives[i]->call;
            const auto same_type = send.input_dtypes.empty() || receive.output_dtypes.empty() ||
                                   send.input_dtypes.front() == receive.output_dtypes.front();
            if (same_type && elements_sent(send) == elements_received(receive) && send.tag == receive.tag)
                continue;
            auto finding = finding_on(Finding::Kind::calls_differ, communicator, stream.sends[i]->number,
                                      {std::min(from, to), std::max(from, to)});
            const auto tagged = send.tag != 0 || receive.tag != 0;
            const auto what = [&](std::int64_t elements, const std::vector<std::string>& types,
                                  std::int64_t tag) {
                return cat(elements, types.empty() ? "" : " " + excerpt(types.front()),
                           tagged ? cat(" with tag ", tag) : "");
            };
            finding.text =
                cat(places.rank(from), " sends ", what(elements_sent(send), send.input_dtypes, send.tag),
                    " to ", places.rank(to), ", which receives ",
                    what(elements_received(receive), receive.output_dtypes, receive.tag), ": message ", i + 1,
                    " from one to the other on ", communicator.text);
            findings.push_back(std::move(finding));
            break;
        }
    }
    // Look for an unreceived send and an unsent receive that share a rank.
    struct Open {
        int rank;
        const RecordedEntry* entry;
        int peer;
    };
    auto sending = std::map<int, Open>{};
    auto expecting = std::vector<Open>{};
    for (const auto& [rank, record] : evidence.records()) {
        const auto* entry = evidence.whereabouts(rank).entry;
        if (!entry || !entry->is_message || messages.missing(rank, *entry).empty()) continue;
        const auto [to, from] = messages.peers(*entry);
        if (to >= 0 && from < 0) sending.try_emplace(rank, Open{rank, entry, to});
        if (from >= 0 && to < 0) expecting.push_back({rank, entry, from});
    }
    for (const auto& open : expecting) {
        const auto other = sending.find(open.peer);
        if (other == sending.end() || other->second.peer == open.rank ||
            other->second.entry->group != open.entry->group)
            continue;
        const auto& send = other->second;
        auto finding =
            finding_on(Finding::Kind::peer, evidence.communicator_of(*send.entry), send.entry->number,
                       {std::min(send.rank, open.rank), std::max(send.rank, open.rank)});
        finding.text = cat(places.rank(send.rank), " waits in ", evidence.text(*send.entry), ", for ",
                           places.rank(send.peer), ", while ", places.rank(open.rank), " waits in ",
                           evidence.text(*open.entry), ", for ", places.rank(send.rank),
                           ": one of them names the wrong peer, or the sender has left a send out");
        findings.push_back(std::move(finding));
    }
    return findings;
}

}  // namespace rankmesh::detail::explaining
