// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <rankmesh/explain/order.hpp>

#include "explain/findings.hpp"
#include "explain/messages.hpp"
#include "explain/wait_graph.hpp"

namespace rankmesh::detail::explaining {

namespace {

constexpr std::size_t most_calls = 5'000'000;  // more than this takes minutes

/// Returns the lists of all ranks; nullopt if records have gaps.
std::optional<CallOrder> lists_of(const Evidence& evidence, const Messages& messages) {
    auto calls = std::size_t{0};
    for (const auto& [rank, record] : evidence.records()) calls += record->entries.size();
    if (calls == 0 || calls > most_calls) return std::nullopt;

    auto order = CallOrder(static_cast<int>(evidence.ranks().size()));
    auto has_all_messages = true;
    for (const auto& communicator : evidence.communicators()) {
        auto places = std::vector<int>{};
        for (const auto rank : communicator.ranks) places.push_back(evidence.place(rank));
        const auto number = order.communicator(communicator.label, places);
        for (const auto& member : communicator.members) {
            if (!member.record) continue;
            has_all_messages = has_all_messages && member.is_whole() && !member.record->is_torch;
            const auto& entries = member.collectives;
            for (std::size_t i = 1; i < entries.size(); ++i)
                if (entries[i]->number > entries[i - 1]->number + 1) return std::nullopt;
            order.skip(evidence.place(member.rank), number,
                       entries.empty() ? member.last : entries.front()->number - 1);
        }
    }
    for (const auto rank : evidence.ranks()) {
        const auto place = evidence.place(rank);
        const auto* record = evidence.record(rank);
        if (!record) {
            order.unknown(place);
            continue;
        }
        struct Started {
            int number;
            std::int64_t over_ns;
        };
        auto open = std::vector<Started>{};
        const RecordedEntry* last = nullptr;
        for (const auto& entry : record->entries) {
            // Wait for a started call before the first call that began after the started call was complete.
            std::erase_if(open, [&](const Started& started) {
                if (started.over_ns >= entry.created_ns) return false;
                order.wait(place, started.number);
                return true;
            });
            const auto communicator = evidence.number_of(entry);
            const auto name = excerpt(words_of(*entry.call));
            auto number = -1;
            if (entry.is_message) {
                if (!has_all_messages) continue;
                auto parts = std::vector<MessagePart>{};
                const auto [to, from] = messages.peers(entry);
                if (to >= 0) parts.push_back({MessagePart::Kind::send, evidence.place(to)});
                if (from >= 0) parts.push_back({MessagePart::Kind::recv, evidence.place(from)});
                if (parts.empty()) continue;
                if (entry.blocking)
                    order.messages(place, communicator, name, parts);
                else
                    number = order.start_messages(place, communicator, name, parts);
            } else {
                // Entries with one number are one call.
                if (last && last->group == entry.group && last->number == entry.number) continue;
                last = &entry;
                if (entry.blocking)
                    order.call(place, communicator, name);
                else
                    number = order.start(place, communicator, name);
            }
            if (number >= 0 && Evidence::is_over(entry)) open.push_back({number, entry.completed_ns});
        }
    }
    return order;
}

}  // namespace

std::vector<Finding> blocking_orders(const Evidence& evidence, const Messages& messages) {
    const auto order = lists_of(evidence, messages);
    if (!order) return {};
    auto deadlock = order->deadlock();
    if (!deadlock || !deadlock->is_cycle) return {};  // the end of a list is only the end of a record
    auto finding = Finding{};
    finding.kind = Finding::Kind::order;
    for (auto& link : deadlock->chain) {
        for (auto* rank : {&link.rank, &link.waits_for}) *rank = evidence.ranks()[at(*rank)];
        for (auto& rank : link.group) rank = evidence.ranks()[at(rank)];
        finding.ranks.push_back(link.rank);
    }
    std::ranges::sort(finding.ranks);
    auto concerned = std::vector<int>{};
    for (const auto& link : deadlock->chain)
        concerned.insert(concerned.end(), link.group.begin(), link.group.end());
    std::ranges::sort(concerned);
    concerned.erase(std::ranges::unique(concerned).begin(), concerned.end());
    const auto& first = deadlock->chain.front();
    finding.communicator = first.communicator;
    finding.group = first.group;
    finding.call = first.number;
    finding.text = cat(
        "nothing hangs in these records because messages were buffered; without buffering, these calls block "
        "in every run: ",
        text_of(*deadlock, evidence.places()));
    if (auto difference = first_difference(evidence, concerned)) {
        finding.ranks = difference->ranks;
        finding.details.push_back(difference->text);
    }
    return {finding};
}

}  // namespace rankmesh::detail::explaining
