// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/world.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

#include <rankmesh/core/text.hpp>

#include "engine/descriptors.hpp"
#include "engine/gloo/hosts.hpp"
#include "engine/gloo/network.hpp"
#include "engine/host.hpp"
#include "engine/words.hpp"

namespace rankmesh::detail {
namespace {

constexpr auto longest_host = std::size_t{255};

/// Throws Misuse if the connections of these groups are more descriptors than this process may open.
void check_descriptors(std::span<const ChannelRequest> requests) {
    auto groups = std::vector<Connected>{};
    for (const auto& request : requests)
        groups.push_back({request.label->text(), request.label->ranks.size()});
    const auto found = descriptors_of(groups);
    if (!found.shortage.empty()) throw Misuse(found.shortage);
}

/// What a rank tells the others of one group: how each of its members reaches it.
void add_invitations(std::string& note, int item, const Wires& wires) {
    for (int i = 0; i < wires.size; ++i) {
        if (i == wires.rank) continue;
        const auto invitation = wires.invitation_for(i);
        append(note, cat(item, " ", i, " ", invitation.size(), " "));
        note += invitation;
    }
}

/// How `position` reaches the writer of a note in the group of that item, "" if it says nothing of it.
std::string invitation_in(const std::string& note, int item, int position) {
    for (std::size_t at = 0; at < note.size();) {
        const auto next = [&] {
            const auto end = note.find(' ', at);
            const auto value = std::stoi(note.substr(at, end - at));
            at = end + 1;
            return value;
        };
        const auto own_item = next();
        const auto own_position = next();
        const auto length = static_cast<std::size_t>(next());
        if (own_item == item && own_position == position) return note.substr(at, length);
        at += length;
    }
    return {};
}

}  // namespace

GlooWorld::GlooWorld(std::unique_ptr<Rendezvous> rendezvous, const std::string& interface,
                     const WorldOptions& options)
    : WorldState(options),
      rendezvous_(std::move(rendezvous)),
      interface_(interface),
      host_(host_name().substr(0, longest_host)) {
    std::ranges::replace(host_, '\n', ' ');
    const auto hosts = Hosts(rank(), host_, interface_);
    const auto lines = rendezvous_->all("the start of the world", hosts.line(),
                                        [](const std::string& a, const std::string& b) { return a + b; });
    local_ranks_ = hosts.local_ranks(lines);
    if (size() == 1) return;
    address_ = hosts.address(lines);
    network_ = Network::on(address_);
}

GlooWorld::GlooWorld(Rendezvous::Rest rest, const GlooWorld& before)
    : WorldState(before.options),
      rendezvous_(std::move(rest.rendezvous)),
      interface_(before.interface_),
      host_(before.host_),
      address_(before.address_),
      network_(before.network_) {
    for (std::size_t i = 0; i < rest.ranks.size(); ++i)
        if (std::ranges::binary_search(before.local_ranks_, rest.ranks[i]))
            local_ranks_.push_back(static_cast<int>(i));
}

void GlooWorld::leave(const std::string& what) noexcept {
    rendezvous_->leave(what);
    for (const auto& weak : channels_)
        if (const auto channel = weak.lock()) channel->leave();
}

void GlooWorld::max(std::array<std::int64_t, 4>& values) {
    const auto pack = [](const std::array<std::int64_t, 4>& numbers) {
        return std::string(reinterpret_cast<const char*>(numbers.data()), sizeof numbers);
    };
    const auto unpack = [](const std::string& text) {
        auto numbers = std::array<std::int64_t, 4>{};
        std::memcpy(numbers.data(), text.data(), std::min(text.size(), sizeof numbers));
        return numbers;
    };
    values = unpack(rendezvous_->all("join", pack(values), [&](const std::string& a, const std::string& b) {
        auto most = unpack(a);
        const auto other = unpack(b);
        for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], other[i]);
        return pack(most);
    }));
}

