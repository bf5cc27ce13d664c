// SPDX-License-Identifier: Apache-2.0
#include "engine/store/tcp_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include <rankmesh/core/error.hpp>

#include "engine/accept_connection.hpp"
#include "engine/host.hpp"
#include "engine/hosts/host_addresses.hpp"
#include "engine/shortage.hpp"
#include "engine/store/sha256.hpp"
#include "engine/store/tcp_greeting.hpp"
#include "engine/thread_without_signals.hpp"

namespace rankmesh::detail {
namespace {

namespace wire = tcp_protocol;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto listener_id = std::uint64_t{0};
constexpr auto event_id = std::uint64_t{1};
/// The descriptors that a process needs for what is not a rank of the job.
constexpr auto other_descriptors = rlim_t{64};
/// A rank that does not read so many texts is not read from meanwhile.
constexpr auto most_texts = std::size_t{1024};
/// More than the threads of a rank that wait at a time.
constexpr auto most_waits = std::size_t{1024};
/// What an entry takes beside its name and its text.
constexpr auto bytes_an_entry = std::size_t{128};
/// How long no connection is accepted where the system has no room for one.
constexpr auto recess = milliseconds(50);

/// The servers of this process, for which its end waits.
class Servers {
public:
    /// Never destroyed: a child that a rank forks has copies of servers whose threads it does not have.
    static Servers& of_process() {
        static auto* const servers = [] {
            std::atexit([] { of_process().finish(); });
            return new Servers;
        }();
        return *servers;
    }
    /// The one that serves that, null if none does; it is retained.
    std::shared_ptr<TcpServer> retained(const TcpServer::Options& options) {
        const auto lock = std::lock_guard(process_mutex());
        const auto found =
            std::ranges::find_if(all_, [&](const auto& each) { return each->retain(options); });
        return found == all_.end() ? nullptr : *found;
    }
    void add(std::shared_ptr<TcpServer> server) {
        const auto lock = std::lock_guard(process_mutex());
        std::erase_if(all_, [](const auto& each) { return each->is_of_this_process() && each->has_ended(); });
        all_.push_back(std::move(server));
    }

private:
    void finish() {
        auto all = std::list<std::shared_ptr<TcpServer>>{};
        {
            const auto lock = std::lock_guard(process_mutex());
            all = all_;
        }
        for (const auto& each : all) each->finish();
    }

