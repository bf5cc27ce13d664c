// SPDX-License-Identifier: Apache-2.0
#include "engine/mpi/peer_query.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <iterator>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/ranks.hpp>

namespace rankmesh::detail {
namespace {

/// The most ranks of a call that an answer tells.
constexpr std::size_t most_awaited = 4096;

constexpr std::uint64_t has_arrived = 1;
constexpr std::uint64_t has_ended = 2;
constexpr std::uint64_t knows_how = 4;
constexpr std::uint64_t has_started = 8;

std::uint64_t flags_of(const RankStatus& status) {
    return (status.arrived ? has_arrived : 0) | (status.ended ? has_ended : 0) |
           (status.started ? knows_how : 0) | (status.started.value_or(false) ? has_started : 0);
}

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

/// `in all_reduce of ..., for 1.0 s`; behind zero bytes the ranks that it waits for, and the call.
std::string text_of(const RankStatus& status) {
    auto ranks = status.waits ? ranks_to_string(status.waits->ranks) : std::string{};
    if (ranks.size() + status.call.size() >= PeerMessage::longest_text / 2) ranks.clear();
    const auto more = cat('\0', ranks, '\0', status.call);
    return status.text.substr(0,
                              PeerMessage::longest_text - std::min(PeerMessage::longest_text, more.size())) +
           more;
}

void read_text(const PeerMessage& message, RankStatus& status) {
    auto rest = std::string_view(message.text);
    const auto next = [&] {
        const auto part = rest.substr(0, rest.find('\0'));
        rest.remove_prefix(std::min(part.size() + 1, rest.size()));
        return part;
    };
    status.text = next();
    const auto ranks = next();
    status.call = next();
    status.waits = std::nullopt;
    if (ranks.empty()) return;
    try {
        status.waits = AwaitedCall{.key = message.head.in_key,
                                   .number = message.head.in_number,
                                   .ranks = parse_ranks(ranks, most_awaited)};
    } catch (const UsageError&) {  // then it is not known whom it waits for
    }
}

const sockaddr* generic(const Address& address) { return reinterpret_cast<const sockaddr*>(&address.name); }

}  // namespace

PeerQuery::PeerQuery(std::uint64_t world, int rank, std::vector<int> local)
    : world_(world),
      rank_(rank),
      local_(std::move(local)),
      socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    const auto own = address_of(world, rank);
    const auto yes = 1;
    if (socket_ >= 0 && setsockopt(socket_, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) == 0 &&
        bind(socket_, generic(own), own.length) == 0)
        return;
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
}

/// False if no process has that rank's address: it is on another host, or has ended.
bool PeerQuery::send(const std::string& message, int to) const {
    const auto address = address_of(world_, to);
    return sendto(socket_, message.data(), message.size(), 0, generic(address), address.length) >= 0 ||
           (errno != ECONNREFUSED && errno != ENOENT);
}

bool PeerQuery::announce_end() const {
    const auto end = PeerMessage{{PeerMessage::Kind::end, rank_}}.bytes();
    auto settled = true;
    for (auto rank : local_)
        if (rank != rank_ && std::ranges::find(ended_, rank, &Ended::rank) == ended_.end())
            settled = !send(end, rank) && settled;
        else if (rank != rank_)  // it may still wait for this one to hear of it
            send(end, rank);
    return settled;
}

/// Reads the datagrams that have arrived: answers questions, and stores answers in `answers` if it is not
/// null; true if there was a question for a report.
bool PeerQuery::take(const RankStatusOf& self, std::map<int, RankStatus>* answers) {
    if (socket_ < 0) return false;
    auto asked = false;
    auto buffer = std::array<char, PeerMessage::longest>{};
    for (;;) {
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))] = {};
        auto part = iovec{buffer.data(), buffer.size()};
        auto header = msghdr{};
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        header.msg_control = control;
        header.msg_controllen = sizeof control;
        const auto size = recvmsg(socket_, &header, 0);
        if (size < 0) return asked;
        auto sender = ucred{};
        const auto* credentials = CMSG_FIRSTHDR(&header);
        if (!credentials || credentials->cmsg_type != SCM_CREDENTIALS) continue;
        std::memcpy(&sender, CMSG_DATA(credentials), sizeof sender);
        if (sender.uid != geteuid()) continue;
        const auto message = PeerMessage::from({buffer.data(), static_cast<std::size_t>(size)});
        if (!message) continue;
        const auto& head = message->head;
        if (head.kind == PeerMessage::Kind::answer && answers) {
            auto& status = (*answers)[head.rank];
            status.arrived = (head.flags & has_arrived) != 0;
            status.ended = (head.flags & has_ended) != 0;
            if ((head.flags & knows_how) != 0) status.started = (head.flags & has_started) != 0;
            read_text(*message, status);
        }
        if (head.kind == PeerMessage::Kind::end &&
            std::ranges::find(ended_, head.rank, &Ended::rank) == ended_.end())
            ended_.push_back({head.rank, std::chrono::steady_clock::now()});
        if (head.kind != PeerMessage::Kind::question) continue;
        asked = asked || head.flags != 0;
        const auto status = self(*this, head.key, head.number, message->text);
        const auto waits = status.waits.value_or(AwaitedCall{});
        send(PeerMessage{{PeerMessage::Kind::answer, rank_, head.key, head.number, flags_of(status),
                          waits.key, waits.number},
                         text_of(status)}
                 .bytes(),
             head.rank);
    }
}

PeerQuery::Answers PeerQuery::ask(std::span<const int> ranks, std::uint64_t key, std::uint64_t number,
                                  const RankStatusOf& self, Duration patience, bool for_report,
                                  const std::string& record_key) {
    auto answers = Answers{};
    if (socket_ < 0) return answers;
    auto& waiting = answers.mute;
    std::ranges::copy_if(ranks, std::back_inserter(waiting), [&](int rank) { return rank != rank_; });
    const auto question =
        PeerMessage{{PeerMessage::Kind::question, rank_, key, number, for_report ? 1U : 0U}, record_key}
            .bytes();
    const auto begin = std::chrono::steady_clock::now();
    for (auto again = begin;;) {
        const auto now = std::chrono::steady_clock::now();
        if (now >= again) {  // a queue that was full has lost the question, or its answer
            std::erase_if(waiting, [&](int rank) { return !send(question, rank); });
            again = now + std::chrono::milliseconds(100);
        }
        auto readable = pollfd{socket_, POLLIN, 0};
        if (!waiting.empty()) poll(&readable, 1, 10);
        take(self, &answers.told);
        std::erase_if(waiting, [&](int rank) { return answers.told.contains(rank); });
        if (waiting.empty() || now >= begin + patience) return answers;
    }
}

}  // namespace rankmesh::detail
