// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/monitor/peer_monitor.hpp"

#include <exception>

#include "engine/gloo/monitor/terminate_handler.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {

constexpr auto longest_goodbye = std::chrono::seconds(5);

PeerMonitor::PeerMonitor(std::shared_ptr<Connections> connections, std::vector<int> ranks,
                         std::shared_ptr<Ended> ended, std::shared_ptr<Recorder> recorder)
    : connections_(std::move(connections)),
      ranks_(std::move(ranks)),
      ended_(std::move(ended)),
      recorder_(std::move(recorder)),
      group_rank_(connections_->rank),
      compare_after_(before_comparison),
      gone_(ranks_.size()),
      failed_(ranks_.size()),
      calls_of_gone_(ranks_.size(), 0),
      answered_(ranks_.size(), 0),
      doing_(ranks_.size()),
      messages_(connections_),
      alarm_(AlarmClock::of_process(), [this] { messages_.wake(); }),
      reply_alarm_(AlarmClock::of_process(), [this] { messages_.wake(); }) {
    connections_->on_error([this](const std::string& text) { explain(text); });
    thread_ = std::thread([this] { listen(); });
    add_to_terminate_report(*this);
    ended_->renewal.add(*this);
}

PeerMonitor::~PeerMonitor() {
    ended_->renewal.remove(*this);
    remove_from_terminate_report(*this);
    leaving_ = true;
    if (!is_broken()) send_goodbye();
    stopping_ = true;
    messages_.wake();
    thread_.join();
}

/// Sends a goodbye to all peers and waits until they have it. Without a goodbye, peers would see a crash.
void PeerMonitor::send_goodbye() noexcept {
    for (int to = 0; to < size(); ++to)
        if (to != group_rank_ && !gone_[static_cast<std::size_t>(to)])
            messages_.send(to, MessageKind::goodbye, collectives_.load(), 0, {});
    const auto until = from_now(longest_goodbye);
    for (int to = 0; to < size(); ++to)
        if (!gone_[static_cast<std::size_t>(to)]) messages_.wait_for_goodbye(to, until);
}

void PeerMonitor::wait_for(const Waiting& waiting) {
    auto next = TimePoint();
    {
        const auto lock = std::lock_guard(mutex_);
        waiting_ = waiting;
        until_ = end_of_wait(waiting.timeout);
        compare_at_ = std::min(until_, from_now(std::min<Duration>(compare_after_, waiting.timeout / 2)));
        next = compare_at_;
        ++turns_;
    }
    alarm_.set(next);
    if (waiting.number > fewest_calls_of_gone_) find_who_left();
}

void PeerMonitor::await(int group_rank, bool unposted) {
    {
        const auto lock = std::lock_guard(mutex_);
        if (!waiting_) return;
        waiting_->awaited = group_rank;
        waiting_->unposted = unposted;
    }
    if (unposted) find_who_left();
}

std::string PeerMonitor::terminate_report() const {
    const auto lock = std::unique_lock(mutex_, std::try_to_lock);
    if (!lock || !waiting_) return {};
    const auto& [call, label, number, awaited, unposted, timeout] = *waiting_;
    const auto left = until_ - std::chrono::steady_clock::now();
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(timeout - left);
    return cat("  ", label->named({ranks_[static_cast<std::size_t>(group_rank_)]}), " was in ",
               numbered(*call, number, &label->ranks), " on ", label->text_with_group(), ", for ",
               waited.count(), " ms\n");
}

/// The monitor's thread: receives messages, and checks timeouts when an alarm wakes it.
void PeerMonitor::listen() {
    listener_ = std::this_thread::get_id();
    while (!stopping_ && !is_broken()) {
        try {
            messages_.wait();
            if (!take_messages()) return;
        } catch (const std::exception& error) {
            if (stopping_) return;
            if (leaving_)
                await_goodbyes();
            else
                find_lost(error.what());
            return;
        }
        if (stopping_) return;
        if (!compare_calls()) check_timeout();
    }
}

