// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/monitor/message_box.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

#include "engine/gloo/transport/connection.hpp"

namespace rankmesh::detail {

constexpr auto monitor_slot = first_slot(SlotKind::monitor);

MessageBox::MessageBox(std::shared_ptr<Connections> connections)
    : connections_(std::move(connections)),
      sent_count_(static_cast<std::size_t>(connections_->size), 0),
      received_count_(sent_count_),
      inbox_(std::make_unique<MonitorMessage[]>(sent_count_.size())),
      incoming_(connections_->buffer(inbox_.get(), sizeof(MonitorMessage) * sent_count_.size())) {
    for (int from = 0; from < connections_->size; ++from) try {
            if (from != connections_->rank) expect(from);
        } catch (const std::exception& error) {
            throw Connections::Unreachable{from, error.what()};
        }
}

bool MessageBox::send(int to, MessageKind kind, std::uint64_t number, std::uint32_t value,
                      const std::string& text) noexcept {
    try {
        const auto lock = std::lock_guard(sending_);
        auto sent = std::make_unique<Sent>();
        sent->to = to;
        auto& message = sent->message;
        message.kind = kind;
        message.value = value;
        message.number = number;
        message.head = message.tail = sent_count_[static_cast<std::size_t>(to)] + 1;
        std::memcpy(message.text, text.data(), std::min(text.size(), sizeof message.text - 1));
        sent->buffer = connections_->buffer(&message, sizeof message);
        sent->buffer->send(to, monitor_slot);
        ++sent_count_[static_cast<std::size_t>(to)];
        sent_.push_back(std::move(sent));
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

void MessageBox::wait_for_goodbye(int to, std::chrono::steady_clock::time_point until) noexcept {
    Sent* goodbye = nullptr;
    {
        const auto lock = std::lock_guard(sending_);
        for (const auto& sent : sent_)
            if (sent->to == to && sent->message.kind == MessageKind::goodbye) goodbye = sent.get();
    }
    if (!goodbye) return;
    try {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
        goodbye->buffer->waitSend(std::max(left, std::chrono::milliseconds(1)));
    } catch (const std::exception&) {  // it does not receive any more
    }
}

const MonitorMessage* MessageBox::take(int from) {
    auto& count = received_count_[static_cast<std::size_t>(from)];
    auto& message = inbox_[static_cast<std::size_t>(from)];
    if (message.tail != count + 1 || message.head != message.tail) return nullptr;
    ++count;
    message.text[sizeof message.text - 1] = '\0';
    return &message;
}

void MessageBox::expect(int from) {
    incoming_->recv(from, monitor_slot, static_cast<std::size_t>(from) * sizeof(MonitorMessage),
                    sizeof(MonitorMessage));
}

}  // namespace rankmesh::detail
