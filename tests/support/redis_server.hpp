// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <memory>

#include "support/eventually.hpp"
#include "support/listener.hpp"
#include "support/processes.hpp"

namespace support {

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
        auto ended = false;
        const auto settled = eventually([&] {
            ended = waitpid(process_, nullptr, WNOHANG) == process_;
            return ended || keys() >= 0;
        });
        if (ended) process_ = 0;
        if (!settled) stop();
        return settled && !ended;
    }

private:
    const Folder folder_;
    const std::vector<std::string> options_;
    int port_ = 0;
    pid_t process_ = 0;
};

}  // namespace support
