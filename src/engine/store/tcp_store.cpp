// SPDX-License-Identifier: Apache-2.0
#include "engine/store/tcp_store.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include <rankmesh/core/error.hpp>

#include "engine/fork.hpp"
#include "engine/hosts/host_addresses.hpp"
#include "engine/random_bytes.hpp"
#include "engine/store/secret.hpp"
#include "engine/store/sha256.hpp"
#include "engine/store/tcp_greeting.hpp"
#include "engine/store/tcp_server.hpp"

namespace rankmesh::detail {
namespace {

namespace wire = tcp_protocol;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::string elapsed(Clock::time_point begin) {
    return cat(std::chrono::round<milliseconds>(Clock::now() - begin).count(), " ms");
}

/// What only the ranks of the job know.
std::string key_of(const std::string& job) {
    const auto given = secret("RANKMESH_SECRET");
    return given ? cat("secret ", given->value) : cat("job ", job);
}

/// The reasons why each port does not serve, those of neighbours that are equal together.
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

/// What the second store of a job is told apart by from the first.
std::string second_job(const std::string& job) { return cat(job, ", the second store"); }

/// One rank's connection to a store.
class TcpStore final : public Store {
public:
    struct Options {
        TcpUrl url;
        std::string job;
        int rank = 0;
        int size = 0;
        bool is_second = false;
        std::shared_ptr<TcpServer> server = {};  // where this process serves it
    };
    explicit TcpStore(const Options& options)
        : options_(options),
          told_apart_by_(options.is_second ? second_job(options.job) : options.job),
          key_(key_of(options.job)),
          rank_(options.rank),
          server_(options.server) {}
    ~TcpStore() override {
        if (socket_ >= 0) close(std::exchange(socket_, -1));
        if (server_ && !options_.is_second) server_->release();
    }
    TcpStore(const TcpStore&) = delete;
    TcpStore& operator=(const TcpStore&) = delete;

    bool put(const std::string& name, const std::string& entry, Instant until) override {
        const auto answer = ask({.operation = wire::Operation::put, .names = {name}, .text = entry}, until);
        if (answer != std::string(1, '\0') && answer != std::string(1, '\1')) throw_foreign();
        return answer.front() != '\0';
    }

    std::vector<std::optional<std::string>> get(const std::vector<std::string>& names,
                                                Instant until) override {
        return get_within(names, milliseconds(0), until);
    }