/// A connection broke while this rank leaves. Its peer is not lost: a peer that has received this rank's
/// goodbye closes the connection without one.
void PeerMonitor::await_goodbyes() {
    for (; !stopping_ && !is_broken(); std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
        try {
            take_messages();
        } catch (const std::exception&) {  // of a peer whose connection has ended
        }
        for (int from = 0; from < size(); ++from)
            if (from != group_rank_ && !gone_[static_cast<std::size_t>(from)] &&
                !connections_->is_open(from, {}))
                mark_gone(from);
    }
}

/// Handles every complete message; false if one was a failure. Throws if the next one cannot be awaited.
bool PeerMonitor::take_messages() {
    auto trouble = std::exception_ptr{};
    for (int from = 0; from < size(); ++from) {
        const auto f = static_cast<std::size_t>(from);
        if (from == group_rank_ || gone_[f]) continue;
        const auto* message = messages_.take(from);
        if (!message) continue;
        receive_message(from, *message);
        if (is_broken()) return false;
        if (gone_[f]) continue;
        try {
            messages_.expect(from);
        } catch (const std::exception&) {
            trouble = std::current_exception();
        }
    }
    if (trouble) std::rethrow_exception(trouble);
    return true;
}

void PeerMonitor::receive_message(int from, const Message& message) {
    const auto f = static_cast<std::size_t>(from);
    switch (message.kind) {
        case MessageKind::arrival_query: {
            const auto arrived =
                message.number > 0 && collectives_.load(std::memory_order_acquire) >= message.number;
            messages_.send(from, MessageKind::arrival_reply, message.number, arrived ? 1 : 0,
                           recorder_ && !arrived ? recorder_->doing() : std::string{});
            if (recorder_) recorder_->asked();
            break;
        }
        case MessageKind::arrival_reply:
            if (message.number != queried_) break;
            answered_[f] = message.value ? 2 : 1;
            doing_[f] = message.text;
            break;
        case MessageKind::goodbye:
            calls_of_gone_[f] = message.number;
            mark_gone(from);
            if (dispute_ && !dispute_->texts[f]) dispute_->texts[f] = "";
            fewest_calls_of_gone_ = std::min(fewest_calls_of_gone_.load(), message.number);
            find_who_left();
            break;
        case MessageKind::calls:
            handle_calls(from, message);
            break;
        case MessageKind::difference:
            handle_difference(from, message);
            break;
        case MessageKind::call_query:
            answer_call_query(from, message.number);
            break;
        case MessageKind::call_reply:
            handle_call_reply(from, message);
            break;
        case MessageKind::device_query:
            answer_device_query(from, message);
            break;
        case MessageKind::device_reply:
            handle_device_reply(from, message);
            break;
        case MessageKind::failure:
            failed_[f] = true;
            try {
                const auto told =
                    failure_from(message.value, {message.text, sizeof message.text}, max_parsed_ranks);
                fail(told);
                if (told.kind == Failure::Kind::renewed) ended_->renewal.hear(told);
            } catch (const EngineFailure& error) {
                fail({.why = error.what()});
            }
            break;
    }
}

void PeerMonitor::check_timeout() {
    auto number = std::uint64_t{};
    auto awaited = -1;
    auto asks = false;
    {
        const auto lock = std::lock_guard(mutex_);
        const auto now = std::chrono::steady_clock::now();
        if (!waiting_) {
            asked_ = std::nullopt;
            return;
        }
        if (asked_ == turns_) {
            const auto silent = std::ranges::count(answered_, 0);
            if (silent > 0 && now < replies_until_) return;
        } else if (now < until_) {
            return;
        } else {
            asked_ = turns_;
            // A message waits for one rank: only that rank is asked, and only what it does.
            awaited = waiting_->awaited;
            std::ranges::fill(answered_, awaited < 0 ? 0 : 1);
            if (awaited >= 0) answered_[static_cast<std::size_t>(awaited)] = 0;
            answered_[static_cast<std::size_t>(group_rank_)] = 2;
            std::ranges::fill(doing_, std::string{});
            replies_until_ = now + reply_time;
            number = awaited == -1 ? waiting_->number : 0;
            queried_ = number;
            reply_alarm_.set(replies_until_);
            asks = true;
        }
    }
    if (!asks) return report_missing();
    for (int to = 0; to < size(); ++to)
        if (to != group_rank_ && (awaited < 0 || to == awaited))
            messages_.send(to, MessageKind::arrival_query, number, 0, {});
}

}  // namespace rankmesh::detail
