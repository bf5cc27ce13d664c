// SPDX-License-Identifier: Apache-2.0
#include "engine/store/tcp_listener.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>
#include <tuple>

#include <rankmesh/core/error.hpp>

#include "engine/hosts/sockets.hpp"
#include "engine/store/secret.hpp"

namespace rankmesh::detail {
namespace {

namespace wire = tcp_protocol;

/// Thrown if nobody greets.
struct Silent {
    std::string why;
};

/// Reads the greeting of a connection; throws Malformed for anything else.
wire::Greeting heard(int socket, TcpGreeting::Instant until) {
    auto text = std::string{};
    for (;;) {
        const auto wanted = wire::Greeting::size_of(text);
        if (text.size() == wanted) return wire::Greeting::from(text);
        if (!ready(socket, POLLIN, until)) throw Silent{"is taken by something that says nothing"};
        char buffer[1024];
        const auto count = recv(socket, buffer, std::min(sizeof buffer, wanted - text.size()), 0);
        if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (count < 0) throw Silent{cat("closes the connection (", std::strerror(errno), ")")};
        if (count == 0) throw Silent{"closes the connection"};
        text.append(buffer, static_cast<std::size_t>(count));
    }
}

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The descriptors that a process needs for what is not a rank of the job.
constexpr auto other_descriptors = rlim_t{64};

void check_descriptors_to_serve(const TcpStoreOptions& options) {
    const auto size = options.size;
    auto limit = rlimit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    const auto needed = static_cast<rlim_t>(size) + other_descriptors;
    if (limit.rlim_cur >= needed) return;
    throw UsageError(cat("rank ", options.rank, " serves the store of ", size,
                         " ranks, each of which is a connection, and its process may "
                         "open ",
                         limit.rlim_cur, " descriptors; let it open ", needed, " by ulimit -n ", needed,
                         ", or set RANKMESH_STORE to a folder or a Redis server"));
}

}  // namespace

TcpGreeting TcpGreeting::at(const std::string& address, int port, Instant until) {
    auto greeting = TcpGreeting{};
    std::tie(greeting.socket, greeting.failure) = connect_to(address, port, until);
    if (greeting.socket < 0) {
        greeting.failure = cat("cannot be reached (", greeting.failure, ")");
        return greeting;
    }
    try {
        greeting.message = heard(greeting.socket, until);
        wire::prepare(greeting.socket);
        return greeting;
    } catch (const Silent& silent) {
        greeting.failure = silent.why;
    } catch (const wire::Malformed&) {
        greeting.failure = "is taken by something that is no store of rankmesh, or of another version";
    }
    close(std::exchange(greeting.socket, -1));
    return greeting;
}

TcpGreeting TcpGreeting::of(const std::string& address, int port, const std::string& host, Instant until) {
    auto greeting = at(SocketAddress::of(host) ? host : address, port, until);
    if (greeting.socket >= 0) close(std::exchange(greeting.socket, -1));
    return greeting;
}

bool TcpGreeting::serves(const std::string& job) const {
    return is_store() && equal_in_constant_time(message.tag, wire::tag_of(job, message.server_nonce));
}

std::string TcpGreeting::text() const {
    return is_store() ? "is taken by the store of another job" : failure;
}

void TcpListener::open() {
    check_descriptors_to_serve(options_);
    find_addresses();
    // A server that was there a moment ago may be about to end.
    const auto until = Clock::now() + std::chrono::seconds(1);
    auto taken = std::string{};
    for (auto served = false;;) {
        taken.clear();
        served = false;
        for (auto port = options_.url.first_port; port <= options_.url.last_port && !served; ++port) {
            if (listen_at(port)) break;
            const auto there = TcpGreeting::of(own_.empty() ? "127.0.0.1" : own_.front(), port,
                                               options_.url.host, Clock::now() + milliseconds(300));
            served = there.is_store() && there.serves(options_.job);
            taken += cat(taken.empty() ? "" : "; ", "port ", port, " ", there.text());
            if (served) taken = cat("the job '", options_.job, "' is served at port ", port, " already");
        }
        if (socket_ >= 0) return;
        if (Clock::now() >= until) {
            if (served)
                throw UsageError(
                    cat(taken,
                        ": an earlier start of it still runs, or another job has its id; end that "
                        "one, or give every start a job id of its own, such as "
                        "RANKMESH_JOB=$(uuidgen)"));
            throw UsageError(cat("rank ", options_.rank, " cannot serve the store '", options_.url.text(),
                                 "': ", taken, "; name a free port of its host, such as RANKMESH_STORE=",
                                 options_.url.text(std::min(options_.url.last_port + 10, 65535))));
        }
        std::this_thread::sleep_for(milliseconds(50));
    }
}

/// Finds the addresses of the URL's host that are this machine's. If there are none, the store listens at all
/// interfaces: the host is a Kubernetes service, or behind NAT. A loopback address that only this machine
/// gives the host does not count: Debian gives one to its own name.
void TcpListener::find_addresses() {
    const auto is_loopback = [](const std::string& address) {
        return address.starts_with("127.") || address == "::1";
    };
    auto found = std::vector<std::string>{};
    try {
        found = host_addresses(options_.url.host, Clock::now() + std::chrono::seconds(5));
    } catch (const std::exception&) {  // the others may find it
        return;
    }
    std::erase_if(found, [](const auto& each) { return !is_own_address(each); });
    std::ranges::stable_partition(found, [](const auto& each) { return each.find(':') == each.npos; });
    const auto means_loopback = is_loopback(options_.url.host) || options_.url.host == "localhost" ||
                                options_.url.host.ends_with(".localhost");
    if (!means_loopback) std::erase_if(found, is_loopback);
    is_local_ = means_loopback && !found.empty();
    own_ = std::move(found);
}

void TcpListener::warn() const {
    if (options_.has_secret || is_local_) return;
    std::fprintf(
        stderr,
        "rankmesh: rank %d serves a store at port %d of %s, without a secret; set RANKMESH_SECRET to "
        "the same random text on all ranks\n",
        options_.rank, port_, own_.empty() ? "all interfaces of its host" : cat("'", address_, "'").c_str());
}

/// True if it listens there now; false if the port is taken. At the host's first address that it can be, else
/// at all of this machine.
bool TcpListener::listen_at(int port) {
    auto error = 0;
    const auto listens = [&](const std::string& address) {
        const auto at = SocketAddress::of(address, port);
        const auto made = at ? ::socket(at->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
        const auto on = 1, off = 0;
        setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (at && at->family() == AF_INET6) setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        if (made < 0 || bind(made, at->get(), at->size) != 0 || ::listen(made, 4096) != 0) {
            error = errno;
            if (made >= 0) ::close(made);
            return false;
        }
        socket_ = made;
        closed_in_children_.emplace(socket_);
        port_ = port;
        return true;
    };
    for (const auto& each : own_) {
        address_ = each;
        if (listens(each)) return true;
        if (error == EADDRINUSE) return false;
    }
    own_.clear();
    is_local_ = false;
    address_ = "127.0.0.1";
    for (const auto* all : {"::", "0.0.0.0"}) {
        if (listens(all)) return true;
        if (error == EADDRINUSE) return false;
    }
    throw UsageError(cat("rank ", options_.rank, " cannot serve the store '", options_.url.text(port), "': ",
                         std::strerror(error), "; name a port of its host that this user may listen at"));
}

void TcpListener::close() noexcept {
    closed_in_children_.reset();
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

}  // namespace rankmesh::detail
