// SPDX-License-Identifier: Apache-2.0
#include "engine/store/tcp_search.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <thread>
#include <utility>

#include <rankmesh/core/error.hpp>

#include "engine/hosts/host_addresses.hpp"
#include "engine/hosts/sockets.hpp"
#include "engine/store/sha256.hpp"

namespace rankmesh::detail {
namespace {

namespace wire = tcp_protocol;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// `port 1 is taken by ...; each port of 2-8 cannot be reached`: neighbours with equal reasons together.
std::string listed_by_port(const std::map<int, std::string>& reasons) {
    auto text = std::string{};
    for (auto each = reasons.begin(); each != reasons.end();) {
        auto last = each;
        auto next = std::next(each);
        for (; next != reasons.end() && next->second == each->second; ++next) last = next;
        text += cat(
            text.empty() ? "" : "; ",
            last == each ? cat("port ", each->first) : cat("each port of ", each->first, "-", last->first),
            " ", each->second);
        each = next;
    }
    return text;
}

/// Thrown if the connection ends, or falls silent, before the server has answered the hello.
struct Unanswered {
    std::string why;
};

/// The status and text with which a server answers a hello.
std::string answer_to(const std::string& hello, int socket, Clock::time_point until) {
    if (send(socket, hello.data(), hello.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(hello.size()))
        throw Unanswered{"closes the connection"};
    auto answer = std::string{};
    for (auto wanted = std::size_t{5}; answer.size() < wanted;) {
        if (!ready(socket, POLLIN, until)) throw Unanswered{"does not answer"};
        char buffer[256];
        const auto count = recv(socket, buffer, std::min(sizeof buffer, wanted - answer.size()), 0);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (count <= 0) throw Unanswered{"closes the connection"};
        answer.append(buffer, static_cast<std::size_t>(count));
        if (answer.size() >= 5)
            wanted = 4 + std::clamp<std::size_t>(wire::Unpacker(answer).number(), 1, wire::longest_words);
    }
    return answer.substr(4);
}

}  // namespace

TcpSearch::Found TcpSearch::find(Instant until) const {
    const auto begin = Clock::now();
    const auto first_port = server_ ? server_->port() : url_.first_port;
    const auto last_port = server_ ? first_port : url_.last_port;
    auto reasons = Reasons{};
    auto longest = milliseconds(url_.first_port == url_.last_port ? 5000 : 500);
    auto pause = milliseconds(4);
    auto none_other = begin;  // when no other job was seen last
    for (;; pause = std::min(pause * 3 / 2, milliseconds(250)),
            longest = std::min(longest * 2, milliseconds(8000))) {
        auto other = false;
        for (const auto& address : addresses(until, reasons))
            for (auto port = first_port; port <= last_port; ++port) {
                const auto greeting = TcpGreeting::at(address, port, std::min(until, Clock::now() + longest));
                if (greeting.serves(options_.job)) {
                    try {
                        return proved(greeting, port, until);
                    } catch (const Unanswered& error) {
                        reasons[port] = error.why;
                    }
                    continue;
                }
                if (greeting.socket >= 0) close(greeting.socket);
                other = other || greeting.is_store();
                // If the timeout cut this attempt short, the attempt before says more.
                if (Clock::now() < until || !reasons.contains(port)) reasons[port] = greeting.text();
            }
        const auto now = Clock::now();
        if (!other || url_.first_port != url_.last_port)
            none_other = now;
        else if (now - none_other > std::chrono::seconds(3))
            throw UsageError(cat("rank ", options_.rank, " of the job '", options_.job,
                                 "' does not find its store: ", listed_by_port(reasons), " of '", url_.host,
                                 "'; give every job a port of its own, and all its ranks the same job id"));
        if (now >= until) throw_late(begin, reasons);
        // Ranks that start together do not ask at the same instants.
        const auto jitter =
            milliseconds(static_cast<unsigned char>(wire::nonce().front()) % (pause.count() / 2 + 1));
        std::this_thread::sleep_until(std::min(until, now + pause - jitter));
    }
}

void TcpSearch::throw_late(Instant begin, const Reasons& reasons) const {
    throw Timeout(
        cat("the timeout expired: rank ", options_.rank, " has not found the store '", url_.text(),
            "' of the job '", options_.job, "' for ", elapsed_since(begin), ": ", listed_by_port(reasons),
            "; rank 0 serves it: see that rank 0 has started, and that '", url_.host, "' is its host"),
        {}, {0});
}

std::vector<std::string> TcpSearch::addresses(Instant until, Reasons& reasons) const {
    if (server_) return {server_->address()};
    try {
        return host_addresses(url_.host, until);
    } catch (const HostNotFound& error) {  // a host may get its name later
        reasons[url_.first_port] = cat("of '", url_.host, "' cannot be reached: ", error.what());
        return {};
    } catch (const Timeout&) {  // what an attempt before it has found says more
        reasons.try_emplace(url_.first_port,
                            cat("of '", url_.host, "' cannot be reached: its address is not found yet"));
        return {};
    }
}

/// Proves to the server that this rank knows the key, and checks that the server does.
TcpSearch::Found TcpSearch::proved(const TcpGreeting& greeting, int port, Instant until) const {
    auto hello = wire::Hello{.rank = static_cast<std::uint32_t>(options_.rank),
                             .size = static_cast<std::uint32_t>(options_.size),
                             .nonce = wire::nonce(),
                             .proof = {}};
    const auto proof = [&](std::string_view who) {
        return wire::proof_of(options_.key, who, options_.job, greeting.message.server_nonce, hello);
    };
    hello.proof = proof("rank");
    try {
        const auto answer = answer_to(hello.bytes(), greeting.socket, until);
        throw_if_refused(answer, proof("store"), port);
        return {greeting.socket, port, escaped(answer.substr(1 + wire::proof_size))};
    } catch (...) {
        close(greeting.socket);
        throw;
    }
}

void TcpSearch::throw_if_refused(const std::string& answer, const std::string& proof, int port) const {
    if (answer.front() != static_cast<char>(wire::Status::done))
        throw UsageError(cat("the store '", url_.text(port), "' of the job '", options_.job, "' ",
                             escaped(answer.substr(1)),
                             "; give all ranks of a job the same, and every job a port of its own"));
    if (!equal_in_constant_time(answer.substr(1, wire::proof_size), proof))
        throw UsageError(cat("what answers at the store '", url_.text(port),
                             "' does not know the secret of the job '", options_.job,
                             "'; see who listens there, and that all ranks have the same RANKMESH_SECRET"));
}

}  // namespace rankmesh::detail
