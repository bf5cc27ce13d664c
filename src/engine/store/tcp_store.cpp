// SPDX-License-Identifier: Apache-2.0
#include "engine/store/stores.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include <rankmesh/core/error.hpp>

#include "engine/hosts/sockets.hpp"
#include "engine/store/secret.hpp"
#include "engine/store/tcp_connection.hpp"
#include "engine/store/tcp_listener.hpp"
#include "engine/store/tcp_server.hpp"

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

/// The search for the process that serves a store: at each address of the URL's host, and each port.
class TcpSearch {
public:
    using Instant = std::chrono::steady_clock::time_point;
    /// A connection to the server, which both sides have proved to be of the job.
    struct Found {
        int socket = -1;
        int port = 0;
        std::string server;  // how it names itself
    };

    /// `server`: of this process, null if another one serves the store. Both outlive the search.
    TcpSearch(const TcpStoreOptions& options, const TcpServer* server) : options_(options), server_(server) {}

    /// Searches until the server is found. Throws Timeout at `until`, and UsageError if the server refuses
    /// this rank, or another job is served there.
    Found find(Instant until) const {
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
                    const auto greeting =
                        TcpGreeting::at(address, port, std::min(until, Clock::now() + longest));
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
                throw UsageError(
                    cat("rank ", options_.rank, " of the job '", options_.job,
                        "' does not find its store: ", listed_by_port(reasons), " of '", url_.host,
                        "'; give every job a port of its own, and all its ranks the same job id"));
            if (now >= until) throw_late(begin, reasons);
            // Ranks that start together do not ask at the same instants.
            const auto jitter =
                milliseconds(static_cast<unsigned char>(wire::nonce().front()) % (pause.count() / 2 + 1));
            std::this_thread::sleep_until(std::min(until, now + pause - jitter));
        }
    }

