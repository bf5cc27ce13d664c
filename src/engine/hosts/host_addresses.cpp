// SPDX-License-Identifier: Apache-2.0
#include "engine/hosts/host_addresses.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <thread>
#include <utility>

#include <rankmesh/core/error.hpp>

namespace rankmesh::detail {

std::vector<std::string> host_addresses(const std::string& host,
                                        std::chrono::steady_clock::time_point until) {
    char unused[sizeof(in6_addr)];
    if (inet_pton(AF_INET, host.c_str(), unused) == 1 || inet_pton(AF_INET6, host.c_str(), unused) == 1)
        return {host};
    // The system's name lookup cannot be interrupted, so a thread waits for it.
    auto search = std::packaged_task<std::vector<std::string>()>([host] {
        auto wanted = addrinfo{};
        wanted.ai_socktype = SOCK_STREAM;
        addrinfo* list = nullptr;
        if (const auto error = getaddrinfo(host.c_str(), nullptr, &wanted, &list); error != 0)
            throw HostNotFound(cat("its address cannot be found: ", gai_strerror(error)));
        auto found = std::vector<std::string>{};
        char text[NI_MAXHOST] = {};
        for (const auto* each = list; each; each = each->ai_next)
            if (getnameinfo(each->ai_addr, each->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) ==
                0)
                found.emplace_back(text);
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
    auto wanted = addrinfo{};
    wanted.ai_flags = AI_NUMERICHOST;
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(address.c_str(), nullptr, &wanted, &found) != 0) return false;
    const auto made = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto own = made >= 0 && bind(made, found->ai_addr, found->ai_addrlen) == 0;
    if (made >= 0) close(made);
    freeaddrinfo(found);
    return own;
}

}  // namespace rankmesh::detail
