// SPDX-License-Identifier: Apache-2.0
// How a monitor finds a failure, sends it to the other ranks, and throws it.

#include <charconv>
#include <cstring>
#include <exception>
#include <utility>

#include "engine/diagnosis/attendance.hpp"
#include "engine/diagnosis/failure.hpp"
#include "engine/gloo/monitor/peer_monitor.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

/// `rank 3 has gone`, `the ranks {3, 4} have gone`.
std::string about(const std::vector<int>& ranks, const char* one, const char* several) {
    return ranks.size() == 1 ? cat("rank ", ranks.front(), " ", one)
                             : cat("the ranks ", ranks_to_string(ranks), " ", several);
}

Failure left(std::vector<int> ranks) {
    auto why = about(ranks, "has ended this communicator", "have ended this communicator");
    return {.kind = Failure::Kind::left, .why = std::move(why), .lost = std::move(ranks)};
}

}  // namespace

/// Fails if peers have sent a goodbye before the collective that this rank waits for, or before the message
/// that only they could send: it cannot complete.
void PeerMonitor::find_who_left() {
    auto who = std::vector<int>{};
    {
        const auto lock = std::lock_guard(mutex_);
        const auto is_message = waiting_ && is_point_to_point(waiting_->call->operation);
        if (!waiting_ || (is_message && !waiting_->unposted)) return;
        const auto awaited = waiting_->awaited;
        for (std::size_t i = 0; i < ranks_.size(); ++i)
            if (gone_[i] && (is_message ? awaited < 0 || std::cmp_equal(i, awaited)
                                        : calls_of_gone_[i] < waiting_->number))
                who.push_back(ranks_[i]);
        if (is_message && awaited == any_source && who.size() + 1 < ranks_.size()) return;
    }
    if (!who.empty()) fail(left(std::move(who)));
}

/// A connection broke. Peers are gone if their connection has ended without a goodbye.
void PeerMonitor::find_lost(const std::string& text) {
    auto lost = std::vector<int>{};
    const auto until = from_now(delivery);
    for (int from = 0; from < size(); ++from)
        if (from != group_rank_ && !gone_[static_cast<std::size_t>(from)] &&
            !connections_->is_open(from, until))
            lost.push_back(from);
    // What a peer sent before its connection broke is in the inbox by now, unless this rank sent to it then.
    try {
        if (!take_messages()) return;
    } catch (const std::exception&) {
    }
    if (is_broken()) return;
    if (leaving_) return await_goodbyes();
    std::erase_if(lost, [&](int to) { return gone_[static_cast<std::size_t>(to)].load(); });
    auto failure = Failure{.why = cat("Gloo reports: ", text)};
    if (!lost.empty()) {
        failure.kind = Failure::Kind::gone;
        for (auto to : lost) failure.lost.push_back(ranks_[static_cast<std::size_t>(to)]);
        // A peer that cut its connection because of another rank has sent a failure, which may be lost.
        auto others = std::vector<int>{};
        for (std::size_t i = 0; i < ranks_.size(); ++i)
            if (!gone_[i]) others.push_back(ranks_[i]);
        failure.lost = ended_->processes().to_blame(failure.lost, others);
        failure.why = about(failure.lost, "is gone: its process has ended or cannot be reached",
                            "are gone: their processes have ended or cannot be reached");
        if (auto cause = connections_->cause(failure)) failure = *std::move(cause);
    }
    fail(std::move(failure));
}

/// What is known of a peer that has not answered.
Channel::PeerStatus PeerMonitor::silence_of(std::size_t peer) const {
    return {.doing = gone_[peer] ? missing_because::it_left : missing_because::it_is_silent,
            .answers = false};
}

/// Fails with the ranks that are missing, once all peers have replied or the time for replies is over.
void PeerMonitor::report_missing() {
    auto failure = Failure{};
    {
        const auto lock = std::lock_guard(mutex_);
        if (!waiting_ || asked_ != turns_) return;
        const auto& [call, label, number, awaited, unposted, timeout] = *waiting_;
        auto statuses = std::vector<Channel::PeerStatus>{};
        for (std::size_t i = 0; i < ranks_.size(); ++i)
            statuses.push_back(
                answered_[i] == 0 || gone_[i]
                    ? silence_of(i)
                    : Channel::PeerStatus{.arrived = answered_[i] == 2, .doing = cat("is ", doing_[i])});
        failure = timeout_failure(
            timeout, ranks_[static_cast<std::size_t>(group_rank_)], numbered(*call, number, &label->ranks),
            *label,
            Attendance::of(*label, group_rank_, awaited < 0 ? std::vector<int>{} : std::vector{awaited},
                           statuses));
    }
    fail(std::move(failure));
}

void PeerMonitor::fail(Failure failure) noexcept {
    {
        const auto lock = std::lock_guard(mutex_);
        if (failure_) return;
        failure_ = std::move(failure);
        if (failure_->kind == Failure::Kind::gone) ended_->add(failure_->lost);
    }
    send_failure();
    connections_->cut();
    broken_.store(true, std::memory_order_release);
    connections_->messages().wake();
    change([] {});
}

/// Sends the failure to all peers and waits briefly until each peer has sent its own. If this rank cut a
/// connection while the peer sends, the peer would lose what it has not read yet.
void PeerMonitor::send_failure() noexcept {
    const auto text = to_text(*failure_, sizeof Message::text);
    const auto is_there = [&](int peer) {
        return peer != group_rank_ && !gone_[static_cast<std::size_t>(peer)] &&
               connections_->is_open(peer, {});
    };
    for (int to = 0; to < size(); ++to)
        if (is_there(to))
            messages_.send(to, MessageKind::failure, 0, static_cast<std::uint32_t>(failure_->kind), text);
    const auto until = from_now(delivery);
    for (int peer = 0; peer < size(); ++peer)
        while (is_there(peer) && !failed_[static_cast<std::size_t>(peer)] &&
               std::chrono::steady_clock::now() < until) {
            if (std::this_thread::get_id() == listener_.load()) collect_failures();
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
}

/// Marks the peers that have sent a failure or a goodbye. A channel that has failed ignores other messages.
void PeerMonitor::collect_failures() noexcept {
    for (int from = 0; from < size(); ++from)
        while (from != group_rank_) {
            const auto* message = messages_.take(from);
            if (!message) break;
            const auto f = static_cast<std::size_t>(from);
            if (message->kind == MessageKind::failure || message->kind == MessageKind::goodbye)
                failed_[f] = true;
            if (failed_[f]) break;
            try {
                messages_.expect(from);
            } catch (const std::exception&) {  // its connection has ended
            }
        }
}

void PeerMonitor::explain(const std::string& text) noexcept {
    auto lock = std::unique_lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::seconds(1), [this] { return is_broken(); })) return;
    auto failure = Failure{.why = cat("Gloo reports: ", text)};
    auto who = std::vector<int>{};
    for (std::size_t i = 0; i < ranks_.size(); ++i)
        if (gone_[i]) who.push_back(ranks_[i]);
    lock.unlock();
    fail(who.empty() ? std::move(failure) : left(std::move(who)));
}

// In a reply.
constexpr auto reply_arrived = std::uint32_t{1};
constexpr auto reply_ended = std::uint32_t{2};

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
