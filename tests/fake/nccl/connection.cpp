// SPDX-License-Identifier: Apache-2.0
#include "fake/nccl/connection.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

namespace fake_nccl {
namespace {

struct Header {
    std::uint64_t communicator;
    std::uint64_t number;
    std::uint64_t about;  // bytes
    std::uint64_t data;   // bytes
    Kind kind;
    std::uint32_t unused;
};

/// Sends all of it, also to one that reads slowly; false: the peer has ended, or `given_up()`.
bool send_all(int socket, const std::string& bytes, const std::function<bool()>& given_up) {
    for (auto sent = std::size_t{0}; sent < bytes.size();) {
        const auto some =
            ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (some >= 0) {
            sent += static_cast<std::size_t>(some);
        } else if (errno == EAGAIN) {
            auto polled = pollfd{socket, POLLOUT, 0};
            if (poll(&polled, 1, 20) == 0 && given_up()) return false;
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

}  // namespace

Connection::Connection(const std::string& id, int rank, int size, const std::string& device,
                       const std::atomic<bool>& aborted)
    : rank_(rank), size_(size), sockets_(static_cast<std::size_t>(size), -1) {
    half_read_.resize(sockets_.size());
    for (int each = 0; each < size; ++each) sending_.push_back(std::make_unique<std::mutex>());
    try {
        connect_all(id, device, aborted);
    } catch (...) {
        for (const auto each : sockets_)
            if (each >= 0) ::close(each);
        throw;
    }
    end_ = eventfd(0, EFD_CLOEXEC);
    reader_ = std::thread([this] { read(); });
}

Connection::~Connection() {
    const auto one = std::uint64_t{1};
    (void)!write(end_, &one, sizeof one);
    reader_.join();
    ::close(end_);
    for (const auto each : sockets_)
        if (each >= 0) ::close(each);
}

void Connection::send(int to, std::uint64_t communicator, Kind kind, std::uint64_t number, const Frame& frame,
                      const std::function<bool()>& given_up) {
    if (to == rank_) return deliver({communicator, kind, rank_, number}, frame);
    const auto header = Header{communicator, number, frame.about.size(), frame.data.size(), kind, 0};
    const auto at = static_cast<std::size_t>(to);
    const auto lock = std::lock_guard(*sending_[at]);
    const auto bytes =
        std::string(reinterpret_cast<const char*>(&header), sizeof header) + frame.about + frame.data;
    if (!send_all(sockets_[at], bytes, given_up)) shutdown(sockets_[at], SHUT_RDWR);  // a frame may be cut
}

void Connection::deliver(const Key& key, Frame frame) {
    const auto lock = std::lock_guard(mutex_);
    if (!closed_.contains(key.communicator)) frames_[key] = std::move(frame);
    changed_.notify_all();
}

bool Connection::take(const Key& key, Frame& frame, std::chrono::steady_clock::time_point until,
                      const std::function<bool()>& given_up) {
    auto lock = std::unique_lock(mutex_);
    while (true) {
        if (const auto found = frames_.extract(key)) {
            frame = std::move(found.mapped());
            return true;
        }
        lock.unlock();
        const auto enough = given_up();
        lock.lock();
        if (frames_.contains(key)) continue;
        if (enough) return false;
        // A little at a time: what `given_up` asks for may have changed just before this.
        const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
        changed_.wait_until(lock, std::min(until, soon));
        if (!frames_.contains(key) && std::chrono::steady_clock::now() >= until) return false;
    }
}

void Connection::wake() {
    const auto lock = std::lock_guard(mutex_);
    changed_.notify_all();
}

bool Connection::is_lost(int rank) const {
    const auto lock = std::lock_guard(mutex_);
    return lost_.contains(rank);
}

bool Connection::has(const Key& key) const {
    const auto lock = std::lock_guard(mutex_);
    return frames_.contains(key);
}

std::string Connection::first(std::uint64_t communicator, Kind kind, int from) const {
    const auto lock = std::lock_guard(mutex_);
    const auto found = frames_.lower_bound({communicator, kind, from, 0});
    const auto is_there = found != frames_.end() && found->first.communicator == communicator &&
                          found->first.kind == kind && found->first.from == from;
    return is_there ? found->second.about : std::string{};
}

void Connection::close(std::uint64_t communicator) {
    const auto lock = std::lock_guard(mutex_);
    closed_.insert(communicator);
    std::erase_if(frames_, [&](const auto& each) { return each.first.communicator == communicator; });
}

void Connection::read() {
    auto polled = std::vector<pollfd>{{end_, POLLIN, 0}};
    for (const auto each : sockets_) polled.push_back({each, POLLIN, 0});  // poll passes over -1
    while (true) {
        if (poll(polled.data(), polled.size(), -1) < 0) continue;
        if (polled[0].revents != 0) return;
        for (int rank = 0; rank < size_; ++rank) {
            auto& each = polled[static_cast<std::size_t>(rank) + 1];
            if (each.revents == 0 || read_some(rank)) continue;
            each.fd = -1;
            const auto lock = std::lock_guard(mutex_);
            lost_.insert(rank);
            changed_.notify_all();
        }
    }
}

bool Connection::read_some(int rank) {
    auto& bytes = half_read_[static_cast<std::size_t>(rank)];
    char some[65536];
    const auto came = recv(sockets_[static_cast<std::size_t>(rank)], some, sizeof some, MSG_DONTWAIT);
    if (came <= 0) return came < 0 && (errno == EAGAIN || errno == EINTR);
    bytes.append(some, static_cast<std::size_t>(came));
    auto begin = std::size_t{0};
    while (bytes.size() - begin >= sizeof(Header)) {
        auto header = Header{};
        std::memcpy(&header, bytes.data() + begin, sizeof header);
        const auto about = begin + sizeof header;
        if (bytes.size() < about + header.about + header.data) break;
        deliver({header.communicator, header.kind, rank, header.number},
                {bytes.substr(about, header.about), bytes.substr(about + header.about, header.data)});
        begin = about + header.about + header.data;
    }
    bytes.erase(0, begin);
    return true;
}

}  // namespace fake_nccl
