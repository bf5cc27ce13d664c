// SPDX-License-Identifier: Apache-2.0
// How a rank, at its timeout, asks its peers about a channel of devices that the same ranks have.
#include <algorithm>
#include <charconv>
#include <cstring>

#include <rankmesh/core/text.hpp>

#include "engine/gloo/monitor/peer_monitor.hpp"

namespace rankmesh::detail {

namespace {

// In a reply.
constexpr auto reply_arrived = std::uint32_t{1};
constexpr auto reply_ended = std::uint32_t{2};

}  // namespace

std::vector<Channel::PeerStatus> PeerMonitor::ask(const std::string& key, std::uint64_t number) {
    const auto one = std::lock_guard(asking_);
    const auto query = change([&] {
        replies_.assign(ranks_.size(), std::nullopt);
        replies_[static_cast<std::size_t>(group_rank_)] = Channel::PeerStatus{.arrived = true, .doing = {}};
        return ++device_query_;
    });
    for (int to = 0; to < size(); ++to)
        if (to != group_rank_) messages_.send(to, MessageKind::device_query, query, 0, cat(number, " ", key));
    auto statuses = std::vector<Channel::PeerStatus>{};
    auto lock = std::unique_lock(mutex_);
    changed_.wait_for(lock, reply_time, [&] {
        if (is_broken()) return true;
        for (std::size_t i = 0; i < ranks_.size(); ++i)
            if (!replies_[i] && !gone_[i]) return false;
        return true;
    });
    for (std::size_t i = 0; i < ranks_.size(); ++i)
        statuses.push_back(replies_[i] ? *replies_[i] : silence_of(i));
    return statuses;
}

void PeerMonitor::answer_device_query(int from, const Message& message) {
    auto number = std::uint64_t{};
    const auto* key = std::from_chars(message.text, message.text + std::strlen(message.text), number).ptr;
    const auto called = recorder_ && *key == ' ' ? recorder_->collectives(key + 1) : std::nullopt;
    messages_.send(from, MessageKind::device_reply, message.number,
                   (called && *called >= number ? reply_arrived : 0) | (called ? 0 : reply_ended),
                   recorder_ ? recorder_->doing() : std::string{});
    if (recorder_) recorder_->asked();
}

void PeerMonitor::handle_device_reply(int from, const Message& message) {
    change([&] {
        if (message.number == device_query_)
            replies_[static_cast<std::size_t>(from)] =
                Channel::PeerStatus{.arrived = (message.value & reply_arrived) != 0,
                                    .doing = cat("is ", message.text),
                                    .ended = (message.value & reply_ended) != 0};
    });
}

}  // namespace rankmesh::detail
