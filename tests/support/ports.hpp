// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <random>
#include <stdexcept>

namespace support {

inline sockaddr_in loopback(int port) {
    auto address = sockaddr_in{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    return address;
}

/// True if somebody takes connections at a port of 127.0.0.1.
inline bool listens_at(int port) {
    const auto made = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto address = loopback(port);
    const auto connected = ::connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(made);
    return connected;
}

/// The first of `count` neighbouring ports of 127.0.0.1 that are free, among those that the system gives to
/// no connection: where one has just ended nobody can listen for a minute.
inline int free_ports(int count) {
    constexpr auto first = 10'000, last = 32'000;
    const auto is_free = [](int port) {
        const auto made = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const auto address = loopback(port);
        const auto bound = ::bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
        ::close(made);
        return bound;
    };
    auto random = std::random_device{};
    for (int tries = 0; tries < 1000; ++tries) {
        const auto begin = std::uniform_int_distribution(first, last - count)(random);
        auto end = begin;
        while (end < begin + count && is_free(end)) ++end;
        if (end == begin + count) return begin;
    }
    throw std::runtime_error("no ports of 127.0.0.1 are free");
}

}  // namespace support
