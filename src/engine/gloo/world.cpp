// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/world.hpp"

#include <exception>

#include "engine/fields.hpp"
#include "engine/gloo/transport/network.hpp"
#include "engine/system.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

constexpr auto longest_host = std::size_t{255};

/// The name of this host as one line says it.
std::string line_of_host() {
    auto host = host_name().substr(0, longest_host);
    std::ranges::replace(host, '\n', ' ');
    return host;
}

/// The ranks whose connections broke, and those of this host whose processes have ended; in order.
std::vector<int> all_ended(const Ended& ended, LocalProcesses& processes) {
    auto ranks = ended.ranks();
    const auto& gone = processes.ended();
    ranks.insert(ranks.end(), gone.begin(), gone.end());
    std::ranges::sort(ranks);
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
}

}  // namespace

GlooWorld::GlooWorld(std::unique_ptr<Rendezvous> rendezvous, const std::string& interface,
                     const WorldOptions& options)
    : WorldState(options), rendezvous_(std::move(rendezvous)), interface_(interface), host_(line_of_host()) {
    try {
        const auto hosts = Hosts(rank(), host_, interface_);
        const auto lines = rendezvous_->all(rendezvous_->start(), hosts.line(),
                                            [](const std::string& a, const std::string& b) { return a + b; });
        find_address(hosts, lines);
    } catch (const PeerLost&) {
        throw;
    } catch (const Timeout&) {
        throw;
    } catch (const std::exception& error) {  // the others get to know why they need not wait
        rendezvous_->leave({.kind = Failure::Kind::left,
                            .why = cat("rank ", rank(), " cannot start its world: ", error.what()),
                            .lost = {rank()}});
        throw;
    }
}

void GlooWorld::find_address(const Hosts& hosts, const std::string& lines) {
    local_ranks_ = hosts.local_ranks(lines);
    if (size() == 1) return;
    *processes_ = LocalProcesses(read_host_lines(lines), rank());
    rendezvous_->watch([processes = processes_] { return processes->ended(); });
    address_ = hosts.address(lines);
    network_ = Network::on(address_);
    network_->expect(static_cast<int>(local_ranks_.size()));
}

GlooWorld::GlooWorld(Rendezvous::Grown grown, const std::string& interface, const WorldOptions& options)
    : WorldState(options),
      rendezvous_(std::move(grown.rendezvous)),
      interface_(interface),
      host_(line_of_host()) {
    auto lines = std::string{};
    auto rank = 0;
    for (const auto& about : grown.world.abouts) {
        auto line = read_host_lines(about);
        if (line.size() != 1) Fields({}, "what another rank tells of its host").throw_unreadable();
        line.front().rank = rank++;
        append(lines, line.front().text());
    }
    find_address(Hosts(this->rank(), host_, interface_), lines);
    is_grown = true;
}

std::string GlooWorld::about_this_process(const std::string& interface) {
    return Hosts(0, line_of_host(), interface).line();
}

GlooWorld::GlooWorld(Rendezvous::Survivors rest, const GlooWorld& before)
    : WorldState(before.options),
      rendezvous_(std::move(rest.rendezvous)),
      interface_(before.interface_),
      host_(before.host_),
      address_(before.address_),
      network_(before.network_) {
    *processes_ = before.processes_->among(rest.ranks);
    rendezvous_->watch([processes = processes_] { return processes->ended(); });
    record_in(before.recorder(), before.roots_of(rest.ranks));
    for (std::size_t i = 0; i < rest.ranks.size(); ++i)
        if (std::ranges::binary_search(before.local_ranks_, rest.ranks[i]))
            local_ranks_.push_back(static_cast<int>(i));
}

void GlooWorld::leave(const std::string& what) noexcept {
    // Ranks that are still in a join must not take this one for the cause.
    auto failure = cause->of_leaving(rank(), what);
    if (auto lost = ended_->ranks(); !lost.empty() && failure.lost == std::vector{rank()})
        failure = {.kind = Failure::Kind::gone,
                   .why = cat(what, " after it had lost ", ranks_to_string(lost)),
                   .lost = std::move(lost)};
    rendezvous_->leave(failure);
    for (const auto& weak : channels_)
        if (const auto channel = weak.lock()) channel->leave();
}

std::vector<int> GlooWorld::ended() const { return all_ended(*ended_, *processes_); }

/// Looks from time to time whether a rank has ended, which the store cannot know.
std::vector<std::pair<int, std::string>> GlooWorld::collect(const std::string& phase,
                                                            std::span<const int> from,
                                                            std::chrono::steady_clock::time_point until) {
    using Clock = std::chrono::steady_clock;
    constexpr auto period = std::chrono::milliseconds(100);
    for (;;) {
        // Asked before messages are collected: a rank may send one, or its failure, and end.
        const auto ended = this->ended();
        const auto lost = std::ranges::find_if(from, [&](int each) { return contains(ended, each); });
        const auto next = lost == from.end() ? std::min(until, from_now(period)) : Clock::now();
        try {
            if (auto messages = rendezvous_->collect(phase, from, next); !messages.empty()) return messages;
        } catch (const ServerSilent&) {  // which may only be paused
            if (Clock::now() >= until) throw;
        }
        if (lost != from.end())
            throw PeerLost(cat("rank ", *lost, " has ended or cannot be reached; ", phase,
                               " cannot be completed on rank ", rank()),
                           {*lost});
        if (Clock::now() >= until) return {};
    }
}

std::shared_ptr<Channel> GlooWorld::create(const ChannelRequest& request) {
    auto channel = std::shared_ptr<GlooChannel>{};
    connector_.connect(request, network_, [&](std::shared_ptr<Connections> connections) {
        channel = std::make_shared<GlooChannel>(std::move(connections), request.label->ranks.list(), ended_,
                                                recorder(), cause);
    });
    std::erase_if(channels_, [](const auto& weak) { return weak.expired(); });
    channels_.push_back(channel);
    return channel;
}

std::shared_ptr<WorldState> GlooWorld::sub(const std::vector<int>& ranks) {
    auto part = rendezvous_->sub(ranks);
    part->watch([ranks, ended = ended_, processes = processes_] {
        auto gone = std::vector<int>{};
        for (auto each : all_ended(*ended, *processes))
            if (const auto rank = position_of(ranks, each); rank >= 0) gone.push_back(rank);
        return gone;
    });
    auto made = std::make_shared<GlooWorld>(std::move(part), interface_, options);
    ended_->renewal.add(made->renewal(), ranks, false);
    return made;
}

std::shared_ptr<WorldState> GlooWorld::survivors(Duration grace) {
    ended_->renewal.begin(cause->of_survivors(rank(), ended_->ranks()));
    auto rest = rendezvous_->survivors(grace, [this] { return ended(); });
    auto ranks = rest.ranks;
    auto made = std::make_shared<GlooWorld>(std::move(rest), *this);
    ended_->renewal.add(made->renewal(), std::move(ranks), true);
    return made;
}

std::shared_ptr<WorldState> GlooWorld::grow(int most, Duration timeout) {
    auto grown = rendezvous_->grow({.most = most,
                                    .timeout = timeout,
                                    .about = about_this_process(interface_),
                                    .common = *options.checked ? "1" : "0"},
                                   [this] { return ended(); });
    return std::make_shared<GlooWorld>(std::move(grown), interface_, options);
}

}  // namespace rankmesh::detail