    std::list<std::shared_ptr<TcpServer>> all_;
};

void check_descriptors_to_serve(const TcpServer::Options& options) {
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

struct TcpServer::Wait {
    Connection* connection = nullptr;
    std::uint32_t id = 0;
    std::vector<std::string> names;
    std::set<std::string_view> absent;  // of all but the last, which is enough alone
    Instant until;
};

struct TcpServer::Connection {
    Connection(int descriptor, std::uint64_t number) : socket(descriptor), id(number) {}
    ~Connection() { close(std::exchange(socket, -1)); }

    int socket;
    const std::uint64_t id;
    const ClosedOnFork closed_in_children{socket};
    bool known = false;
    bool spare = false;  // of a process that enters, or has entered, a running job
    bool closes = false;
    bool stalled = false;  // with requests that are not taken before it has read its answers
    Instant since = Clock::now();
    std::uint32_t events = 0;
    std::string server_nonce = wire::nonce();
    std::string in;
    struct Unsent {
        Text text;
        bool shared = false;  // with an entry
    };
    std::deque<Unsent> out;
    std::size_t sent = 0;  // of the first text
    std::map<Wait*, std::unique_ptr<Wait>> waits;
};

std::shared_ptr<TcpServer> TcpServer::start(const Options& options, const Limits& limits) {
    if (!options.second)
        if (auto running = Servers::of_process().retained(options)) return running;
    check_descriptors_to_serve(options);
    auto server = std::shared_ptr<TcpServer>(new TcpServer(options, limits));
    if (!server->listen()) return nullptr;
    server->warn();
    server->thread_ = thread_without_signals([&self = *server] { self.run(); });
    Servers::of_process().add(server);
    return server;
}

TcpServer::TcpServer(Options options, const Limits& limits)
    : options_(std::move(options)),
      limits_(limits),
      words_(cat("process ", getpid(), " on ", host_name().substr(0, 255), ", a job of ", options_.size,
                 " ranks")),
      process_(getpid()) {}

TcpServer::~TcpServer() {
    finish();
    close_all();
}

void TcpServer::close_all() noexcept {
    listener_closed_in_children_.reset();
    const auto lock = std::lock_guard(waking_);
    for (auto* each : {&listener_, &epoll_, &event_})
        if (*each >= 0) close(std::exchange(*each, -1));
}

/// False where another rank of the job serves the second store already.
bool TcpServer::listen() {
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
        if (listener_ >= 0) break;
        if (served && options_.second) return false;
        if (Clock::now() >= until) {
            if (served)
                throw UsageError(
                    cat(taken,
                        ": an earlier start of it still runs, or another job has its id; end that "
                        "one, or give every start a job id of its own, such as "
                        "RANKMESH_JOB=$(uuidgen)"));
            throw UsageError(cat("rank ", options_.rank, " cannot serve the ",
                                 options_.second ? "second store '" : "store '", options_.url.text(),
                                 "': ", taken, "; name a free port of its host, such as ",
                                 options_.second ? "" : "RANKMESH_STORE=",
                                 options_.url.text(std::min(options_.url.last_port + 10, 65535))));
        }
        std::this_thread::sleep_for(milliseconds(50));
    }
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    auto listening = epoll_event{.events = EPOLLIN, .data = {.u64 = listener_id}};
    auto waking = epoll_event{.events = EPOLLIN, .data = {.u64 = event_id}};
    if (epoll_ < 0 || event_ < 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, listener_, &listening) != 0 ||
        epoll_ctl(epoll_, EPOLL_CTL_ADD, event_, &waking) != 0)
        throw EngineFailure(cat("rank ", options_.rank, " cannot serve the store '", options_.url.text(port_),
                                "': ", std::strerror(errno)));
    last_request_ = finish_began_ = Clock::now();
    return true;
}

/// Finds where to listen for the host: at none of its addresses, and so at all of this machine, where it has
/// none here, as that of a Kubernetes service or behind NAT, or where only this machine knows it by loopback,
/// as Debian its own name.
void TcpServer::find_addresses() {
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

/// Says on stderr that others can reach a store without a secret.
void TcpServer::warn() const {
    if (options_.has_secret || is_local_) return;
    std::fprintf(
        stderr,
        "rankmesh: rank %d serves a store at port %d of %s, without a secret; set RANKMESH_SECRET to "
        "the same random text on all ranks\n",
        options_.rank, port_, own_.empty() ? "all interfaces of its host" : cat("'", address_, "'").c_str());
}

/// True if it listens there now; false if the port is taken. At the host's first address that it can be, else
/// at all of this machine.
bool TcpServer::listen_at(int port) {
    auto four = sockaddr_in{};
    four.sin_family = AF_INET;
    four.sin_port = htons(static_cast<std::uint16_t>(port));
    auto six = sockaddr_in6{};
    six.sin6_family = AF_INET6;
    six.sin6_port = four.sin_port;
    auto four_any = four;
    const auto six_any = six;
    auto error = 0;
    const auto tried = [&](int family, const auto& address) {
        const auto made = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (made < 0) {
            error = errno;
            return false;
        }
        const auto on = 1, off = 0;
        setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (family == AF_INET6) setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        if (bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
            ::listen(made, 4096) != 0) {
            error = errno;
            close(made);
            return false;
        }
        listener_ = made;
        listener_closed_in_children_.emplace(listener_);
        port_ = port;
        return true;
    };
    for (const auto& each : own_) {
        address_ = each;
        if (inet_pton(AF_INET, each.c_str(), &four.sin_addr) == 1) {
            if (tried(AF_INET, four)) return true;
        } else if (inet_pton(AF_INET6, each.c_str(), &six.sin6_addr) == 1) {
            if (tried(AF_INET6, six)) return true;
        }
        if (error == EADDRINUSE) return false;
    }
    own_.clear();
    is_local_ = false;
    address_ = "127.0.0.1";
    if (tried(AF_INET6, six_any)) return true;
    if (error == EADDRINUSE) return false;
    four_any.sin_addr.s_addr = htonl(INADDR_ANY);
    if (tried(AF_INET, four_any)) return true;
    if (error == EADDRINUSE) return false;
    throw UsageError(cat("rank ", options_.rank, " cannot serve the store '", options_.url.text(port), "': ",
                         std::strerror(error), "; name a port of its host that this user may listen at"));
}

void TcpServer::wake() noexcept {
    const auto one = std::uint64_t{1};
    const auto lock = std::lock_guard(waking_);
    if (event_ >= 0) static_cast<void>(!write(event_, &one, sizeof one));
}

bool TcpServer::retain(const Options& options) noexcept {
    if (!is_of_this_process() || options != options_) return false;
    const auto lock = std::lock_guard(waking_);
    if (over_ || finishing_) return false;
    ++users_;
    return true;
}

void TcpServer::release() noexcept {
    {
        const auto lock = std::lock_guard(waking_);
        --users_;
    }
    wake();
}

void TcpServer::finish() noexcept {
    if (!is_of_this_process() || !thread_.joinable()) return;
    finishing_ = true;
    wake();
    thread_.join();
}

bool TcpServer::is_of_this_process() const { return getpid() == process_; }

/// From then on it cannot be retained.
bool TcpServer::is_over(Instant now) {
    const auto lock = std::lock_guard(waking_);
    const auto ranks = connections_.size() - strangers_.size();
    if (ranks == 0)
        over_ = users_ == 0 || finishing_;
    else if (finishing_)
        over_ = now - std::max(last_request_, finish_began_) >= std::chrono::seconds(1) ||
                now - finish_began_ >= std::chrono::seconds(30);
    return over_;
}

int TcpServer::milliseconds_to_wait(Instant now) const {
    auto longest = Instant::duration(std::chrono::hours(1));
    if (!waits_by_time_.empty()) longest = std::min(longest, waits_by_time_.begin()->first - now);
    if (!strangers_.empty() || !watched_) longest = std::min<Instant::duration>(longest, milliseconds(50));
    if (finishing_) longest = std::min<Instant::duration>(longest, milliseconds(20));
    return static_cast<int>(std::max<long long>(std::chrono::ceil<milliseconds>(longest).count(), 0));
}

void TcpServer::run() {
    auto events = std::array<epoll_event, 256>{};
    auto was_finishing = false;
    for (;;) {
        auto now = Clock::now();
        if (finishing_ && !std::exchange(was_finishing, true)) finish_began_ = now;
        if (is_over(now)) break;
        // Where ranks do not read their answers, no new ones are made.
        const auto crowded = unsent_ > limits_.bytes / 4;
        if (crowded) std::this_thread::sleep_for(milliseconds(1));
        const auto count = epoll_wait(epoll_, events.data(), events.size(), milliseconds_to_wait(now));
        now = Clock::now();
        for (int i = 0; i < count; ++i) {
            const auto& event = events[static_cast<std::size_t>(i)];
            const auto id = event.data.u64;  // whose place is aligned for no reference
            if (id == event_id) {
                auto number = std::uint64_t{};
                static_cast<void>(!read(event_, &number, sizeof number));
            } else if (id == listener_id) {
                accept_strangers(now);
            } else if (const auto found = connections_.find(id); found != connections_.end()) {
                auto& connection = *found->second;
                if (connection.closes) continue;
                if ((event.events & EPOLLOUT) != 0) {
                    flush(connection);
                    if (connection.stalled) take_requests(connection);
                }
                const auto gone = (event.events & (EPOLLHUP | EPOLLERR)) != 0;
                if (gone || ((event.events & EPOLLIN) != 0 && !crowded)) read_from(connection, now);
                watch(connection);
            }
        }
        expire(now);
        close_marked();
        if (!watched_ && now >= listen_again_) watch_listener(true);
    }
    connections_.clear();
    waits_by_name_.clear();
    waits_by_time_.clear();
    entries_.clear();
    close_all();
    ended_ = true;
}

void TcpServer::pause_listening(Instant now) {
    listen_again_ = now + recess;
    watch_listener(false);
}

void TcpServer::watch_listener(bool watched) {
    watched_ = watched;
    auto event = epoll_event{.events = watched ? std::uint32_t{EPOLLIN} : 0U, .data = {.u64 = listener_id}};
    epoll_ctl(epoll_, EPOLL_CTL_MOD, listener_, &event);
}

void TcpServer::accept_strangers(Instant now) {
    for (int i = 0; i < 64; ++i) {
        const auto made = accept_connection(listener_);
        if (made < 0) {
            if (!is_shortage(errno)) return;
            if (strangers_.empty()) return pause_listening(now);
            close_oldest_stranger();
            continue;
        }
        wire::prepare(made);
        const auto id = next_connection_++;
        auto connection = std::make_unique<Connection>(made, id);
        connection->events = EPOLLIN;
        auto event = epoll_event{.events = EPOLLIN, .data = {.u64 = id}};
        if (epoll_ctl(epoll_, EPOLL_CTL_ADD, made, &event) != 0) continue;
        auto& kept = *(connections_[id] = std::move(connection));
        strangers_.insert(id);
        greet(kept);
        // All ranks may come at once.
        if (strangers_.size() > limits_.strangers + static_cast<std::size_t>(options_.size))
            close_oldest_stranger();
    }
}

void TcpServer::close_oldest_stranger() {
    close_later(*connections_.at(*strangers_.begin()));
    close_marked();
}

void TcpServer::greet(Connection& connection) {
    queue(connection, wire::Greeting{.server_nonce = connection.server_nonce,
                                     .tag = wire::tag_of(options_.job, connection.server_nonce)}
                          .bytes());
    flush(connection);
    watch(connection);
}

void TcpServer::read_from(Connection& connection, Instant now) {
    static thread_local auto buffer = std::array<char, 1 << 16>{};
    // Others get their turn after a megabyte.
    for (int i = 0; i < 16 && !connection.closes; ++i) {
        const auto room = connection.known
                              ? buffer.size()
                              : wire::hello_size - std::min(wire::hello_size, connection.in.size());
        const auto count = recv(connection.socket, buffer.data(), room, 0);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) return;
        if (count <= 0) return close_later(connection);
        const auto bytes = static_cast<std::size_t>(count);
        connection.in.append(buffer.data(), bytes);
        bytes_ += bytes;
        if (!connection.known && (connection.in.size() < wire::hello_size || !take_hello(connection)))
            continue;
        if (!connection.spare) last_request_ = now;
        take_requests(connection);
        if (bytes_ > limits_.bytes && !connection.in.empty()) close_later(connection);
        if (connection.stalled || connection.out.size() > most_texts) return;
    }
}

/// True if the rank is one of the job; the others are refused in words.
bool TcpServer::take_hello(Connection& connection) {
    const auto hello = wire::Hello::from(connection.in);
    const auto proof = [&](std::string_view who) {
        return wire::proof_of(options_.key, who, options_.job, connection.server_nonce, hello);
    };
    bytes_ -= connection.in.size();
    connection.in.clear();
    if (!equal_in_constant_time(hello.proof, proof("rank"))) {
        refuse(connection, "has another RANKMESH_SECRET than this rank");
        return false;
    }
    // A process that enters later knows no size, and says 0.
    if (hello.size != 0 && std::cmp_not_equal(hello.size, options_.size)) {
        refuse(connection, cat("serves a job of ", options_.size, " ranks, and this is rank ", hello.rank,
                               " of ", hello.size));
        return false;
    }
    connection.known = true;
    connection.spare = hello.size == 0;
    strangers_.erase(connection.id);
    auto text = std::string{};
    wire::add(text, static_cast<std::uint32_t>(1 + wire::proof_size + words_.size()));
    text += static_cast<char>(wire::Status::done);
    text += proof("store") + words_;
    queue(connection, std::move(text));
    flush(connection);
    return true;
}

void TcpServer::refuse(Connection& connection, std::string_view words) {
    auto text = std::string{};
    wire::add(text, static_cast<std::uint32_t>(1 + words.size()));
    text += static_cast<char>(wire::Status::refused);
    text += words;
    queue(connection, std::move(text));
    flush(connection);
    close_later(connection);
}

void TcpServer::take_requests(Connection& connection) {
    auto taken = std::size_t{0};
    try {
        while (!connection.closes) {
            const auto message = wire::message_in(std::string_view(connection.in).substr(taken));
            connection.stalled = message && connection.out.size() > most_texts;
            if (!message || connection.stalled) break;
            take(connection, wire::Request::from(*message));
            taken += 4 + message->size();
        }
    } catch (const wire::Malformed&) {
        close_later(connection);
    }
    connection.in.erase(0, taken);
    bytes_ -= taken;
    if (connection.in.empty() && connection.in.capacity() > (1U << 16)) connection.in.shrink_to_fit();
}

void TcpServer::take(Connection& connection, wire::Request request) {
    // One that waits to enter only looks, again and again; one that has entered writes as well.
    if (request.operation != wire::Operation::get) last_request_ = Clock::now();
    switch (request.operation) {
        case wire::Operation::set:
            return set(connection, request);
        case wire::Operation::get:
            return get(connection, std::move(request));
        case wire::Operation::remove:
            for (const auto& name : request.names) remove(name);
    }
}

void TcpServer::set(Connection& connection, const wire::Request& request) {
    const auto& name = request.names.front();
    if (entries_.contains(name))
        return reply(connection, request.id, wire::Status::done, std::string_view("\0", 1));
    const auto taken = bytes_an_entry + name.size() + request.text.size();
    if (bytes_ + taken > limits_.bytes)
        return reply(connection, request.id, wire::Status::refused,
                     cat("is full: its ", entries_.size(), " entries and unread requests take ", bytes_,
                         " bytes of ", limits_.bytes));
    bytes_ += taken;
    entries_.emplace(name, std::make_shared<const std::string>(request.text));
    reply(connection, request.id, wire::Status::done, std::string_view("\1", 1));
    woken_by(name);
}

void TcpServer::remove(const std::string& name) {
    const auto found = entries_.find(name);
    if (found == entries_.end()) return;
    bytes_ -= bytes_an_entry + name.size() + found->second->size();
    entries_.erase(found);
}

void TcpServer::get(Connection& connection, wire::Request request) {
    auto wait = std::make_unique<Wait>();
    const auto& names = wait->names = std::move(request.names);
    if (request.milliseconds > 0 && !names.empty() && !entries_.contains(names.back()))
        for (std::size_t i = 0; i + 1 < names.size(); ++i)
            if (!entries_.contains(names[i])) wait->absent.insert(names[i]);
    if (wait->absent.empty()) return answer(connection, request.id, names);
    if (connection.waits.size() >= most_waits) return close_later(connection);
    wait->connection = &connection;
    wait->id = request.id;
    wait->until = Clock::now() + milliseconds(request.milliseconds);
    auto* const key = wait.get();
    for (const auto& each : wait->absent) waits_by_name_[std::string(each)].insert(key);
    waits_by_name_[names.back()].insert(key);
    waits_by_time_.emplace(wait->until, key);
    connection.waits.emplace(key, std::move(wait));
}

/// Answers the waits that an entry of this name completes.
void TcpServer::woken_by(const std::string& name) {
    const auto found = waits_by_name_.find(name);
    if (found == waits_by_name_.end()) return;
    const auto waits = std::vector<Wait*>(found->second.begin(), found->second.end());
    for (auto* wait : waits) {
        wait->absent.erase(name);
        if (!wait->absent.empty() && wait->names.back() != name) continue;
        answer(*wait->connection, wait->id, wait->names);
        forget(*wait);
    }
}

void TcpServer::forget(Wait& wait) {
    for (const auto& each : wait.names) {
        const auto found = waits_by_name_.find(each);
        if (found == waits_by_name_.end()) continue;
        found->second.erase(&wait);
        if (found->second.empty()) waits_by_name_.erase(found);
    }
    waits_by_time_.erase({wait.until, &wait});
    wait.connection->waits.erase(&wait);
}

void TcpServer::expire(Instant now) {
    while (!waits_by_time_.empty() && waits_by_time_.begin()->first <= now) {
        auto& wait = *waits_by_time_.begin()->second;
        answer(*wait.connection, wait.id, wait.names);
        forget(wait);
    }
    for (auto id : strangers_) {
        auto& each = *connections_.at(id);
        if (now - each.since < limits_.patience) break;
        close_later(each);
    }
}

void TcpServer::answer(Connection& connection, std::uint32_t id, const std::vector<std::string>& names) {
    if (connection.closes) return;
    // Long texts are not copied: all connections share them.
    constexpr auto long_text = std::size_t{1024};
    auto texts = std::vector<Connection::Unsent>{};
    auto length = std::size_t{5};
    auto small = std::string{};
    const auto cut = [&] {
        if (!small.empty()) texts.push_back({std::make_shared<const std::string>(std::exchange(small, {}))});
    };
    wire::add(small, id);
    small += static_cast<char>(wire::Status::done);
    for (const auto& name : names) {
        const auto found = entries_.find(name);
        small += found == entries_.end() ? '\0' : '\1';
        ++length;
        if (found == entries_.end()) continue;
        const auto& text = found->second;
        wire::add(small, static_cast<std::uint32_t>(text->size()));
        length += 4 + text->size();
        if (text->size() < long_text) {
            small += *text;
        } else {
            cut();
            texts.push_back({text, true});
        }
    }
    cut();
    if (length > wire::longest_message)
        return reply(connection, id, wire::Status::refused,
                     cat("was asked for ", length, " bytes at once, and gives ", wire::longest_message));
    auto head = std::string{};
    wire::add(head, static_cast<std::uint32_t>(length));
    queue(connection, std::move(head));
    for (auto& each : texts) {
        if (!each.shared) unsent_ += each.text->size();
        connection.out.push_back(std::move(each));
    }
    flush(connection);
    watch(connection);
}

void TcpServer::reply(Connection& connection, std::uint32_t id, wire::Status status, std::string_view body) {
    auto text = std::string{};
    wire::add(text, static_cast<std::uint32_t>(5 + body.size()));
    wire::add(text, id);
    text += static_cast<char>(status);
    text += body;
    queue(connection, std::move(text));
    flush(connection);
    watch(connection);
}

void TcpServer::queue(Connection& connection, std::string text) {
    unsent_ += text.size();
    connection.out.push_back({std::make_shared<const std::string>(std::move(text))});
}

/// Sends what the kernel takes.
void TcpServer::flush(Connection& connection) {
    while (!connection.out.empty() && !connection.closes) {
        auto parts = std::array<iovec, 32>{};
        auto count = std::size_t{0};
        for (const auto& [text, shared] : connection.out) {
            const auto skipped = count == 0 ? connection.sent : 0;
            parts[count++] = {const_cast<char*>(text->data()) + skipped, text->size() - skipped};
            if (count == parts.size()) break;
        }
        auto message = msghdr{};
        message.msg_iov = parts.data();
        message.msg_iovlen = count;
        const auto sent = sendmsg(connection.socket, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) return;
        if (sent < 0) return close_later(connection);
        connection.sent += static_cast<std::size_t>(sent);
        while (!connection.out.empty() && connection.sent >= connection.out.front().text->size()) {
            const auto& [text, shared] = connection.out.front();
            connection.sent -= text->size();
            if (!shared) unsent_ -= text->size();
            connection.out.pop_front();
        }
        if (finishing_ && connection.known && !connection.spare) last_request_ = Clock::now();
    }
}

/// Asks for what the connection can go on with.
void TcpServer::watch(Connection& connection) {
    if (connection.closes) return;
    const auto reads = !connection.stalled && connection.out.size() <= most_texts;
    const auto writes = connection.stalled || !connection.out.empty();
    const auto wanted = (reads ? std::uint32_t{EPOLLIN} : 0U) | (writes ? std::uint32_t{EPOLLOUT} : 0U);
    if (std::exchange(connection.events, wanted) == wanted) return;
    auto event = epoll_event{.events = wanted, .data = {.u64 = connection.id}};
    epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.socket, &event);
}

/// Marks a connection, which is closed once nobody uses it.
void TcpServer::close_later(Connection& connection) {
    if (std::exchange(connection.closes, true)) return;
    closing_.push_back(connection.id);
}

void TcpServer::close_marked() {
    for (auto id : std::exchange(closing_, {})) {
        auto& connection = *connections_.at(id);
        while (!connection.waits.empty()) forget(*connection.waits.begin()->first);
        bytes_ -= connection.in.size();
        for (const auto& [text, shared] : connection.out)
            if (!shared) unsent_ -= text->size();
        strangers_.erase(id);
        connections_.erase(id);
    }
}

}  // namespace rankmesh::detail
