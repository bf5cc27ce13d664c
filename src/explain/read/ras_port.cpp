// SPDX-License-Identifier: Apache-2.0
// The client of NCCL's RAS: lines of text over TCP, as src/ras/client_support.cc of NCCL answers them.
#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <rankmesh/core/detail/quote.hpp>
#include <rankmesh/core/error.hpp>

#include "explain/read/ras.hpp"

namespace rankmesh::of_ras {

using detail::cat;

constexpr auto most_report = std::size_t{1} << 28;
using Stream = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

/// Connects a stream to `HOST` or `HOST:PORT`; null: errno says why not.
Stream connected(const std::string& address, int timeout_ms) {
    const auto colon = address.rfind(':');
    const auto is_port = colon != std::string::npos && address.find(']', colon) == std::string::npos;
    auto host = address.substr(0, is_port ? colon : std::string::npos);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    auto hints = addrinfo{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const auto port = is_port ? address.substr(colon + 1) : "28028";  // NCCL_RAS_CLIENT_PORT
    if (const auto error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0)
        throw UsageError(cat("ras://HOST:PORT asks NCCL's RAS, and there is no host and port ",
                             detail::in_quotes(address), ": ", ::gai_strerror(error)));
    const auto all = std::unique_ptr<addrinfo, void (*)(addrinfo*)>(found, ::freeaddrinfo);
    for (const auto* one = all.get(); one; one = one->ai_next) {
        const auto socket = ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
        if (socket < 0) continue;
        const auto limit = timeval{timeout_ms / 1000, timeout_ms % 1000 * 1000};
        ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        if (::connect(socket, one->ai_addr, one->ai_addrlen) == 0)
            if (auto* stream = ::fdopen(socket, "r+")) return {stream, std::fclose};
        const auto reason = errno;
        ::close(socket);
        errno = reason;
    }
    return {nullptr, std::fclose};
}

std::string ask(const std::string& address, int timeout_ms) {
    const auto fail = [&](const std::string& why) {
        throw UsageError(cat("NCCL's RAS at ", detail::excerpt(address), " gave no report: ", why,
                             "; RAS listens at localhost:28028 on hosts of the job, or at NCCL_RAS_ADDR"));
    };
    const auto stream = connected(address, timeout_ms);
    if (!stream) fail(std::strerror(errno));
    const auto send = [&](const char* command) {
        std::fseek(stream.get(), 0, SEEK_CUR);  // between reading and writing
        if (std::fputs(command, stream.get()) < 0 || std::fflush(stream.get()) != 0)
            fail(std::strerror(errno));
    };
    const auto answer = [&](const char* command) {
        send(command);
        char line[4096] = "";
        errno = 0;
        if (!std::fgets(line, sizeof line, stream.get()))
            fail(errno == EAGAIN ? "it does not answer" : "it closed the connection");
        return std::string(line);
    };
    if (const auto hello = answer("CLIENT PROTOCOL 2\n"); !hello.starts_with("SERVER PROTOCOL "))
        fail(cat("it answers ", detail::in_quotes(hello), " and is not RAS"));
    answer("SET FORMAT json\n");  // an error before NCCL 2.28, which then sends text
    send("VERBOSE STATUS\n");
    auto report = std::string{};
    auto bytes = std::string(std::size_t{1} << 16, '\0');
    errno = 0;
    while (const auto count = std::fread(bytes.data(), 1, bytes.size(), stream.get())) {
        report.append(bytes, 0, count);
        if (report.size() > most_report) fail(cat("it has more than ", most_report, " bytes"));
    }
    if (std::ferror(stream.get()) != 0) fail(errno == EAGAIN ? "it does not answer" : std::strerror(errno));
    if (report.empty()) fail("it closed the connection");
    return report;
}

}  // namespace rankmesh::of_ras
