// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/transport/connection.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include <rankmesh/core/error.hpp>

#include "engine/system.hpp"

namespace rankmesh::detail {

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

ConnectionContext::ConnectionContext(const std::shared_ptr<::gloo::transport::Device>& device, int group_rank,
                                     int size)
    : ::gloo::transport::tcp::Context(std::dynamic_pointer_cast<::gloo::transport::tcp::Device>(device),
                                      group_rank, size) {}

std::unique_ptr<::gloo::transport::Pair>& ConnectionContext::createPair(int group_rank) {
    auto& place = pairs_[static_cast<std::size_t>(group_rank)];
    place = std::make_unique<Connection>(this, device_.get(), group_rank, getTimeout());
    return place;
}

namespace {

using std::chrono::milliseconds;

/// The time after which a new attempt is made: the system's own retries come ever more slowly.
constexpr auto connecting_time = milliseconds(1000);
constexpr auto longest_pause = milliseconds(50);

/// True for errors that pass when a link comes back, or when another connection is closed.
bool passes(int error) {
    constexpr auto passing = std::array{ENETUNREACH, EHOSTUNREACH, ENETDOWN, ENONET,       ETIMEDOUT,
                                        ECONNRESET,  EPIPE,        EAGAIN,   EADDRNOTAVAIL};
    return std::ranges::find(passing, error) != passing.end();
}

}  // namespace

void Connector::fail(const char* what, int error) {
    trouble_ = cat(what, ": ", std::strerror(error));
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
    stage_ = Stage::idle;
    if (!passes(error)) throw EngineFailure(trouble_);
    next_ = Clock::now() + pause_;
    pause_ = std::min(pause_ * 2, longest_pause);
}

void Connector::begin() {
    const auto& address = endpoint_.address;
    descriptor_ = ::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor_ < 0) {
        throw_if_short(errno);
        return fail("socket", errno);
    }
    stage_ = Stage::connecting;
    next_ = Clock::now() + connecting_time;
    if (::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), endpoint_.address_size()) != 0 &&
        errno != EINPROGRESS)
        fail("connect", errno);
}

void Connector::speak() {
    auto error = 0;
    auto size = socklen_t{sizeof error};
    ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return fail("connect", error);
    const auto& password = endpoint_.password;
    const auto count = ::send(descriptor_, password.data(), password.size(), MSG_NOSIGNAL);
    if (count < 0) return fail("send", errno);
    if (static_cast<std::size_t>(count) < password.size()) return fail("send", EAGAIN);
    stage_ = Stage::listening;
    answer_ = {};
    // The answer has no timeout: what was sent is not lost, even if the peer takes long.
    next_ = Clock::time_point::max();
}

bool Connector::advance() {
    if (stage_ == Stage::idle) {
        if (Clock::now() < next_) return false;
        begin();
    }
    if (stage_ == Stage::connecting) {
        auto ready = awaited();
        if (::poll(&ready, 1, 0) == 1)
            speak();
        else if (Clock::now() >= next_)
            fail("connect", ETIMEDOUT);
    }
    if (stage_ != Stage::listening) return false;
    const auto room = answer_.room();
    const auto count = ::recv(descriptor_, room.data(), room.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (count <= 0) {
        fail("no answer", count < 0 ? errno : ECONNRESET);
        return false;
    }
    answer_.take(static_cast<std::size_t>(count));
    if (!answer_.is_complete()) return false;
    if (answer_.is(Endpoint::refusal))
        throw EngineFailure("it does not wait for a connection of this rank any more");
    if (!answer_.is(endpoint_.answer))
        throw EngineFailure(
            "peer authentication failed: the process that listens there does not give the answer that the "
            "peer has announced");
    return true;
}

}  // namespace rankmesh::detail
