// SPDX-License-Identifier: Apache-2.0
#include "engine/store/tcp_greeting.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>

#include <rankmesh/core/error.hpp>

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
        if (!wire::ready(socket, POLLIN, until)) throw Silent{"is taken by something that says nothing"};
        char buffer[1024];
        const auto count = recv(socket, buffer, std::min(sizeof buffer, wanted - text.size()), 0);
        if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (count < 0) throw Silent{cat("closes the connection (", std::strerror(errno), ")")};
        if (count == 0) throw Silent{"closes the connection"};
        text.append(buffer, static_cast<std::size_t>(count));
    }
}

/// A connection, or the reason why there is none.
std::pair<int, std::string> connected(const std::string& address, int port, TcpGreeting::Instant until) {
    auto wanted = addrinfo{};
    wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo* target = nullptr;
    if (getaddrinfo(address.c_str(), cat(port).c_str(), &wanted, &target) != 0)
        return {-1, cat("has the address '", address, "', which is none")};
    const auto made = socket(target->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    auto error = made < 0 || connect(made, target->ai_addr, target->ai_addrlen) != 0 ? errno : 0;
    freeaddrinfo(target);
    if (made < 0) return {-1, cat("cannot be reached (", std::strerror(error), ")")};
    if (error == EINPROGRESS || error == EINTR) {
        if (!wire::ready(made, POLLOUT, until)) {
            close(made);
            return {-1, "does not take the connection"};
        }
        auto size = socklen_t{sizeof error};
        if (getsockopt(made, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    }
    if (error == 0) {
        // A port that nobody listens at may be taken by the very socket that connects to it.
        auto own = sockaddr_in6{}, peer = sockaddr_in6{};
        auto own_length = socklen_t{sizeof own}, peer_length = socklen_t{sizeof peer};
        if (getsockname(made, reinterpret_cast<sockaddr*>(&own), &own_length) != 0 ||
            getpeername(made, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0)
            error = errno;
        else if (own_length == peer_length && std::memcmp(&own, &peer, own_length) == 0)
            error = ECONNREFUSED;
        else
            return {made, {}};
    }
    close(made);
    return {-1, cat("cannot be reached (", std::strerror(error), ")")};
}

}  // namespace

TcpGreeting TcpGreeting::at(const std::string& address, int port, Instant until) {
    auto greeting = TcpGreeting{};
    std::tie(greeting.socket, greeting.failure) = connected(address, port, until);
    if (greeting.socket < 0) return greeting;
    try {
        greeting.said = heard(greeting.socket, until);
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
    char unused[16];
    const auto numeric =
        inet_pton(AF_INET, host.c_str(), unused) == 1 || inet_pton(AF_INET6, host.c_str(), unused) == 1;
    auto greeting = at(numeric ? host : address, port, until);
    if (greeting.socket >= 0) close(std::exchange(greeting.socket, -1));
    return greeting;
}

bool TcpGreeting::serves(const std::string& job) const {
    return is_store() && equal_in_constant_time(said.tag, wire::tag_of(job, said.server_nonce));
}

std::string TcpGreeting::text() const {
    return is_store() ? "is taken by the store of another job" : failure;
}

}  // namespace rankmesh::detail
