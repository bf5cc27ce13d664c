// SPDX-License-Identifier: Apache-2.0
#include "engine/hosts/host_addresses.hpp"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <thread>
#include <utility>

#include <rankmesh/core/error.hpp>

#include "engine/hosts/sockets.hpp"

namespace rankmesh::detail {

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

}  // namespace rankmesh::detail
