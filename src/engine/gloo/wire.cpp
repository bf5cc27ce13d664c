// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/wire.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <thread>

#include <rankmesh/core/error.hpp>

#include "engine/gloo/dial.hpp"

namespace rankmesh::detail {
namespace {

/// How many strangers one end hears at once; who comes then takes the place of the first of them.
constexpr auto most_guests = std::size_t{8};

Invitation::Word random_word() {
    auto word = Invitation::Word{};
    if (getrandom(word.data(), word.size(), 0) != static_cast<ssize_t>(word.size()))
        throw EngineFailure("the system gives no random numbers");
    return word;
}

/// Takes as long whatever is wrong.
bool same(const Invitation::Word& a, const Invitation::Word& b) {
    auto difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
    return difference == 0;
}

}  // namespace

std::string Invitation::bytes() const {
    auto text = std::string(reinterpret_cast<const char*>(&address), address_size());
    text.append(password.data(), password.size());
    return text.append(answer.data(), answer.size());
}

Invitation Invitation::from(const std::string& bytes) {
    auto invitation = Invitation{};
    const auto words = invitation.password.size() + invitation.answer.size();
    if (bytes.size() != words + sizeof(sockaddr_in) && bytes.size() != words + sizeof(sockaddr_in6))
        throw EngineFailure(cat("an invitation of ", bytes.size(), " bytes"));
    const auto size = bytes.size() - words;
    std::memcpy(&invitation.address, bytes.data(), size);
    std::memcpy(invitation.password.data(), bytes.data() + size, invitation.password.size());
    std::memcpy(invitation.answer.data(), bytes.data() + size + invitation.password.size(),
                invitation.answer.size());
    return invitation;
}

Wire::Wire(::gloo::transport::tcp::Context* context, ::gloo::transport::tcp::Device* device, int position,
           std::chrono::milliseconds timeout)
    : ::gloo::transport::tcp::Pair(context, device, position, timeout) {
    const auto lock = std::lock_guard(m_);
    if (state_ != LISTENING) return;
    invitation_ = {self_.getSockaddr(), random_word(), random_word()};
    // Gloo listens for one; strangers must not keep the peer out.
    ::listen(fd_, SOMAXCONN);
    ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK);
}

Wire::~Wire() {
    // Closed here, since Gloo's destructor would go on hearing without the password.
    const auto lock = std::lock_guard(m_);
    if (state_ != CLOSED) changeState(CLOSED);
}

bool Wire::is_listening() {
    const auto lock = std::lock_guard(m_);
    return state_ == LISTENING;
}

void Wire::stop_listening() {
    const auto lock = std::lock_guard(m_);
    throwIfException();
    dismiss_guests();
    device_->unregisterDescriptor(fd_, this);
    ::close(fd_);
    fd_ = -1;
}

void Wire::adopt(Dial& dial) {
    const auto lock = std::lock_guard(m_);
    throwIfException();
    fd_ = dial.take();
    is_client_ = true;
    try {
        handleConnected();
    } catch (const std::exception&) {  // it has gone again
        ::close(fd_);
        fd_ = -1;
        throw;
    }
}

bool Wire::wait_until(std::chrono::steady_clock::time_point until) {
    auto lock = std::unique_lock(m_);
    return cv_.wait_until(lock, until, [this] {
        throwIfException();
        return state_ >= CONNECTED;
    });
}

/// On Gloo's thread, for the connection, the door and every guest.
void Wire::handleEvents(int events) {
    // Who holds the lock may be waiting for this thread.
    const auto lock = std::unique_lock(m_, std::try_to_lock);
    if (!lock) return std::this_thread::yield();
    if (state_ == CONNECTED) handleReadWrite(events);
    if (state_ == LISTENING) {
        greet();
        hear_guests();
    }
}

void Wire::greet() {
    for (;;) {
        const auto descriptor = ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        const auto full = descriptor < 0 && (errno == EMFILE || errno == ENFILE);
        if (descriptor < 0 && (!full || guests_.empty())) return;
        if (full || guests_.size() == most_guests) {
            ::close(guests_.front().descriptor);
            guests_.erase(guests_.begin());
        }
        if (descriptor < 0) continue;
        guests_.push_back({.descriptor = descriptor});
        device_->registerDescriptor(descriptor, EPOLLIN, this);
    }
}

void Wire::hear_guests() {
    for (auto guest = guests_.begin(); guest != guests_.end();) {
        const auto count = ::recv(guest->descriptor, guest->said.data() + guest->heard,
                                  guest->said.size() - guest->heard, MSG_DONTWAIT);
        if (count > 0) guest->heard += static_cast<std::size_t>(count);
        const auto waits = count < 0 && (errno == EAGAIN || errno == EINTR);
        if (waits || (count > 0 && guest->heard < guest->said.size())) {
            ++guest;
            continue;
        }
        const auto descriptor = guest->descriptor;
        const auto& answer = invitation_.answer;
        const auto knows = count > 0 && same(guest->said, invitation_.password) &&
                           ::send(descriptor, answer.data(), answer.size(), MSG_NOSIGNAL) ==
                               static_cast<ssize_t>(answer.size());
        guest = guests_.erase(guest);
        if (!knows) {
            ::close(descriptor);
            continue;
        }
        device_->unregisterDescriptor(fd_, this);
        ::close(fd_);
        fd_ = descriptor;
        try {
            handleConnected();
        } catch (const std::exception&) {  // it has gone again
            signalException(std::current_exception());
        }
        return;
    }
}

void Wire::dismiss_guests() noexcept {
    for (const auto& guest : guests_) ::close(guest.descriptor);
    guests_.clear();
}

void Wire::changeState(state next) noexcept {
    // Closed before Gloo waits for its thread, which then hears of none of them any more.
    dismiss_guests();
    ::gloo::transport::tcp::Pair::changeState(next);
}

WireContext::WireContext(const std::shared_ptr<::gloo::transport::Device>& device, int position, int size)
    : ::gloo::transport::tcp::Context(std::dynamic_pointer_cast<::gloo::transport::tcp::Device>(device),
                                      position, size) {}

std::unique_ptr<::gloo::transport::Pair>& WireContext::createPair(int position) {
    auto& place = pairs_[static_cast<std::size_t>(position)];
    // Until Gloo's part of an end has become ours it takes anybody: then it is made anew, at another port.
    for (auto listening = false; !listening;) {
        auto wire = std::make_unique<Wire>(this, device_.get(), position, getTimeout());
        listening = wire->is_listening();
        place = std::move(wire);
    }
    return place;
}

}  // namespace rankmesh::detail
