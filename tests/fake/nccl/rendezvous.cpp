// SPDX-License-Identifier: Apache-2.0
// How ranks find each other: each listens under a name made of the id and its number, in the kernel's own
// space of names, so that no file is left behind. Each connects to those before it.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "fake/nccl/connection.hpp"

namespace fake_nccl {
namespace {

using Clock = std::chrono::steady_clock;

/// What each of two ranks says first.
struct Hello {
    int rank;
    int size;
    char device[256];
};

struct Socket {
    explicit Socket(int number) : number(number) {}
    ~Socket() {
        if (number >= 0) close(number);
    }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    int release() { return std::exchange(number, -1); }
    int number;
};

int new_socket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

struct Address {
    Address(const std::string& id, int rank) {
        const auto name = text("fake-nccl-", id, "-", rank);
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path + 1, name.data(), name.size());
        length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    }
    const sockaddr* operator*() const { return reinterpret_cast<const sockaddr*>(&address); }
    sockaddr_un address = {};
    socklen_t length;
};

/// Waits for something to read in steps, in which a rank may have enough of it.
void await(int socket, Clock::time_point until, const std::atomic<bool>& aborted, const std::string& whom) {
    auto polled = pollfd{socket, POLLIN, 0};
    while (poll(&polled, 1, 5) <= 0) {
        if (aborted) throw Failure{ncclInternalError, "the communicator was aborted while it was made"};
        if (Clock::now() > until) violation("ncclCommInitRank waits in vain: ", whom, " did not come");
    }
}

Hello hear(int socket, Clock::time_point until, const std::atomic<bool>& aborted, const std::string& whom) {
    auto hello = Hello{};
    await(socket, until, aborted, whom);
    if (recv(socket, &hello, sizeof hello, MSG_WAITALL) != sizeof hello)
        throw Failure{ncclRemoteError, text(whom, " has gone while the communicator was made")};
    return hello;
}

}  // namespace

void Connection::connect_all(const std::string& id, const std::string& device,
                             const std::atomic<bool>& aborted) {
    const auto until = out_of_patience();
    const auto listener = Socket(new_socket());
    const auto own = Address(id, rank_);
    if (bind(listener.number, *own, own.length) != 0)
        violation("rank ", rank_,
                  " is taken: each rank of a communicator is given once, each unique id to one");
    if (listen(listener.number, size_) != 0) throw Failure{ncclSystemError, "listen failed"};

    auto mine = Hello{rank_, size_, {}};
    std::strncpy(mine.device, device.c_str(), sizeof mine.device - 1);
    auto devices = std::vector<std::string>(sockets_.size());
    const auto connected = [&](Socket& with, const Hello& hello) {
        if (hello.size != size_)
            violation("rank ", rank_, " makes a communicator of ", size_, " ranks, rank ", hello.rank,
                      " with the same unique id one of ", hello.size);
        sockets_[static_cast<std::size_t>(hello.rank)] = with.release();
        devices[static_cast<std::size_t>(hello.rank)] = hello.device;
    };
    for (int peer = 0; peer < rank_; ++peer) {
        auto with = Socket(new_socket());
        const auto address = Address(id, peer);
        while (connect(with.number, *address, address.length) != 0) {
            if (aborted) throw Failure{ncclInternalError, "the communicator was aborted while it was made"};
            if (Clock::now() > until)
                violation("ncclCommInitRank waits in vain: rank ", peer, " of ", size_, " did not come");
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        (void)!::send(with.number, &mine, sizeof mine, MSG_NOSIGNAL);
        connected(with, hear(with.number, until, aborted, text("rank ", peer)));
    }
    for (int missing = size_ - 1 - rank_; missing > 0; --missing) {
        const auto whom = text("one of ", missing, " ranks after rank ", rank_, " of ", size_);
        await(listener.number, until, aborted, whom);
        auto with = Socket(accept4(listener.number, nullptr, nullptr, SOCK_CLOEXEC));
        const auto hello = hear(with.number, until, aborted, whom);
        (void)!::send(with.number, &mine, sizeof mine, MSG_NOSIGNAL);
        connected(with, hello);
    }
    devices[static_cast<std::size_t>(rank_)] = device;
    const auto* shared = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    if (shared && std::strcmp(shared, "0") != 0) return;
    auto ranks = std::map<std::string, int>{};
    for (int rank = 0; rank < size_; ++rank)
        if (const auto [first, is_new] = ranks.emplace(devices[static_cast<std::size_t>(rank)], rank);
            !is_new)
            throw Failure{ncclInvalidUsage, text("Duplicate GPU detected: ranks ", first->second, " and ",
                                                 rank, " are both on device ", first->first)};
}

}  // namespace fake_nccl
