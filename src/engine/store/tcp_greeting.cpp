// SPDX-License-Identifier: Apache-2.0
#include "engine/store/tcp_greeting.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>

#include <rankmesh/core/error.hpp>

#include "engine/hosts/sockets.hpp"
#include "engine/store/sha256.hpp"

namespace rankmesh::detail {
namespace {

namespace wire = tcp_protocol;

/// Thrown if nobody greets.
struct Silent {
    std::string why;
};

/// Reads the greeting of a connection; throws Malformed for anything else.
wire::Greeting heard(int socket, TcpGreeting::Instant until) {
    auto text = std::string{};
    for (;;) {
        const auto wanted = wire::Greeting::size_of(text);
        if (text.size() == wanted) return wire::Greeting::from(text);
        if (!ready(socket, POLLIN, until)) throw Silent{"is taken by something that says nothing"};
        char buffer[1024];
        const auto count = recv(socket, buffer, std::min(sizeof buffer, wanted - text.size()), 0);
        if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (count < 0) throw Silent{cat("closes the connection (", std::strerror(errno), ")")};
        if (count == 0) throw Silent{"closes the connection"};
        text.append(buffer, static_cast<std::size_t>(count));
    }
}

}  // namespace

TcpGreeting TcpGreeting::at(const std::string& address, int port, Instant until) {
    auto greeting = TcpGreeting{};
    std::tie(greeting.socket, greeting.failure) = connect_to(address, port, until);
    if (greeting.socket < 0) {
        greeting.failure = cat("cannot be reached (", greeting.failure, ")");
        return greeting;
    }
    try {
        greeting.message = heard(greeting.socket, until);
        wire::prepare(greeting.socket);
        return greeting;
    } catch (const Silent& silent) {
        greeting.failure = silent.why;
    } catch (const wire::Malformed&) {
        greeting.failure = "is taken by something that is no store of rankmesh, or of another version";
    }
    close(std::exchange(greeting.socket, -1));
    return greeting;
}

TcpGreeting TcpGreeting::of(const std::string& address, int port, const std::string& host, Instant until) {
    auto greeting = at(SocketAddress::of(host) ? host : address, port, until);
    if (greeting.socket >= 0) close(std::exchange(greeting.socket, -1));
    return greeting;
}

bool TcpGreeting::serves(const std::string& job) const {
    return is_store() && equal_in_constant_time(message.tag, wire::tag_of(job, message.server_nonce));
}

std::string TcpGreeting::text() const {
    return is_store() ? "is taken by the store of another job" : failure;
}

}  // namespace rankmesh::detail