void GlooWorld::announce(const std::string& key, std::span<const ChannelRequest> requests) {
    announced_.clear();
    notes_.clear();
    note_ = cat("wires.", key);
    check_descriptors(requests);
    auto note = std::string{};
    for (const auto& request : requests) {
        try {
            auto wires = std::make_shared<Wires>(network_, request.position, request.label->ranks.size());
            add_invitations(note, request.item, *wires);
            announced_[request.key] = std::move(wires);
        } catch (const std::exception& error) {
            throw Misuse(
                cat("the connections of ", request.label->text(), " can not be made: ", error.what()));
        }
    }
    if (!requests.empty()) rendezvous_->publish(note_, note);
}

void GlooWorld::connect(Wires& wires, const ChannelRequest& request, const std::string& note) {
    const auto& ranks = request.label->ranks;
    const auto phase = cat("join, connecting ", request.label->text());
    const auto until = from_now(options.deadline);
    const auto members = ranks.list();
    const auto late = [&](const std::vector<int>& arrived, const std::vector<int>& missing) {
        return Deadline(
            cat("the deadline of ", to_text(options.deadline), " passed in ", phase, " on rank ", rank(),
                ": arrived ", ranks_to_string(arrived), ", missing ", request.label->named(missing)),
            arrived, missing);
    };
    auto unread = members;
    std::erase_if(unread, [&](int each) { return each == rank() || notes_.contains(each); });
    try {
        const auto texts = rendezvous_->fetch(phase, unread, note, members, until);
        for (std::size_t i = 0; i < unread.size(); ++i) notes_[unread[i]] = texts[i];
    } catch (const Deadline& deadline) {
        throw late(deadline.arrived, deadline.missing);
    }
    auto invitations = std::vector<std::string>(members.size());
    for (int i = 0; i < ranks.size(); ++i) {
        if (i == request.position) continue;
        auto& invitation = invitations[static_cast<std::size_t>(i)];
        invitation = invitation_in(notes_.at(ranks[i]), request.item, request.position);
        if (invitation.empty())
            throw EngineFailure(cat(phase, " on rank ", rank(), " failed: rank ",
                                    request.label->named({ranks[i]}), " has announced no connection for it"));
    }
    try {
        auto arrived = members;
        auto missing = std::vector<int>{};
        for (const auto position : wires.connect(invitations, until)) missing.push_back(ranks[position]);
        if (missing.empty()) return;
        std::erase_if(arrived, [&](int each) { return std::ranges::count(missing, each) > 0; });
        throw late(arrived, missing);
    } catch (const Wires::Unreachable& error) {
        throw Lost(cat(phase, " on rank ", rank(), " failed: rank ",
                       request.label->named({ranks[error.position]}), " can not be reached: ", error.why),
                   {ranks[error.position]});
    }
}

std::shared_ptr<Channel> GlooWorld::create(const ChannelRequest& request) {
    auto found = announced_.find(request.key);
    // What a lazy declaration deferred is announced by its members alone.
    if (found == announced_.end()) {
        announce(request.key, {&request, 1});
        found = announced_.find(request.key);
    }
    const auto wires = found->second;
    announced_.erase(found);
    connect(*wires, request, note_);
    auto channel = std::shared_ptr<GlooChannel>{};
    try {
        channel = std::make_shared<GlooChannel>(wires, request.label->ranks.list(), ended_);
    } catch (const std::exception& error) {
        throw Lost(cat("join, connecting ", request.label->text(), " on rank ", rank(),
                       " failed: a member has gone; Gloo reports: ", error.what()),
                   {});
    }
    std::erase_if(channels_, [](const auto& weak) { return weak.expired(); });
    channels_.push_back(channel);
    return channel;
}

std::shared_ptr<WorldState> GlooWorld::sub(const std::vector<int>& ranks) {
    return std::make_shared<GlooWorld>(rendezvous_->sub(ranks), interface_, options);
}

std::shared_ptr<WorldState> GlooWorld::survivors(Duration grace) {
    return std::make_shared<GlooWorld>(rendezvous_->survivors(grace, [this] { return ended_->ranks(); }),
                                       *this);
}

}  // namespace rankmesh::detail