    std::vector<std::optional<std::string>> await(const std::vector<std::string>& names, Instant longest,
                                                  Instant until) override {
        // A minute at most: the server's clock is another one.
        const auto left = std::chrono::ceil<milliseconds>(longest - Clock::now());
        return get_within(names, std::clamp(left, milliseconds(0), milliseconds(60'000)), until);
    }
    bool waits() const override { return true; }

    void remove(const std::vector<std::string>& names, Instant until) noexcept override {
        try {
            connect(until);
            send_request({.operation = wire::Operation::remove, .names = names}, until);
        } catch (const std::exception&) {  // they go with the server
        }
    }

    std::chrono::microseconds longest_pause() const override { return milliseconds(50); }
    std::string text() const override {
        const auto port = port_.load();
        return cat("the store '", port == 0 ? url_.text() : url_.text(port), "'");
    }
    const std::string& job() const override { return options_.job; }
    Successor* successor() override { return successor_.get(); }
    void set_successor(std::unique_ptr<Successor> successor) { successor_ = std::move(successor); }

    /// Why it is not certain that the process has ended which serves this store, "" if it is.
    std::string doubt() {
        const auto why = broken();
        if (why.empty()) return cat(text(), " still answers this process");
        if (!closed_ && !wire::ready(socket_, POLLRDHUP, Clock::now()))
            return cat("the connection to ", text(), " has only become silent (", why, ")");
        const auto there = TcpGreeting::at(address_, port_, Clock::now() + milliseconds(1000));
        if (there.socket >= 0) close(there.socket);
        return there.serves(told_apart_by_) ? cat(text(), " is still served, though not to this process")
                                            : "";
    }
    /// How what serves it names itself; throws EngineFailure where this process does not reach it.
    std::string reached(Instant until) {
        auto reasons = std::map<int, std::string>{};
        for (const auto& address : addresses(until, reasons))
            for (auto port = url_.first_port; port <= url_.last_port; ++port) {
                const auto there = TcpGreeting::at(address, port, until);
                if (there.serves(told_apart_by_)) {
                    const auto lock = std::lock_guard(connecting_);
                    if (socket_ >= 0) close(std::exchange(socket_, -1));
                    address_ = address;
                    try {
                        if (enter(there, port, until, reasons[port])) return served_by_;
                    } catch (const UsageError& error) {
                        reasons[port] = error.what();
                    }
                    continue;
                }
                if (there.socket >= 0) close(there.socket);
                reasons[port] = there.text();
            }
        throw EngineFailure(cat(listed_by_port(reasons), " of '", url_.host, "'"));
    }

private:
    struct Answer {
        wire::Status status = wire::Status::done;
        std::string body;
    };

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

    [[noreturn]] void throw_foreign() const {
        throw EngineFailure(cat("what answers at ", text(), " is no store of this version of rankmesh"));
    }

    /// The answer to a request of this store, which connects first.
    std::string ask(wire::Request request, Instant until) {
        connect(until);
        {
            const auto lock = std::lock_guard(mutex_);
            request.id = next_id_++;
            asked_.insert(request.id);
        }
        send_request(request, until);
        const auto [status, body] = receive(request.id, until);
        if (status == wire::Status::done) return body;
        throw EngineFailure(cat(text(), " ", body));
    }

    void send_request(const wire::Request& request, Instant until) {
        const auto bytes = request.bytes();
        if (bytes.size() > wire::longest_message)
            throw EngineFailure(cat("a request of ", bytes.size(), " bytes; ", text(), " takes up to ",
                                    wire::longest_message));
        const auto lock = std::lock_guard(sending_);
        // The server would take it for the rest of a request that was cut off.
        if (const auto why = broken(); !why.empty()) throw_gone(why);
        send_all(bytes, until);
    }

    void send_all(std::string_view bytes, Instant until) {
        const auto begin = Clock::now();
        while (!bytes.empty()) {
            const auto count = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (count >= 0) {
                bytes.remove_prefix(static_cast<std::size_t>(count));
            } else if (errno == EAGAIN) {
                if (wire::ready(socket_, POLLOUT, until)) continue;
                // What was sent cannot be taken back.
                fail(cat("it took no request for ", elapsed(begin)));
                throw_silent("has taken no request", begin);
            } else if (errno != EINTR) {
                closed_ = closed_ || errno == ECONNRESET || errno == EPIPE;
                fail(std::strerror(errno));
                throw_gone(broken());
            }
        }
    }

    /// Waits for the answer to a request. One of the threads that wait reads what comes, for all of them.
    Answer receive(std::uint32_t id, Instant until) {
        const auto begin = Clock::now();
        auto lock = std::unique_lock(mutex_);
        for (;;) {
            if (const auto found = answers_.find(id); found != answers_.end()) {
                auto answer = std::move(found->second);
                answers_.erase(found);
                return answer;
            }
            if (!broken_.empty()) throw_gone(broken_);
            if (Clock::now() >= until) {
                asked_.erase(id);
                throw_silent("has not answered", begin);
            }
            if (reading_) {
                changed_.wait_until(lock, until);
                continue;
            }
            reading_ = true;
            lock.unlock();
            const auto why = read_some(until);
            lock.lock();
            reading_ = false;
            if (broken_.empty()) broken_ = why;
            take_answers();
            changed_.notify_all();
        }
    }

    /// Reads what there is, or waits for something; why nothing comes any more, or "".
    std::string read_some(Instant until) {
        if (!wire::ready(socket_, POLLIN, until)) return {};
        auto buffer = std::array<char, 1 << 16>{};
        const auto count = recv(socket_, buffer.data(), buffer.size(), 0);
        if (count == 0 || (count < 0 && errno == ECONNRESET)) closed_ = true;
        if (count == 0) return "it closed the connection";
        if (count < 0) return errno == EAGAIN || errno == EINTR ? std::string{} : std::strerror(errno);
        in_.append(buffer.data(), static_cast<std::size_t>(count));
        return {};
    }

    void take_answers() {
        auto taken = std::size_t{0};
        try {
            while (const auto message = wire::message_in(std::string_view(in_).substr(taken))) {
                auto reader = wire::Unpacker(*message);
                const auto id = reader.number();
                const auto status = static_cast<wire::Status>(reader.part(1).front());
                if (asked_.erase(id) > 0) answers_[id] = {status, std::string(reader.rest())};
                taken += 4 + message->size();
            }
        } catch (const wire::Malformed&) {
            broken_ = "what answers is no store of this version of rankmesh";
        }
        in_.erase(0, taken);
    }

    void fail(const std::string& why) {
        const auto lock = std::lock_guard(mutex_);
        if (broken_.empty()) broken_ = why;
        changed_.notify_all();
    }

    std::string broken() {
        const auto lock = std::lock_guard(mutex_);
        return broken_;
    }

    [[noreturn]] void throw_gone(const std::string& why) const {
        throw ServerLost(
            cat(text(), whose(), "is gone (", why, "): ", server(), ", has ended or cannot be reached"),
            successor_ ? cat("; survivors() of the whole world goes on by ", successor_->text())
                       : ", and the ranks cannot find each other any more");
    }
    [[noreturn]] void throw_silent(const std::string& what, Clock::time_point begin) const {
        throw ServerSilent(cat("the timeout expired: ", text(), whose(), what, " for ", elapsed(begin), ": ",
                               server(), ", is stopped or cannot be reached"),
                           {}, {});
    }
    const char* whose() const {
        return options_.is_second ? ", the second one, " : ", which rank 0 serves, ";
    }
    /// `rank 0, process 4711 on a-host`; of the second store ranks know by themselves whose it is.
    std::string server() const {
        return cat(options_.is_second ? "" : "rank 0, ", served_by_.substr(0, served_by_.find(',')));
    }

    void connect(Instant until) {
        const auto lock = std::lock_guard(connecting_);
        if (socket_ >= 0) return;
        const auto begin = Clock::now();
        auto reasons = std::map<int, std::string>{};
        auto longest = milliseconds(url_.first_port == url_.last_port ? 5000 : 500);
        auto pause = milliseconds(4);
        auto none_other = begin;  // when no other job was seen last
        for (;; pause = std::min(pause * 3 / 2, milliseconds(250)),
                longest = std::min(longest * 2, milliseconds(8000))) {
            auto other = false;
            for (const auto& address : addresses(until, reasons))
                for (auto port = server_ ? server_->port() : url_.first_port;
                     port <= (server_ ? server_->port() : url_.last_port); ++port) {
                    const auto greeting =
                        TcpGreeting::at(address, port, std::min(until, Clock::now() + longest));
                    if (greeting.serves(told_apart_by_)) {
                        address_ = address;
                        if (enter(greeting, port, until, reasons[port])) return;
                        continue;
                    }
                    if (greeting.socket >= 0) close(greeting.socket);
                    other = other || greeting.is_store();
                    // An attempt that the timeout has cut short says less than the one before.
                    if (Clock::now() < until || !reasons.contains(port)) reasons[port] = greeting.text();
                }
            const auto now = Clock::now();
            if (!other || url_.first_port != url_.last_port)
                none_other = now;
            else if (now - none_other > std::chrono::seconds(3))
                throw UsageError(
                    cat("rank ", rank_, " of the job '", job(),
                        "' does not find its store: ", listed_by_port(reasons), " of '", url_.host,
                        "'; give every job a port of its own, and all its ranks the same job id"));
            if (now >= until)
                throw Timeout(
                    cat("the timeout expired: rank ", rank_, " has not found the store '", url_.text(),
                        "' of the job '", job(), "' for ", elapsed(begin), ": ", listed_by_port(reasons),
                        options_.is_second ? ""
                                           : "; rank 0 serves it: see that rank 0 has started, and that '",
                        options_.is_second ? "" : cat(url_.host, "' is its host")),
                    {}, options_.is_second ? std::vector<int>{} : std::vector{0});
            // Ranks that start together do not ask at the same instants.
            const auto jitter =
                milliseconds(static_cast<unsigned char>(wire::nonce().front()) % (pause.count() / 2 + 1));
            std::this_thread::sleep_until(std::min(until, now + pause - jitter));
        }
    }

    std::vector<std::string> addresses(Instant until, std::map<int, std::string>& reasons) const {
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

    /// Shows that this rank knows the key, and sees that the store does; false if the connection ends before.
    bool enter(const TcpGreeting& greeting, int port, Instant until, std::string& reason) {
        auto hello = wire::Hello{.rank = static_cast<std::uint32_t>(rank_),
                                 .size = static_cast<std::uint32_t>(options_.size),
                                 .nonce = wire::nonce(),
                                 .proof = {}};
        const auto proof = [&](std::string_view who) {
            return wire::proof_of(key_, who, told_apart_by_, greeting.said.server_nonce, hello);
        };
        hello.proof = proof("rank");
        const auto said = hello.bytes();
        auto answer = std::string{};
        const auto closed = [&](const std::string& why) {
            close(greeting.socket);
            reason = why;
            return false;
        };
        if (send(greeting.socket, said.data(), said.size(), MSG_NOSIGNAL) !=
            static_cast<ssize_t>(said.size()))
            return closed("closes the connection");
        for (auto wanted = std::size_t{5}; answer.size() < wanted;) {
            if (!wire::ready(greeting.socket, POLLIN, until)) return closed("does not answer");
            char buffer[256];
            const auto count =
                recv(greeting.socket, buffer, std::min(sizeof buffer, wanted - answer.size()), 0);
            if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
            if (count <= 0) return closed("closes the connection");
            answer.append(buffer, static_cast<std::size_t>(count));
            if (answer.size() >= 5)
                wanted = 4 + std::clamp<std::size_t>(wire::Unpacker(answer).number(), 1, wire::longest_words);
        }
        const auto said_back = answer.substr(5);
        if (answer[4] != static_cast<char>(wire::Status::done)) {
            close(greeting.socket);
            throw UsageError(cat("the store '", url_.text(port), "' of the job '", job(), "' ",
                                 escaped(said_back),
                                 "; give all ranks of a job the same, and every job a port of its own"));
        }
        if (!equal_in_constant_time(said_back.substr(0, wire::proof_size), proof("store"))) {
            close(greeting.socket);
            throw UsageError(
                cat("what answers at the store '", url_.text(port), "' does not know the secret of the job '",
                    job(), "'; see who listens there, and that all ranks have the same RANKMESH_SECRET"));
        }
        served_by_ = escaped(said_back.substr(wire::proof_size));
        port_ = port;
        socket_ = greeting.socket;
        return true;
    }

    const Options options_;
    const TcpUrl& url_ = options_.url;
    const std::string told_apart_by_;
    const std::string key_;
    const int rank_;
    const std::shared_ptr<TcpServer> server_;  // where this process serves it
    std::unique_ptr<Successor> successor_;

    std::mutex connecting_;
    int socket_ = -1;
    const ClosedOnFork closed_in_children_{socket_};
    std::atomic<int> port_ = 0;
    std::string address_;
    std::string served_by_;
    std::atomic<bool> closed_ = false;  // by the other end, which only the end of a process does

    std::mutex sending_;
    std::mutex mutex_;  // of what follows; `in_` belongs to the thread that reads
    std::condition_variable changed_;
    bool reading_ = false;
    std::string in_;
    std::string broken_;
    std::set<std::uint32_t> asked_;
    std::map<std::uint32_t, Answer> answers_;
    std::uint32_t next_id_ = 1;
};

/// The store of the second host: of the ranks that run there the first that gets the port serves it.
class TcpSecond final : public Successor {
public:
    TcpSecond(TcpStore& first, const TcpUrl& url, const std::string& job, int rank, int size)
        : first_(first), url_(url), job_(job), rank_(rank), size_(size) {}
    ~TcpSecond() override {
        if (server_) server_->release();
    }
    TcpSecond(const TcpSecond&) = delete;
    TcpSecond& operator=(const TcpSecond&) = delete;

    /// Serves it from now on if this is a process of its host and no other does.
    void serve(Store::Instant until) {
        auto found = std::vector<std::string>{};
        try {
            found = host_addresses(url_.host, until);
        } catch (const std::exception&) {  // no rank serves it, if all fail
        }
        if (std::ranges::none_of(found, is_own_address)) return;
        try {
            server_ = TcpServer::start({.url = url_,
                                        .job = second_job(job_),
                                        .key = key_of(job_),
                                        .has_secret = secret("RANKMESH_SECRET").has_value(),
                                        .size = size_,
                                        .rank = rank_,
                                        .second = true});
        } catch (const UsageError& error) {
            why_not_served_ = error.what();
        }
    }

    std::shared_ptr<Store> store() override {
        if (!store_) store_ = made();
        return store_;
    }
    bool is_served_here() const override { return server_ != nullptr; }
    std::string words() const override { return server_->words(); }
    std::string reached(Store::Instant until) override { return made()->reached(until); }
    std::string why_not_served() const override { return why_not_served_; }
    std::string doubt() override { return first_.doubt(); }
    int place() const override { return place_; }
    void set_place(int place) override { place_ = place; }
    const std::string& identity() const override { return identity_; }
    std::string text() const override { return cat("the second store '", url_.text(), "'"); }

private:
    std::shared_ptr<TcpStore> made() const {
        return std::make_shared<TcpStore>(TcpStore::Options{
            .url = url_, .job = job_, .rank = rank_, .size = size_, .is_second = true, .server = server_});
    }

    TcpStore& first_;
    const TcpUrl url_;
    const std::string job_;
    const int rank_;
    const int size_;
    const std::string identity_ = new_secret();
    std::shared_ptr<TcpServer> server_;  // where this process serves it
    std::shared_ptr<TcpStore> store_;
    std::string why_not_served_;
    int place_ = -1;
};

}  // namespace

std::unique_ptr<Store> tcp_store(const TcpUrl& url, const std::string& job, int rank, int size) {
    return tcp_store(TcpUrls{url}, job, rank, size, Clock::now());
}

std::unique_ptr<Store> tcp_store(const TcpUrls& urls, const std::string& job, int rank, int size,
                                 std::chrono::steady_clock::time_point until) {
    const auto member = size > 0;
    auto server = std::shared_ptr<TcpServer>{};
    if (member && rank == 0)
        server = TcpServer::start({.url = urls.first,
                                   .job = job,
                                   .key = key_of(job),
                                   .has_secret = secret("RANKMESH_SECRET").has_value(),
                                   .size = size});
    auto store = std::make_unique<TcpStore>(TcpStore::Options{
        .url = urls.first, .job = job, .rank = rank, .size = size, .server = std::move(server)});
    if (!urls.second) return store;
    auto second = std::make_unique<TcpSecond>(*store, *urls.second, job, rank, size);
    if (member && rank != 0) second->serve(until);
    store->set_successor(std::move(second));
    return store;
}

std::shared_ptr<Store> tcp_store_to_enter(const TcpUrls& urls, const std::string& job, int rank,
                                          std::chrono::steady_clock::time_point until) {
    if (!urls.second) return tcp_store(urls.first, job, rank, 0);
    const auto begin = Clock::now();
    auto longest = milliseconds(500);
    auto why = std::string{};
    for (auto pause = milliseconds(4);; pause = std::min(pause * 3 / 2, milliseconds(250)),
              longest = std::min(longest * 2, milliseconds(8000))) {
        const auto soon = [&] { return std::min(until, Clock::now() + longest); };
        auto first = std::shared_ptr<Store>(tcp_store(urls, job, rank, 0, until));
        auto& second = *first->successor();
        auto seen = std::string{};
        // What is lost once it has answered is told as ServerLost.
        try {
            static_cast<void>(static_cast<TcpStore&>(*first).reached(soon()));
            static_cast<void>(first->get({opened}, soon()));
            return first;
        } catch (const EngineFailure& error) {
            seen = error.what();
        } catch (const Timeout& error) {
            seen = error.what();
        }
        try {
            static_cast<void>(second.reached(soon()));
            auto store = second.store();
            if (store->get({opened}, soon()).front()) return store;
            append(seen, cat("; ", second.text(), " is served, and no rank has gone over to it"));
        } catch (const EngineFailure& error) {
            append(seen, cat("; ", second.text(), ": ", error.what()));
        } catch (const Timeout& error) {
            append(seen, cat("; ", second.text(), ": ", error.what()));
        }
        const auto now = Clock::now();
        // An attempt that the timeout has cut short says less than the one before.
        if (now < until || why.empty()) why = std::move(seen);
        if (now >= until)
            throw Timeout(cat("the timeout expired: this process has found no store of the job '", job,
                              "' to enter it by for ", elapsed(begin), ": ", why),
                          {}, {});
        std::this_thread::sleep_until(std::min(until, now + pause));
    }
}

}  // namespace rankmesh::detail
