// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <utility>
#include <vector>

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>

#include "engine/fork.hpp"
#include "engine/gloo/transport/endpoint.hpp"

namespace rankmesh::detail {

// The slots of messages that rankmesh sends over Gloo's connections.

/// What a message belongs to: the top byte of its slot. None of Gloo's collectives uses these.
enum class SlotKind : std::uint8_t {
    monitor = 0x40,
    message,
    shift,
    scan,
    fan_in,
    all_gather,
    exclusive_scan,
    parts_of_root
};

/// The first slot of a collective that is call number `tag` of its channel. It has 256 slots.
constexpr std::uint64_t first_slot(SlotKind kind, std::uint32_t tag = 0) {
    return (std::uint64_t{static_cast<std::uint8_t>(kind)} << 56) + (std::uint64_t{tag} << 8);
}

/// The slots of messages between two ranks, by their first byte.
constexpr auto message_slot = first_slot(SlotKind::message);
constexpr auto kind_of_slot = std::uint64_t{0xff} << 56;

/// One end of a connection between two ranks, with authentication.
///
/// Gloo's own listens at a port of its own, takes the first process that connects there for its peer, and
/// some bytes from a foreign process end this process. This one is given a socket that a Connector has
/// connected, or at which a Listener has accepted the peer.
class Connection final : public ::gloo::transport::tcp::Pair {
public:
    /// Gives back at once the port that Gloo has taken: on Gloo's thread, which so has accepted nobody there.
    Connection(::gloo::transport::tcp::Context* context, ::gloo::transport::tcp::Device* device,
               int group_rank, std::chrono::milliseconds timeout)
        : ::gloo::transport::tcp::Pair(context, device, group_rank, timeout) {
        const auto lock = std::lock_guard(m_);
        device_->unregisterDescriptor(fd_, this);
        ::close(fd_);
        fd_ = -1;
    }
    ~Connection() override {
        const auto lock = std::lock_guard(m_);
        if (state_ != CLOSED) changeState(CLOSED);
    }

    /// Takes over an authenticated connection to the peer, which this end has connected or accepted.
    void adopt(int descriptor, bool has_connected);
    /// What comes from the peer: nothing yet, something that Gloo has not read, or nothing any more.
    enum class Incoming { nothing, unread, ended };
    Incoming incoming();

    /// Runs on Gloo's thread.
    void handleEvents(int events) override {
        // The holder of the lock may be waiting for this thread.
        const auto lock = std::unique_lock(m_, std::try_to_lock);
        if (!lock) return std::this_thread::yield();
        if (state_ == CONNECTED) handleReadWrite(events);
    }

    /// What a wait is for: data, or the peer's request to be sent data.
    enum class Event { data, request };
    /// Reads what the peer has sent, on the calling thread. Returns whether the last event of this kind had
    /// this slot.
    bool poll(Event event, std::uint64_t slot);

protected:
    bool read() override;

private:
    const ClosedOnFork closed_in_children_{fd_};
    std::array<std::atomic<std::uint64_t>, 2> last_slots_{};  // by Event
};

/// Gloo's factory of such connections.
class ConnectionContext final : public ::gloo::transport::tcp::Context {
public:
    ConnectionContext(const std::shared_ptr<::gloo::transport::Device>& device, int group_rank, int size);
    std::unique_ptr<::gloo::transport::Pair>& createPair(int group_rank) override;

    /// A message that a peer has announced, and that this rank has not begun to receive.
    struct Announced {
        int from;
        std::uint64_t slot;
        std::size_t bytes;
    };
    /// Those messages, in the order in which they were announced.
    std::vector<Announced> announced();
    /// Counts the announcements, and what else wakes those that wait for one.
    std::uint64_t announcements() {
        const auto lock = std::lock_guard(mutex_);
        return announcements_;
    }
    /// Waits for an announcement after the first `known`.
    void await_announcement(std::uint64_t known) {
        auto lock = std::unique_lock(mutex_);
        announcement_.wait(lock, [&] { return announcements_ != known; });
    }
    void wake() {
        const auto lock = std::lock_guard(mutex_);
        ++announcements_;
        announcement_.notify_all();
    }
    /// Called by the connections: a peer has announced what it sends.
    void announce(const Announced& message);

private:
    bool is_pending(const Announced& message);

    std::condition_variable announcement_;
    std::vector<Announced> announced_;  // under Gloo's lock, as all below; some may be received by now
    std::size_t most_announced_ = 64;   // when those are dropped
    std::uint64_t announcements_ = 0;
};

/// Connects to a peer that listens, and authenticates; tries again where that may help: the network can be
/// down for a moment, and foreign connections can displace an attempt.
class Connector final {
public:
    using Clock = std::chrono::steady_clock;

    explicit Connector(const Endpoint& endpoint) : endpoint_(endpoint) {}
    ~Connector() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }
    Connector& operator=(Connector&&) = delete;

    /// Advances as far as possible without waiting; true once the peer has answered. Throws EngineFailure
    /// where another attempt cannot help, Shortage where it is this process's own.
    bool advance();
    /// The event, and the time, after which to call `advance` again.
    pollfd awaited() const {
        return {.fd = descriptor_,
                .events = static_cast<short>(stage_ == Stage::connecting ? POLLOUT : POLLIN),
                .revents = 0};
    }
    Clock::time_point next() const { return next_; }
    /// Releases the socket to the caller.
    int take() { return std::exchange(descriptor_, -1); }
    /// The last error; "" without one.
    const std::string& trouble() const { return trouble_; }

private:
    enum class Stage { idle, connecting, listening };
    void begin();
    void fail(const char* what, int error);
    void speak();

    const Endpoint endpoint_;
    Stage stage_ = Stage::idle;
    int descriptor_ = -1;
    const ClosedOnFork closed_in_children_{descriptor_};
    WordReader answer_ = {};
    Clock::time_point next_ = {};
    std::chrono::milliseconds pause_{1};
    std::string trouble_;
};

}  // namespace rankmesh::detail