private:
    using Reasons = std::map<int, std::string>;  // why nothing was found, by port

    std::vector<std::string> addresses(Instant until, Reasons& reasons) const {
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
    Found proved(const TcpGreeting& greeting, int port, Instant until) const {
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
    void throw_if_refused(const std::string& answer, const std::string& proof, int port) const {
        if (answer.front() != static_cast<char>(wire::Status::done))
            throw UsageError(cat("the store '", url_.text(port), "' of the job '", options_.job, "' ",
                                 escaped(answer.substr(1)),
                                 "; give all ranks of a job the same, and every job a port of its own"));
        if (!equal_in_constant_time(answer.substr(1, wire::proof_size), proof))
            throw UsageError(cat(
                "what answers at the store '", url_.text(port), "' does not know the secret of the job '",
                options_.job, "'; see who listens there, and that all ranks have the same RANKMESH_SECRET"));
    }
    [[noreturn]] void throw_late(Instant begin, const Reasons& reasons) const {
        throw Timeout(
            cat("the timeout expired: rank ", options_.rank, " has not found the store '", url_.text(),
                "' of the job '", options_.job, "' for ", elapsed_since(begin), ": ", listed_by_port(reasons),
                "; rank 0 serves it: see that rank 0 has started, and that '", url_.host, "' is its host"),
            {}, {0});
    }

    const TcpStoreOptions& options_;
    const TcpUrl& url_ = options_.url;
    const TcpServer* const server_;
};

class TcpStore final : public Store {
public:
    /// `server`: of this process, null if it does not serve the store.
    TcpStore(const TcpStoreOptions& options, std::shared_ptr<TcpServer> server)
        : options_(options), server_(std::move(server)), search_(options_, server_.get()) {}
    ~TcpStore() override {
        if (server_) server_->release();
    }
    TcpStore& operator=(TcpStore&&) = delete;

    bool set(const std::string& name, const std::string& entry, Instant until) override {
        const auto answer = ask({.operation = wire::Operation::set, .names = {name}, .text = entry}, until);
        if (answer != std::string(1, '\0') && answer != std::string(1, '\1')) throw_foreign();
        return answer.front() != '\0';
    }

    std::vector<std::optional<std::string>> get(const std::vector<std::string>& names,
                                                Instant until) override {
        return get_within(names, milliseconds(0), until);
    }

    std::vector<std::optional<std::string>> wait(const std::vector<std::string>& names, Instant longest,
                                                 Instant until) override {
        // A minute at most: the server's clock is another one.
        const auto left = std::chrono::ceil<milliseconds>(longest - Clock::now());
        return get_within(names, std::clamp(left, milliseconds(0), milliseconds(60'000)), until);
    }
    bool can_wait() const override { return true; }

    void remove(const std::vector<std::string>& names, Instant until) noexcept override {
        try {
            connection(until).tell({.operation = wire::Operation::remove, .names = names}, until);
        } catch (...) {  // they go with the server
        }
    }

    std::chrono::microseconds longest_pause() const override { return milliseconds(50); }
    std::string text() const override {
        const auto port = port_.load();
        return cat("the store '", port == 0 ? options_.url.text() : options_.url.text(port), "'");
    }
    const std::string& job() const override { return options_.job; }

private:
    /// The connection, which the first request makes. A broken one is not made again.
    TcpConnection& connection(Instant until) {
        const auto lock = std::lock_guard(connecting_);
        if (!connection_) {
            found_ = search_.find(until);
            connection_ = std::make_unique<TcpConnection>(found_.socket);
            port_ = found_.port;
        }
        return *connection_;
    }

    std::vector<std::optional<std::string>> get_within(const std::vector<std::string>& names,
                                                       milliseconds longest, Instant until) {
        if (names.empty()) return {};
        const auto answer = ask({.operation = wire::Operation::get,
                                 .milliseconds = static_cast<std::uint32_t>(longest.count()),
                                 .names = names},
                                until);
        try {
            return wire::entries_in(answer, names.size());
        } catch (const wire::Malformed&) {
            throw_foreign();
        }
    }

    std::string ask(const wire::Request& request, Instant until) {
        auto& connection = this->connection(until);
        try {
            auto [status, body] = connection.ask(request, until);
            if (status == wire::Status::done) return std::move(body);
            throw EngineFailure(cat(text(), " ", body));
        } catch (const TcpConnection::Broken& broken) {
            throw ServerLost(cat(text(), ", which rank 0 serves, is gone (", broken.why, "): ", server(),
                                 ", has ended or cannot be reached, and the ranks cannot find each other any "
                                 "more"));
        } catch (const TcpConnection::Silent& silent) {
            throw ServerSilent(
                cat("the timeout expired: ", text(), ", which rank 0 serves, ", silent.what, " for ",
                    elapsed_since(silent.begin), ": ", server(), ", is stopped or cannot be reached"),
                {}, {});
        }
    }

    [[noreturn]] void throw_foreign() const {
        throw EngineFailure(cat("what answers at ", text(), " is no store of this version of rankmesh"));
    }
    /// `rank 0, process 4711 on a-host`.
    std::string server() const { return cat("rank 0, ", found_.server.substr(0, found_.server.find(','))); }

    const TcpStoreOptions options_;
    const std::shared_ptr<TcpServer> server_;
    const TcpSearch search_;
    std::mutex connecting_;
    TcpSearch::Found found_;
    std::atomic<int> port_ = 0;
    std::unique_ptr<TcpConnection> connection_;
};

}  // namespace

std::unique_ptr<Store> tcp_store(const TcpUrl& url, const std::string& job, int rank, int size,
                                 bool job_is_secret) {
    const auto given = secret("RANKMESH_SECRET");
    const auto options = TcpStoreOptions{.url = url,
                                         .job = job,
                                         .key = given ? cat("secret ", given->value) : cat("job ", job),
                                         .has_secret = job_is_secret || given,
                                         .size = size,
                                         .rank = rank};
    return std::make_unique<TcpStore>(options, rank == 0 && size > 0 ? TcpServer::start(options) : nullptr);
}

}  // namespace rankmesh::detail
