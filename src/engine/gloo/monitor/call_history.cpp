// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/monitor/call_history.hpp"

#include <algorithm>
#include <cstring>

#include "engine/hash.hpp"

namespace rankmesh::detail {
namespace {

/// A call in a list of known calls.
struct ListedCall {
    CallHistory::Kind kind;
    std::uint32_t lane = 0;
    std::uint64_t number;
    std::uint64_t fingerprint;
};

std::uint64_t mixed(std::uint64_t start, std::uint64_t number) {
    return hash({reinterpret_cast<const char*>(&number), sizeof number}, start);
}

}  // namespace

std::uint64_t CallHistory::add(const Call& call, std::uint64_t number, int size) {
    auto& entry = next();
    entry.kind = Kind::collective;
    entry.peer = -1;
    entry.lane = 0;
    entry.number = number;
    entry.agreed = Agreed::of(call);
    entry.unit = call.unit;
    const auto n = static_cast<std::size_t>(size);
    entry.gives.clear();
    entry.expects.clear();
    for (std::size_t i = 0; i < n && entry.has_counts(); ++i) {
        entry.gives.push_back(given_to(call, static_cast<int>(i)));
        entry.expects.push_back(expected_from(call, static_cast<int>(i)));
    }
    return mixed(hash(entry.agreed.bytes()), number);
}

std::uint64_t CallHistory::add(Kind kind, int peer, const Call& call) {
    auto& entry = next();
    entry.kind = kind;
    entry.peer = peer;
    entry.lane = lane_of(call);
    entry.number = ++messages_[{peer, entry.lane}][kind == Kind::recv ? 1 : 0];
    entry.agreed = agreed_of(kind, call);
    entry.unit = call.unit;
    entry.gives.clear();
    entry.expects.clear();
    return mixed(hash(entry.agreed.bytes()), entry.number);
}

std::uint64_t CallHistory::mark_of_next(int from, const Call& call) const {
    const auto found = messages_.find({from, lane_of(call)});
    const auto received = found != messages_.end() ? found->second[1] : 0;
    return mixed(hash(agreed_of(Kind::recv, call).bytes()), received + 1);
}

const CallHistory::Entry* CallHistory::find(Kind kind, int peer, std::uint64_t number,
                                            std::uint32_t lane) const {
    const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) {
        return entry.number == number && entry.kind == kind &&
               (kind == Kind::collective || (entry.peer == peer && entry.lane == lane));
    });
    return found == entries_.end() || number == 0 ? nullptr : &*found;
}

/// A hash of what two ranks must agree on, the same on both.
std::uint64_t CallHistory::between(const Entry& entry, int own, int peer) {
    auto fingerprint = hash(entry.agreed.bytes());
    if (!entry.has_counts()) return fingerprint;
    const auto p = static_cast<std::size_t>(peer);
    const auto up = own < peer ? entry.gives[p] : entry.expects[p];
    const auto down = own < peer ? entry.expects[p] : entry.gives[p];
    return mixed(mixed(fingerprint, up), down);
}

std::string CallHistory::list_for(int peer, int own) const {
    auto text = std::string{};
    const auto kept = std::min(added_, entries_.size());
    auto listed = std::size_t{0};
    for (auto back = std::size_t{1}; back <= kept && listed < most_listed; ++back) {
        const auto& entry = entries_[(added_ - back) % entries_.size()];
        if (entry.kind != Kind::collective && entry.peer != peer) continue;
        const auto each = ListedCall{.kind = entry.kind,
                                     .lane = entry.lane,
                                     .number = entry.number,
                                     .fingerprint = between(entry, own, peer)};
        text.append(reinterpret_cast<const char*>(&each), sizeof each);
        ++listed;
    }
    return text;
}

const CallHistory::Entry* CallHistory::first_difference(int from, int own, const char* listed,
                                                        std::size_t bytes) const {
    const Entry* first = nullptr;
    for (std::size_t at = 0; at + sizeof(ListedCall) <= bytes; at += sizeof(ListedCall)) {
        auto each = ListedCall{};
        std::memcpy(&each, listed + at, sizeof each);
        if (each.number == 0) break;
        const auto* entry = find(other_end(each.kind), from, each.number, each.lane);
        if (entry && between(*entry, own, from) != each.fingerprint &&
            (!first || entry->number < first->number))
            first = entry;
    }
    return first;
}

}  // namespace rankmesh::detail
