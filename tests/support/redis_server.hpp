// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>

#include "support/processes.hpp"

namespace support {

/// A socket on 127.0.0.1 that listens on a port of its own; the kernel accepts connections, nothing answers.
class Listener {
public:
    explicit Listener(int backlog = 16) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        auto address = loopback(0);
        auto length = socklen_t{sizeof address};
        if (socket_ < 0 || bind(socket_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
            listen(socket_, backlog) != 0 ||
            getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
            throw std::runtime_error("no socket can listen on 127.0.0.1");
        port_ = ntohs(address.sin_port);
    }
    ~Listener() { close(socket_); }
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    int socket() const { return socket_; }
    int port() const { return port_; }
    std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }

    static sockaddr_in loopback(int port) {
        auto address = sockaddr_in{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(static_cast<std::uint16_t>(port));
        return address;
    }

private:
    int socket_;
    int port_ = 0;
};

/// A private Redis server on 127.0.0.1 that keeps nothing and goes with this.
class RedisServer {
public:
    static bool is_installed() { return *RANKMESH_REDIS_SERVER != '\0'; }
    static constexpr auto how_to_get_it = "no redis-server is installed; scripts/need.sh names the package";

    explicit RedisServer(std::vector<std::string> options = {}) : options_(std::move(options)) {
        for (int attempt = 0; attempt < 5; ++attempt) {
            port_ = Listener().port();  // free now, though somebody may take it first
            if (start()) return;
        }
        throw std::runtime_error("redis-server cannot be started");
    }
    ~RedisServer() { stop(); }
    RedisServer(const RedisServer&) = delete;
    RedisServer& operator=(const RedisServer&) = delete;

    int port() const { return port_; }
    std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }
    /// How many keys there are; -1 if it does not answer.
    int keys() const {
        const auto own = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const auto address = Listener::loopback(port_);
        char reply[1024] = {};
        auto length = ssize_t{-1};
        if (connect(own, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
            send(own, "DBSIZE\r\n", 8, MSG_NOSIGNAL) == 8)
            length = read(own, reply, sizeof reply - 1);
        close(own);
        return length > 0 ? std::atoi(reply + 1) : -1;  // after the ':', 0 for an error
    }
    void stop() {
        if (process_ > 0) kill(process_, SIGKILL), end_of(process_);
        process_ = 0;
    }
    /// Starts it on the port that it has; true once it listens there.
    bool start() {
        auto words = std::vector<std::string>{RANKMESH_REDIS_SERVER,
                                              "--port",
                                              std::to_string(port_),
                                              "--bind",
                                              "127.0.0.1",
                                              "--save",
                                              "",
                                              "--appendonly",
                                              "no",
                                              "--dir",
                                              folder_.path(),
                                              "--logfile",
                                              folder_.path() + "/log",
                                              "--daemonize",
                                              "no"};
        words.insert(words.end(), options_.begin(), options_.end());
        process_ = support::start(words, {});
        for (int wait = 0; wait < 2000; ++wait) {
            if (waitpid(process_, nullptr, WNOHANG) == process_) return process_ = 0, false;
            if (keys() >= 0) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return stop(), false;
    }

private:
    const Folder folder_;
    const std::vector<std::string> options_;
    int port_ = 0;
    pid_t process_ = 0;
};

}  // namespace support
