// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// The IPv4 addresses at which a process listens, as the system says.
inline std::vector<sockaddr_in> listening(pid_t process) {
    const auto folder = "/proc/" + std::to_string(process);
    auto own = std::set<std::string>{};
    auto error = std::error_code{};
    for (const auto& each : std::filesystem::directory_iterator(folder + "/fd", error)) {
        const auto target = std::filesystem::read_symlink(each, error).string();
        if (target.starts_with("socket:[")) own.insert(target.substr(8, target.size() - 9));
    }
    auto found = std::vector<sockaddr_in>{};
    auto table = std::ifstream(folder + "/net/tcp");
    auto line = std::string{};
    std::getline(table, line);
    while (std::getline(table, line)) {
        auto words = std::istringstream(line);
        auto number = std::string{}, local = number, remote = number, state = number, other = number,
             inode = number;
        words >> number >> local >> remote >> state >> other >> other >> other >> other >> other >> inode;
        if (state != "0A" || !own.contains(inode)) continue;
        auto address = sockaddr_in{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = static_cast<in_addr_t>(std::stoul(local.substr(0, 8), nullptr, 16));
        address.sin_port = htons(static_cast<in_port_t>(std::stoul(local.substr(9), nullptr, 16)));
        found.push_back(address);
    }
    return found;
}

/// Whether a socket has something to read, or somebody to accept.
inline bool is_readable(int socket) {
    auto asked = pollfd{.fd = socket, .events = POLLIN, .revents = 0};
    return poll(&asked, 1, 0) == 1;
}

/// A connection as anybody can make one.
class Stranger {
public:
    explicit Stranger(const sockaddr_in& address)
        : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        const auto limit = timeval{.tv_sec = 0, .tv_usec = 100000};
        ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        connected_ = ::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    }
    /// One that has been made.
    explicit Stranger(int descriptor) : descriptor_(descriptor), connected_(descriptor >= 0) {}
    Stranger(Stranger&& other) noexcept
        : descriptor_(std::exchange(other.descriptor_, -1)), connected_(other.connected_) {}
    Stranger& operator=(Stranger&& other) noexcept {
        std::swap(descriptor_, other.descriptor_);
        connected_ = other.connected_;
        return *this;
    }
    ~Stranger() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }
    bool is_connected() const { return connected_; }
    /// Whether there is something to hear.
    bool is_heard() const { return is_readable(descriptor_); }
    void say(const std::string& bytes) const {
        static_cast<void>(::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    }
    std::string hear(std::size_t bytes) const {
        auto text = std::string(bytes, '\0');
        const auto count = ::recv(descriptor_, text.data(), bytes, MSG_WAITALL);
        return text.substr(0, count < 0 ? 0 : static_cast<std::size_t>(count));
    }
    /// Closes in the rudest way.
    void reset() {
        const auto hard = linger{.l_onoff = 1, .l_linger = 0};
        ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        ::close(std::exchange(descriptor_, -1));
    }

private:
    int descriptor_;
    bool connected_ = false;
};

/// Where anybody can connect.
class Listener {
public:
    Listener() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        address_.sin_family = AF_INET;
        address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        auto size = socklen_t{sizeof address_};
        auto* address = reinterpret_cast<sockaddr*>(&address_);
        if (::bind(descriptor_, address, size) != 0 || ::listen(descriptor_, 8) != 0 ||
            ::getsockname(descriptor_, address, &size) != 0)
            throw std::runtime_error("nobody can listen");
    }
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    ~Listener() { ::close(descriptor_); }
    const sockaddr_in& address() const { return address_; }
    /// Whether somebody waits to be accepted.
    bool is_called() const { return is_readable(descriptor_); }
    Stranger accept() const { return Stranger(::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC)); }

private:
    const int descriptor_;
    sockaddr_in address_ = {};
};

}  // namespace support
