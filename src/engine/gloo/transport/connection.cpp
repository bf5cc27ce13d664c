// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/transport/connection.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <thread>
#include <utility>

namespace rankmesh::detail {

Connection::Connection(::gloo::transport::tcp::Context* context, ::gloo::transport::tcp::Device* device,
                       int group_rank, std::chrono::milliseconds timeout)
    : ::gloo::transport::tcp::Pair(context, device, group_rank, timeout) {
    const auto lock = std::lock_guard(m_);
    device_->unregisterDescriptor(fd_, this);
    ::close(fd_);
    fd_ = -1;
}

Connection::~Connection() {
    const auto lock = std::lock_guard(m_);
    if (state_ != CLOSED) changeState(CLOSED);
}

void Connection::adopt(int descriptor, bool has_connected) {
    const auto lock = std::lock_guard(m_);
    fd_ = descriptor;
    is_client_ = has_connected;
    try {
        throwIfException();
        handleConnected();
    } catch (const std::exception&) {  // the peer has closed it again
        ::close(std::exchange(fd_, -1));
        throw;
    }
}

Connection::Incoming Connection::incoming() {
    const auto lock = std::lock_guard(m_);
    if (state_ != CONNECTED) return Incoming::ended;
    char byte = 0;
    const auto count = ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (count > 0) return Incoming::unread;
    return count < 0 && (errno == EAGAIN || errno == EINTR) ? Incoming::nothing : Incoming::ended;
}

/// Runs on Gloo's thread.
void Connection::handleEvents(int events) {
    // The holder of the lock may be waiting for this thread.
    const auto lock = std::unique_lock(m_, std::try_to_lock);
    if (!lock) return std::this_thread::yield();
    if (state_ == CONNECTED) handleReadWrite(events);
}

bool Connection::poll(Event event, std::uint64_t slot) {
    const auto& last = last_slots_[static_cast<std::size_t>(event)];
    if (last == slot) return true;
    if (const auto lock = std::unique_lock(m_, std::try_to_lock); lock && state_ == CONNECTED)
        handleReadWrite(EPOLLIN);
    return last == slot;
}

/// Reads the head of the next part of the stream itself, to see what Gloo does not tell: which messages the
/// peer has announced, and which data and requests have come.
bool Connection::read() {
    auto& head = rx_.preamble;
    if (rx_.nread < sizeof head) {
        const auto count =
            ::recv(fd_, reinterpret_cast<char*>(&head) + rx_.nread, sizeof head - rx_.nread, 0);
        if (count < 0 && errno == EAGAIN) return false;
        if (count > 0) rx_.nread += static_cast<std::size_t>(count);
    }
    using ::gloo::transport::tcp::Op;
    const auto kind = rx_.nread < sizeof head ? Op::SEND_BUFFER : rx_.getOpcode();
    const auto announces = rx_.nread == sizeof head && kind == Op::NOTIFY_SEND_READY &&
                           (head.slot & kind_of_slot) == message_slot;
    const auto message = ConnectionContext::Announced{rank_, head.slot, head.length};
    const auto complete = Pair::read();  // which also handles an end of the stream, and errors
    if (complete && (kind == Op::SEND_UNBOUND_BUFFER || kind == Op::NOTIFY_RECV_READY))
        last_slots_[static_cast<std::size_t>(kind == Op::NOTIFY_RECV_READY ? Event::request : Event::data)] =
            message.slot;
    if (complete && announces) static_cast<ConnectionContext*>(context_)->announce(message);
    return complete;
}

bool ConnectionContext::is_pending(const Announced& message) {
    const auto found = findPendingOperations(message.slot);
    if (found == pendingOperations_.end()) return false;
    const auto& senders = found->getSendList();
    return std::ranges::find(senders, message.from) != senders.end();
}

void ConnectionContext::announce(const Announced& message) {
    const auto lock = std::lock_guard(mutex_);
    if (!is_pending(message)) return;  // a receive was posted before
    if (announced_.size() == most_announced_) {
        std::erase_if(announced_, [this](const Announced& each) { return !is_pending(each); });
        most_announced_ = std::max<std::size_t>(64, 2 * announced_.size());
    }
    announced_.push_back(message);
    ++announcements_;
    announcement_.notify_all();
}

std::vector<ConnectionContext::Announced> ConnectionContext::announced() {
    const auto lock = std::lock_guard(mutex_);
    std::erase_if(announced_, [this](const Announced& each) { return !is_pending(each); });
    return announced_;
}

std::uint64_t ConnectionContext::announcements() {
    const auto lock = std::lock_guard(mutex_);
    return announcements_;
}

void ConnectionContext::await_announcement(std::uint64_t known) {
    auto lock = std::unique_lock(mutex_);
    announcement_.wait(lock, [&] { return announcements_ != known; });
}

void ConnectionContext::wake() {
    const auto lock = std::lock_guard(mutex_);
    ++announcements_;
    announcement_.notify_all();
}

ConnectionContext::ConnectionContext(const std::shared_ptr<::gloo::transport::Device>& device, int group_rank,
                                     int size)
    : ::gloo::transport::tcp::Context(std::dynamic_pointer_cast<::gloo::transport::tcp::Device>(device),
                                      group_rank, size) {}

std::unique_ptr<::gloo::transport::Pair>& ConnectionContext::createPair(int group_rank) {
    auto& place = pairs_[static_cast<std::size_t>(group_rank)];
    place = std::make_unique<Connection>(this, device_.get(), group_rank, getTimeout());
    return place;
}

}  // namespace rankmesh::detail
