// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/transport/connector.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <rankmesh/core/error.hpp>

#include "engine/shortage.hpp"

namespace rankmesh::detail {
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

Connector::~Connector() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

int Connector::take() { return std::exchange(descriptor_, -1); }

pollfd Connector::awaited() const {
    return {.fd = descriptor_,
            .events = static_cast<short>(stage_ == Stage::connecting ? POLLOUT : POLLIN),
            .revents = 0};
}

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
    // Without a timeout of its own: what was sent is not lost, however long the peer takes.
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
