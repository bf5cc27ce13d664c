// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/group_connector.hpp"

#include <exception>
#include <utility>

#include "engine/diagnosis/attendance.hpp"
#include "engine/gloo/descriptors.hpp"
#include "engine/gloo/transport/endpoint.hpp"
#include "engine/join/address_entries.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

/// Throws UsageError if the connections of these groups take more descriptors than this process may open.
void check_descriptors(std::span<const ChannelRequest> requests) {
    auto groups = std::vector<Connected>{};
    for (const auto& request : requests)
        groups.push_back({request.label->text(), request.label->ranks.size()});
    const auto found = descriptors_of(groups);
    if (!found.shortage.empty()) throw UsageError(found.shortage);
}

}  // namespace

void GroupConnector::announce(const std::string& key, std::span<const ChannelRequest> requests,
                              const std::shared_ptr<Network>& network) {
    last_ = {.name = cat("connections.", key)};
    check_descriptors(requests);
    auto entries = std::map<std::string, std::string>{};
    for (const auto& request : requests) {
        try {
            auto connections =
                std::make_shared<Connections>(network, request.group_rank, request.label->ranks.size());
            for (int i = 0; i < connections->size; ++i)
                if (i != connections->rank)
                    add_endpoint(entries[address_entry(request, i)], request.item, i,
                                 connections->endpoint_for(i));
            last_.waiting[request.key] = std::move(connections);
        } catch (const std::exception& error) {
            throw UsageError(
                cat("the connections of ", request.label->text(), " cannot be made: ", error.what()));
        }
    }
    for (const auto& [name, text] : entries) rendezvous_->publish(last_.name + name, text);
}

/// Reads the endpoints that the other ranks have announced, and connects to all of them.
void GroupConnector::exchange_endpoints(Connections& connections, const ChannelRequest& request) {
    const auto& ranks = request.label->ranks;
    const auto phase = cat("join, connecting ", request.label->text());
    const auto until = from_now(timeout_);
    const auto members = ranks.list();
    const auto late = [&](const std::vector<int>& arrived, const std::vector<int>& missing) {
        return timeout_error_in(phase, timeout_, rendezvous_->rank(), arrived, missing,
                                request.label->named(missing));
    };
    auto unread = members;
    const auto name = last_.name + address_entry(request, request.group_rank);
    auto& known = last_.read[name];
    std::erase_if(unread, [&](int each) { return each == rendezvous_->rank() || known.contains(each); });
    try {
        const auto texts = rendezvous_->fetch(phase, unread, name, members, until);
        for (std::size_t i = 0; i < unread.size(); ++i) known[unread[i]] = texts[i];
    } catch (const RelayedFailure&) {
        throw;
    } catch (const ServerSilent&) {
        throw;
    } catch (const Timeout& timeout) {
        throw late(timeout.arrived, timeout.missing);
    }
    auto endpoints = std::vector<std::string>(members.size());
    for (int i = 0; i < request.group_rank; ++i) {
        auto& endpoint = endpoints[static_cast<std::size_t>(i)];
        endpoint = endpoint_in(known.at(ranks[i]), request.item, request.group_rank);
        if (endpoint.empty())
            throw EngineFailure(cat(phase, " on rank ", rendezvous_->rank(), " failed: ",
                                    request.label->named({ranks[i]}), " has announced no connection for it"));
    }
    auto arrived = members;
    auto missing = std::vector<int>{};
    const auto look = [&] { rendezvous_->throw_if_failed(phase, members); };
    const auto has_ended = [&](int group_rank) { return contains(processes_->ended(), ranks[group_rank]); };
    for (const auto group_rank : connections.connect(endpoints, until, look, has_ended))
        missing.push_back(ranks[group_rank]);
    if (missing.empty()) return;
    std::erase_if(arrived, [&](int each) { return std::ranges::count(missing, each) > 0; });
    throw late(arrived, missing);
}

void GroupConnector::connect(const ChannelRequest& request, const std::shared_ptr<Network>& network,
                             const std::function<void(std::shared_ptr<Connections>)>& use) {
    const auto lazy = !last_.waiting.contains(request.key);
    if (lazy) {
        announce(request.key, {&request, 1}, network);
        auto& entries = entries_to_withdraw_[request.key];
        for (int i = 0; i < request.label->ranks.size(); i += peers_of_an_entry)
            entries.push_back(last_.name + address_entry(request, i));
    }
    const auto connections = last_.waiting.extract(request.key).mapped();
    const auto& ranks = request.label->ranks;
    const auto phase = cat("join, connecting ", request.label->text());
    connections->cause = [rendezvous = rendezvous_, where = last_.name](const Failure& failure) {
        return rendezvous->cause(where, failure);
    };
    // The other ranks get the failure before the connections end: else they would blame this rank.
    const auto fail = [&](Failure failure) {
        const auto cause = rendezvous_->give_up_for_cause(last_.name, failure);
        if (!lazy) rendezvous_->fail(last_.name, cause.value_or(failure));
        if (cause)
            RelayedFailure::raise(*cause, cat(phase, " cannot be completed on rank ", rendezvous_->rank()));
    };
    try {
        try {
            exchange_endpoints(*connections, request);
            use(connections);
        } catch (const Connections::Unreachable& error) {
            const auto lost = std::vector{ranks[error.group_rank]};
            throw PeerLost(cat(phase, " on rank ", rendezvous_->rank(),
                               " failed: ", request.label->named(lost), " cannot be reached: ", error.why),
                           lost);
        }
    } catch (const RelayedFailure& relayed) {
        rendezvous_->give_up(last_.name, relayed.failure);
        if (!lazy) rendezvous_->fail(last_.name, relayed.failure);  // to those that wait for this rank alone
        throw;
    } catch (const Timeout& timeout) {
        fail(Failure::of(timeout));
        throw;
    } catch (const PeerLost& lost) {
        fail(Failure::of(lost));
        throw;
    }
}

void GroupConnector::forget(const std::string& key) {
    const auto found = entries_to_withdraw_.find(key);
    if (found == entries_to_withdraw_.end()) return;
    for (const auto& name : found->second) rendezvous_->withdraw(name);
    entries_to_withdraw_.erase(found);
}

}  // namespace rankmesh::detail
