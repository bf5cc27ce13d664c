// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/transport/listener.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <rankmesh/core/error.hpp>

#include "engine/random_bytes.hpp"
#include "engine/shortage.hpp"

namespace rankmesh::detail {
namespace {

/// The number of connections beside those of the peers that are kept before they have said a password; one
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
    const auto close_all = [&] {
        for (const auto descriptor : {descriptor_, ready_})
            if (descriptor >= 0) ::close(descriptor);
    };
    descriptor_ = ::socket(address_.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ready_ = ::epoll_create1(EPOLL_CLOEXEC);
    auto size = socklen_t{sizeof address_};
    auto* address = reinterpret_cast<sockaddr*>(&address_);
    if (descriptor_ < 0 || ready_ < 0 ||
        ::bind(descriptor_, address, Endpoint{address_}.address_size()) != 0 ||
        ::listen(descriptor_, SOMAXCONN) != 0 || ::getsockname(descriptor_, address, &size) != 0) {
        const auto error = errno;
        close_all();
        throw_if_short(error);
        throw EngineFailure(cat("no port to listen at for peers: ", std::strerror(error)));
    }
    await(descriptor_, of_listening);
    device_.registerDescriptor(ready_, EPOLLIN, this);
}

Listener::~Listener() {
    {
        const auto wakeup = Network::FastWakeup(network_);
        device_.unregisterDescriptor(ready_, this);  // waits for Gloo's thread to be done with this
    }
    for (const auto& [id, pending] : pending_) ::close(pending.descriptor);
    ::close(std::exchange(descriptor_, -1));
    ::close(ready_);
}

int Listener::shortage() const {
    const auto lock = std::lock_guard(mutex_);
    return shortage_;
}

void Listener::await(int descriptor, std::uint64_t id) {
    auto event = epoll_event{.events = EPOLLIN, .data = {.u64 = id}};
    ::epoll_ctl(ready_, EPOLL_CTL_ADD, descriptor, &event);
}

int Listener::release(Pending::iterator pending) {
    const auto descriptor = pending->second.descriptor;
    // Closing it is not enough where a child has a copy.
    ::epoll_ctl(ready_, EPOLL_CTL_DEL, descriptor, nullptr);
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
    for (;;) {
        const auto descriptor = ::accept4(descriptor_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        const auto full = descriptor < 0 && (errno == EMFILE || errno == ENFILE);
        if (full || descriptor >= 0) shortage_ = full ? errno : 0;
        if (descriptor < 0 && (!full || pending_.empty())) return;
        if (full || pending_.size() >= peers_.size() + most_strangers) ::close(release(pending_.begin()));
        if (descriptor < 0) continue;
        const auto pending = pending_.emplace_hint(pending_.end(), ++last_id_, PendingConnection{descriptor});
        await(descriptor, last_id_);
        // At once: a peer says its password as soon as it is connected, and may be displaced later.
        read(pending);
    }
}

Listener::Peer* Listener::peer_of(const WordReader& said) const {
    const auto [begin, end] = peers_.equal_range(first_half(said.word()));
    const auto found =
        std::find_if(begin, end, [&](const auto& each) { return said.is(each.second->endpoint_.password); });
    return found == end ? nullptr : found->second;
}

void Listener::read(Pending::iterator pending) {
    auto& said = pending->second.said;
    const auto room = said.room();
    const auto count = ::recv(pending->second.descriptor, room.data(), room.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count > 0) said.take(static_cast<std::size_t>(count));
    if (count > 0 && !said.is_complete()) return;
    auto* const peer = count > 0 ? peer_of(said) : nullptr;
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
        ::close(descriptor_);
}

bool Listener::Peer::wait_until(std::chrono::steady_clock::time_point until) {
    auto lock = std::unique_lock(listener_->mutex_);
    return listener_->came_.wait_until(lock, until, [&] { return descriptor_ >= 0; });
}

int Listener::Peer::take() {
    const auto lock = std::lock_guard(listener_->mutex_);
    return std::exchange(descriptor_, -1);
}

}  // namespace rankmesh::detail
