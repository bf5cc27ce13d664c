// SPDX-License-Identifier: Apache-2.0
#include "engine/mpi/peer_query.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace rankmesh::detail {
namespace {

enum class Kind : std::uint32_t { question = 0x726d7131, answer = 0x726d6131 };

/// A datagram; an answer is followed by its text.
struct Message {
    Kind kind;
    std::int32_t rank;
    std::uint64_t key;
    std::uint64_t number;
    std::uint64_t arrived;
};

constexpr std::size_t longest_text = 400;

struct Address {
    sockaddr_un name{};
    socklen_t length = 0;
};

/// An abstract socket address: a name that begins with a zero byte, and vanishes with the socket.
Address address_of(std::uint64_t world, int rank) {
    auto address = Address{};
    address.name.sun_family = AF_UNIX;
    const auto written = std::snprintf(address.name.sun_path + 1, sizeof address.name.sun_path - 1,
                                       "rankmesh-%016llx-%d", static_cast<unsigned long long>(world), rank);
    address.length =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(written));
    return address;
}

const sockaddr* generic(const Address& address) { return reinterpret_cast<const sockaddr*>(&address.name); }

}  // namespace

PeerQuery::PeerQuery(std::uint64_t world, int rank)
    : world_(world), rank_(rank), socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    const auto own = address_of(world, rank);
    if (socket_ < 0 || bind(socket_, generic(own), own.length) == 0) return;
    close(socket_);
    socket_ = -1;
}

PeerQuery::~PeerQuery() {
    if (socket_ >= 0) close(socket_);
}

/// Reads the datagrams that have arrived: answers questions, and stores answers in `answers` if it is not
/// null; true if there was a question.
bool PeerQuery::take(const RankStatusOf& self, std::map<int, RankStatus>* answers) {
    if (socket_ < 0) return false;
    auto asked = false;
    auto buffer = std::array<char, sizeof(Message) + longest_text>{};
    for (;;) {
        auto from = Address{};
        from.length = sizeof from.name;
        const auto size = recvfrom(socket_, buffer.data(), buffer.size(), 0,
                                   reinterpret_cast<sockaddr*>(&from.name), &from.length);
        if (size < 0) return asked;
        auto message = Message{};
        if (static_cast<std::size_t>(size) < sizeof message) continue;
        std::memcpy(&message, buffer.data(), sizeof message);
        if (message.kind == Kind::answer && answers)
            (*answers)[message.rank] = {
                message.arrived != 0,
                std::string(buffer.data() + sizeof message, static_cast<std::size_t>(size) - sizeof message)};
        if (message.kind != Kind::question) continue;
        asked = true;
        const auto status = self(message.key, message.number);
        message.kind = Kind::answer;
        message.rank = rank_;
        message.arrived = status.arrived ? 1 : 0;
        const auto length = std::min(status.text.size(), longest_text);
        std::memcpy(buffer.data(), &message, sizeof message);
        std::memcpy(buffer.data() + sizeof message, status.text.data(), length);
        sendto(socket_, buffer.data(), sizeof message + length, 0, generic(from), from.length);
    }
}

std::map<int, RankStatus> PeerQuery::ask(std::span<const int> ranks, std::uint64_t key, std::uint64_t number,
                                         const RankStatusOf& self, Duration patience) {
    auto answers = std::map<int, RankStatus>{};
    if (socket_ < 0) return answers;
    auto asked = std::size_t{0};
    const auto question = Message{Kind::question, rank_, key, number, 0};
    for (auto rank : ranks) {
        if (rank == rank_) continue;
        const auto to = address_of(world_, rank);
        // A rank on another host, or one that has ended, has no such address here.
        if (sendto(socket_, &question, sizeof question, 0, generic(to), to.length) > 0) ++asked;
    }
    const auto until = std::chrono::steady_clock::now() + patience;
    while (answers.size() < asked && std::chrono::steady_clock::now() < until) {
        auto readable = pollfd{socket_, POLLIN, 0};
        poll(&readable, 1, 10);
        take(self, &answers);
    }
    return answers;
}

}  // namespace rankmesh::detail
