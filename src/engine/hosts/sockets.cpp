// SPDX-License-Identifier: Apache-2.0
#include "engine/hosts/sockets.hpp"

#include <netdb.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <future>

#include <rankmesh/core/error.hpp>

#include "engine/system.hpp"

namespace rankmesh::detail {

std::optional<SocketAddress> SocketAddress::of(const std::string& address, int port) {
    auto wanted = addrinfo{};
    wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    if (getaddrinfo(address.c_str(), cat(port).c_str(), &wanted, &list) != 0) return std::nullopt;
    auto found = SocketAddress{.size = list->ai_addrlen};
    std::memcpy(&found.storage, list->ai_addr, list->ai_addrlen);
    freeaddrinfo(list);
    return found;
}

std::string numeric_text(const sockaddr* address, socklen_t size) {
    char text[NI_MAXHOST] = {};
    return getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text : "";
}

bool ready(int socket, short events, std::chrono::steady_clock::time_point until) {
    using Clock = std::chrono::steady_clock;
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
        auto wanted = pollfd{socket, events, 0};
        const auto count =
            poll(&wanted, 1, static_cast<int>(std::clamp<long long>(left.count(), 0, 3'600'000)));
        if (count > 0) return true;
        if (count == 0 && Clock::now() >= until) return false;
        if (count < 0 && errno != EINTR) return true;  // the next call on the socket says why
    }
}

std::pair<int, std::string> connect_to(const std::string& address, int port,
                                       std::chrono::steady_clock::time_point until) {
    const auto target = SocketAddress::of(address, port);
    if (!target) return {-1, cat("'", address, "' is no address")};
    const auto made = socket(target->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0) return {-1, std::strerror(errno)};
    auto error = connect(made, target->get(), target->size) != 0 ? errno : 0;
    if (error == EINPROGRESS || error == EINTR) {
        auto size = socklen_t{sizeof error};
        if (!ready(made, POLLOUT, until))
            error = ETIMEDOUT;
        else if (getsockopt(made, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = errno;
    }
    if (error == 0) {
        // A port that nobody listens at may be taken by the very socket that connects to it.
        auto own = SocketAddress{.size = sizeof(sockaddr_storage)};
        auto peer = own;
        if (getsockname(made, own.get(), &own.size) != 0 || getpeername(made, peer.get(), &peer.size) != 0)
            error = errno;
        else if (own.size != peer.size || std::memcmp(&own.storage, &peer.storage, own.size) != 0)
            return {made, {}};
        else
            error = ECONNREFUSED;
    }
    close(made);
    return {-1, std::strerror(error)};
}

std::string elapsed_since(std::chrono::steady_clock::time_point begin) {
    const auto elapsed = std::chrono::steady_clock::now() - begin;
    return cat(std::chrono::round<std::chrono::milliseconds>(elapsed).count(), " ms");
}

std::vector<std::string> host_addresses(const std::string& host,
                                        std::chrono::steady_clock::time_point until) {
    if (SocketAddress::of(host)) return {host};
    // The system's name lookup cannot be interrupted, so a thread waits for it.
    auto search = std::packaged_task<std::vector<std::string>()>([host] {
        auto wanted = addrinfo{};
        wanted.ai_socktype = SOCK_STREAM;
        addrinfo* list = nullptr;
        if (const auto error = getaddrinfo(host.c_str(), nullptr, &wanted, &list); error != 0)
            throw HostNotFound(cat("its address cannot be found: ", gai_strerror(error)));
        auto found = std::vector<std::string>{};
        for (const auto* each = list; each; each = each->ai_next)
            if (auto text = numeric_text(each->ai_addr, each->ai_addrlen); !text.empty())
                found.push_back(std::move(text));
        freeaddrinfo(list);
        return found;
    });
    auto found = search.get_future();
    std::thread(std::move(search)).detach();
    if (found.wait_until(until) == std::future_status::timeout)
        throw Timeout(cat("the timeout expired: the address of the store's host '", host,
                          "' is not found yet; see that it is the name of a host and that a name server "
                          "answers, or give an address in numbers"),
                      {}, {});
    return found.get();
}

bool is_own_address(const std::string& address) {
    const auto found = SocketAddress::of(address);
    const auto made = found ? socket(found->family(), SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    const auto own = made >= 0 && bind(made, found->get(), found->size) == 0;
    if (made >= 0) close(made);
    return own;
}

int accept_connection(int listening) {
    const auto made = ::accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (made >= 0 || !is_shortage(errno)) return made;
    // Linux takes a descriptor before it looks whether somebody has called.
    const auto shortage = errno;
    auto called = pollfd{.fd = listening, .events = POLLIN, .revents = 0};
    errno = ::poll(&called, 1, 0) > 0 ? shortage : EAGAIN;
    return -1;
}

}  // namespace rankmesh::detail
