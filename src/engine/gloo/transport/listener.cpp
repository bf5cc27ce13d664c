// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/transport/listener.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>

#include <rankmesh/core/error.hpp>

#include "engine/hosts/sockets.hpp"
#include "engine/system.hpp"

namespace rankmesh::detail {
namespace {

/// The number of connections beside those of the peers that are kept before they have sent a password; one
/// more replaces the oldest of all.
constexpr auto most_strangers = std::size_t{8};

/// Stands for the listening socket where a number stands for a pending connection.
constexpr auto of_listening = std::uint64_t{0};

Endpoint::Word random_word() {
    auto word = Endpoint::Word{};
    std::ranges::copy(random_bytes(word.size()), word.begin());
    return word;
}

/// A password is found by its first half, and its other half compared in constant time.
std::string first_half(const Endpoint::Word& word) { return {word.data(), word.size() / 2}; }

}  // namespace

Listener::Listener(std::shared_ptr<Network> network)
    : network_(std::move(network)),
      device_(dynamic_cast<::gloo::transport::tcp::Device&>(*network_->device())),
      address_(network_->address()) {
    auto size = socklen_t{sizeof address_};
    auto* address = reinterpret_cast<sockaddr*>(&address_);
    try {
        descriptor_ = ::socket(address_.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        ready_ = ::epoll_create1(EPOLL_CLOEXEC);
        if (descriptor_ < 0 || ready_ < 0 ||
            ::bind(descriptor_, address, Endpoint{address_}.address_size()) != 0 ||
            ::listen(descriptor_, SOMAXCONN) != 0 || ::getsockname(descriptor_, address, &size) != 0 ||
            !await(descriptor_, of_listening)) {
            throw_if_short(errno);
            throw EngineFailure(cat("no port to listen at for peers: ", std::strerror(errno)));
        }
        device_.registerDescriptor(ready_, EPOLLIN, this);
    } catch (...) {
        close_own();
        throw;
    }
}

Listener::~Listener() {
    {
        const auto wakeup = Network::FastWakeup(network_);
        device_.unregisterDescriptor(ready_, this);  // waits for Gloo's thread to be done with this
    }
    for (auto& [id, pending] : pending_) ::close(std::exchange(pending.descriptor, -1));
    close_own();
}

void Listener::accept(bool wanted) {
    if (std::exchange(accepts_, wanted) == wanted) return;
    auto event = epoll_event{.events = wanted ? std::uint32_t{EPOLLIN} : 0U, .data = {.u64 = of_listening}};
    ::epoll_ctl(ready_, EPOLL_CTL_MOD, descriptor_, &event);
}

int Listener::release(Pending::iterator pending) {
    // Closing it is not enough where a child has a copy.
    ::epoll_ctl(ready_, EPOLL_CTL_DEL, pending->second.descriptor, nullptr);
    const auto descriptor = std::exchange(pending->second.descriptor, -1);
    pending_.erase(pending);
    return descriptor;
}

/// Runs on Gloo's thread.
void Listener::handleEvents(int) {
    const auto lock = std::lock_guard(mutex_);
    auto events = std::array<epoll_event, 64>{};
    const auto count = ::epoll_wait(ready_, events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) {
        const auto id = events[static_cast<std::size_t>(i)].data.u64;
        if (id == of_listening)
            accept_pending();
        else if (const auto pending = pending_.find(id); pending != pending_.end())
            read(pending);
    }
}

void Listener::accept_pending() {
    // Some at a time, since whoever waits for a peer, and all other groups, wait for this.
    constexpr auto at_a_time = 16;
    for (int i = 0; i < at_a_time; ++i) {
        const auto descriptor = accept_connection(descriptor_);
        const auto error = descriptor < 0 ? errno : 0;
        if (is_shortage(error)) {
            if (pending_.empty()) {
                if (shortage_ == 0) short_since_ = std::chrono::steady_clock::now();
                shortage_ = error;
                return accept(false);
            }
            ::close(release(pending_.begin()));
            continue;
        }
        if (descriptor < 0) return;
        shortage_ = 0;
        while (!pending_.empty() && pending_.size() >= peers_.size() + most_strangers)
            ::close(release(pending_.begin()));
        const auto pending = pending_.try_emplace(++last_id_, descriptor).first;
        if (!await(descriptor, last_id_))
            ::close(release(pending));
        else  // at once: a peer says its password as soon as it is connected, and may be displaced later
            read(pending);
    }
}

Listener::Peer* Listener::peer_of(const WordReader& password) const {
    const auto [begin, end] = peers_.equal_range(first_half(password.word()));
    const auto found = std::find_if(
        begin, end, [&](const auto& each) { return password.is(each.second->endpoint_.password); });
    return found == end ? nullptr : found->second;
}

void Listener::read(Pending::iterator pending) {
    auto& password = pending->second.password;
    const auto room = password.room();
    const auto count = ::recv(pending->second.descriptor, room.data(), room.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count > 0) password.take(static_cast<std::size_t>(count));
    if (count > 0 && !password.is_complete()) return;
    auto* const peer = count > 0 ? peer_of(password) : nullptr;
    const auto descriptor = release(pending);
    // Who is not waited for any more must not try again.
    const auto& answer = peer ? peer->endpoint_.answer : Endpoint::refusal;
    const auto answered = count > 0 && ::send(descriptor, answer.data(), answer.size(), MSG_NOSIGNAL) ==
                                           static_cast<ssize_t>(answer.size());
    if (!peer || !answered) {
        ::close(descriptor);
        return;
    }
    peer->descriptor_ = descriptor;
    peer->has_come_ = true;
    peers_.erase(peer->place_);
    came_.notify_all();
}

Listener::Peer::Peer(std::shared_ptr<Listener> listener)
    : listener_(std::move(listener)), endpoint_{listener_->address_, random_word(), random_word()} {
    const auto lock = std::lock_guard(listener_->mutex_);
    place_ = listener_->peers_.emplace(first_half(endpoint_.password), this);
}

Listener::Peer::~Peer() {
    const auto lock = std::lock_guard(listener_->mutex_);
    if (!has_come_)
        listener_->peers_.erase(place_);
    else if (descriptor_ >= 0)
        ::close(std::exchange(descriptor_, -1));
}

bool Listener::Peer::wait_until(std::chrono::steady_clock::time_point until) {
    auto lock = std::unique_lock(listener_->mutex_);
    listener_->accept(true);  // also after a shortage
    return listener_->came_.wait_until(lock, until, [&] { return descriptor_ >= 0; });
}

int Listener::Peer::take() {
    const auto lock = std::lock_guard(listener_->mutex_);
    return std::exchange(descriptor_, -1);
}

}  // namespace rankmesh::detail
