// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/transport/connection.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <thread>

#include <rankmesh/core/error.hpp>

#include "engine/gloo/transport/connector.hpp"
#include "engine/random_bytes.hpp"

namespace rankmesh::detail {
namespace {

/// The number of unauthenticated connections that are kept; one more replaces the oldest of them.
constexpr auto most_pending = std::size_t{8};

Endpoint::Word random_word() {
    auto word = Endpoint::Word{};
    std::ranges::copy(random_bytes(word.size()), word.begin());
    return word;
}

}  // namespace

Connection::Connection(::gloo::transport::tcp::Context* context, ::gloo::transport::tcp::Device* device,
                       int group_rank, std::chrono::milliseconds timeout)
    : ::gloo::transport::tcp::Pair(context, device, group_rank, timeout) {
    const auto lock = std::lock_guard(m_);
    if (state_ != LISTENING) return;
    endpoint_ = {self_.getSockaddr(), random_word(), random_word()};
    // Gloo's backlog is one; foreign connections must not block the peer's.
    ::listen(fd_, SOMAXCONN);
    ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK);
}

Connection::~Connection() {
    // Closed here: Gloo's destructor would go on accepting, without the password.
    const auto lock = std::lock_guard(m_);
    if (state_ != CLOSED) changeState(CLOSED);
}

bool Connection::is_listening() {
    const auto lock = std::lock_guard(m_);
    return state_ == LISTENING;
}

void Connection::stop_listening() {
    const auto lock = std::lock_guard(m_);
    throwIfException();
    close_pending();
    device_->unregisterDescriptor(fd_, this);
    ::close(fd_);
    fd_ = -1;
}

void Connection::adopt(Connector& connector) {
    const auto lock = std::lock_guard(m_);
    throwIfException();
    fd_ = connector.take();
    is_client_ = true;
    try {
        handleConnected();
    } catch (const std::exception&) {  // the peer has closed it again
        ::close(fd_);
        fd_ = -1;
        throw;
    }
}

int Connection::shortage() {
    const auto lock = std::lock_guard(m_);
    return state_ == LISTENING ? shortage_ : 0;
}

Connection::Line Connection::line() {
    const auto lock = std::lock_guard(m_);
    if (state_ != CONNECTED) return Line::ended;
    char byte = 0;
    const auto count = ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (count > 0) return Line::unread;
    return count < 0 && (errno == EAGAIN || errno == EINTR) ? Line::open : Line::ended;
}

bool Connection::wait_until(std::chrono::steady_clock::time_point until) {
    auto lock = std::unique_lock(m_);
    return cv_.wait_until(lock, until, [this] {
        throwIfException();
        return state_ >= CONNECTED;
    });
}

/// Runs on Gloo's thread, for the connection, the listening socket and each pending connection.
void Connection::handleEvents(int events) {
    // The holder of the lock may be waiting for this thread.
    const auto lock = std::unique_lock(m_, std::try_to_lock);
    if (!lock) return std::this_thread::yield();
    if (state_ == CONNECTED) handleReadWrite(events);
    if (state_ == LISTENING) {
        accept_pending();
        read_pending();
    }
}

void Connection::accept_pending() {
    for (;;) {
        const auto descriptor = ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        const auto full = descriptor < 0 && (errno == EMFILE || errno == ENFILE);
        if (full || descriptor >= 0) shortage_ = full ? errno : 0;
        if (descriptor < 0 && (!full || pending_.empty())) return;
        if (full || pending_.size() == most_pending) {
            ::close(pending_.front().descriptor);
            pending_.erase(pending_.begin());
        }
        if (descriptor < 0) continue;
        pending_.push_back({.descriptor = descriptor});
        device_->registerDescriptor(descriptor, EPOLLIN, this);
    }
}

void Connection::read_pending() {
    for (auto pending = pending_.begin(); pending != pending_.end();) {
        const auto room = pending->said.room();
        const auto count = ::recv(pending->descriptor, room.data(), room.size(), MSG_DONTWAIT);
        if (count > 0) pending->said.take(static_cast<std::size_t>(count));
        const auto waits = count < 0 && (errno == EAGAIN || errno == EINTR);
        if (waits || (count > 0 && !pending->said.is_complete())) {
            ++pending;
            continue;
        }
        const auto descriptor = pending->descriptor;
        const auto& answer = endpoint_.answer;
        const auto knows = count > 0 && pending->said.is(endpoint_.password) &&
                           ::send(descriptor, answer.data(), answer.size(), MSG_NOSIGNAL) ==
                               static_cast<ssize_t>(answer.size());
        pending = pending_.erase(pending);
        if (!knows) {
            ::close(descriptor);
            continue;
        }
        device_->unregisterDescriptor(fd_, this);
        ::close(fd_);
        fd_ = descriptor;
        try {
            handleConnected();
        } catch (const std::exception&) {  // the peer has closed it again
            signalException(std::current_exception());
        }
        return;
    }
}

void Connection::close_pending() noexcept {
    for (const auto& pending : pending_) ::close(pending.descriptor);
    pending_.clear();
}

void Connection::changeState(state next) noexcept {
    // Closed before Gloo waits for its thread, which then gets no event of theirs any more.
    close_pending();
    ::gloo::transport::tcp::Pair::changeState(next);
}

ConnectionContext::ConnectionContext(const std::shared_ptr<::gloo::transport::Device>& device, int group_rank,
                                     int size)
    : ::gloo::transport::tcp::Context(std::dynamic_pointer_cast<::gloo::transport::tcp::Device>(device),
                                      group_rank, size) {}

std::unique_ptr<::gloo::transport::Pair>& ConnectionContext::createPair(int group_rank) {
    auto& place = pairs_[static_cast<std::size_t>(group_rank)];
    // Gloo's own part accepts anybody until ours replaces it: if somebody connected, a new one is made at
    // another port.
    for (auto listening = false; !listening;) {
        auto connection = std::make_unique<Connection>(this, device_.get(), group_rank, getTimeout());
        listening = connection->is_listening();
        place = std::move(connection);
    }
    return place;
}

}  // namespace rankmesh::detail
