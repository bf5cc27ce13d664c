// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/transport/connection.hpp"

#include <sys/socket.h>
#include <unistd.h>

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
