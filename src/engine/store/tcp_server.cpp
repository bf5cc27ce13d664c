// SPDX-License-Identifier: Apache-2.0
#include "engine/store/tcp_server.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <list>

#include <rankmesh/core/error.hpp>

#include "engine/hosts/sockets.hpp"
#include "engine/store/secret.hpp"
#include "engine/system.hpp"

namespace rankmesh::detail {
namespace {

namespace wire = tcp_protocol;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto listener_id = std::uint64_t{0};
constexpr auto event_id = std::uint64_t{1};
/// A rank that does not read so many texts is not read from meanwhile.
constexpr auto most_texts = std::size_t{1024};
/// More than the threads of a rank that wait at a time.
constexpr auto most_waits = std::size_t{1024};
/// How long the server accepts no connection after the system has had no room for one.
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

}  // namespace

struct TcpServer::Connection {
    Connection(int descriptor, std::uint64_t number, std::size_t& unsent)
        : socket(descriptor), id(number), out(unsent) {}
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
    TcpOutbox out;
};

std::shared_ptr<TcpServer> TcpServer::start(const Options& options, const Limits& limits) {
    if (auto running = Servers::of_process().retained(options)) return running;
    auto server = std::shared_ptr<TcpServer>(new TcpServer(options, limits));
    server->listener_.open();
    server->listener_.warn();
    server->watch_events();
    server->thread_ = thread_without_signals([&self = *server] { self.run(); });
    Servers::of_process().add(server);
    return server;
}

TcpServer::TcpServer(Options options, const Limits& limits)
    : options_(std::move(options)),
      limits_(limits),
      words_(cat("process ", getpid(), " on ", host_name().substr(0, 255), ", a job of ", options_.size,
                 " ranks")),
      listener_(options_),
      process_(getpid()) {}

TcpServer::~TcpServer() {
    finish();
    close_all();
}

void TcpServer::close_all() noexcept {
    const auto lock = std::lock_guard(waking_);
    listener_.close();
    for (auto* each : {&epoll_, &event_})
        if (*each >= 0) close(std::exchange(*each, -1));
}

void TcpServer::watch_events() {
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    auto listening = epoll_event{.events = EPOLLIN, .data = {.u64 = listener_id}};
    auto waking = epoll_event{.events = EPOLLIN, .data = {.u64 = event_id}};
    if (epoll_ < 0 || event_ < 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, listener_.socket(), &listening) != 0 ||
        epoll_ctl(epoll_, EPOLL_CTL_ADD, event_, &waking) != 0)
        throw EngineFailure(cat("rank ", options_.rank, " cannot serve the store '",
                                options_.url.text(port()), "': ", std::strerror(errno)));
    last_request_ = finish_began_ = Clock::now();
}

void TcpServer::wake() noexcept {
    const auto lock = std::lock_guard(waking_);
    if (event_ >= 0) eventfd_write(event_, 1);
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
    auto longest = entries_.next_expiry(now + std::chrono::hours(1)) - now;
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
                auto number = eventfd_t{};
                eventfd_read(event_, &number);
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
    entries_ = {};
    close_all();
    ended_ = true;
}

void TcpServer::watch_listener(bool watched) {
    watched_ = watched;
    auto event = epoll_event{.events = watched ? std::uint32_t{EPOLLIN} : 0U, .data = {.u64 = listener_id}};
    epoll_ctl(epoll_, EPOLL_CTL_MOD, listener_.socket(), &event);
}

void TcpServer::accept_strangers(Instant now) {
    for (int i = 0; i < 16; ++i) {
        const auto made = accept_connection(listener_.socket());
        if (made < 0) {
            if (!is_shortage(errno)) return;
            if (!strangers_.empty()) {
                close_any_stranger(now);
                continue;
            }
            listen_again_ = now + recess;
            return watch_listener(false);
        }
        wire::prepare(made);
        const auto id = next_connection_++;
        auto connection = std::make_unique<Connection>(made, id, unsent_);
        connection->events = EPOLLIN;
        auto event = epoll_event{.events = EPOLLIN, .data = {.u64 = id}};
        if (epoll_ctl(epoll_, EPOLL_CTL_ADD, made, &event) != 0) continue;
        auto& kept = *(connections_[id] = std::move(connection));
        strangers_.insert(id);
        kept.out.push(wire::Greeting{.server_nonce = kept.server_nonce,
                                     .tag = wire::tag_of(options_.job, kept.server_nonce)}
                          .bytes());
        flush(kept);
        watch(kept);
        // All ranks may come at once.
        if (strangers_.size() > limits_.strangers + static_cast<std::size_t>(options_.size))
            close_any_stranger(now);
    }
}

/// Not the oldest: whoever opens connections faster than a rank answers would then keep the rank out.
void TcpServer::close_any_stranger(Instant now) {
    const auto oldest = *strangers_.begin();
    const auto drawn = oldest + random_() % (*strangers_.rbegin() - oldest + 1);
    auto& stranger = *connections_.at(*strangers_.lower_bound(drawn));
    read_from(stranger, now);  // its hello may have come
    if (!stranger.known) close_later(stranger);
    close_marked();
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
        unread_ += bytes;
        if (!connection.known && (connection.in.size() < wire::hello_size || !take_hello(connection)))
            continue;
        if (!connection.spare) last_request_ = now;
        take_requests(connection);
        if (!connection.in.empty() && !no_room(connection, 0).empty()) close_later(connection);
        if (connection.stalled || connection.out.size() > most_texts) return;
    }
}

/// True if the rank is one of the job; the others are refused in words.
bool TcpServer::take_hello(Connection& connection) {
    const auto hello = wire::Hello::from(connection.in);
    const auto proof = [&](std::string_view who) {
        return wire::proof_of(options_.key, who, options_.job, connection.server_nonce, hello);
    };
    unread_ -= connection.in.size();
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
    send(connection, std::string(1, static_cast<char>(wire::Status::done)) + proof("store") + words_);
    return true;
}

void TcpServer::refuse(Connection& connection, std::string_view words) {
    send(connection, cat(std::string(1, static_cast<char>(wire::Status::refused)), words));
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
    unread_ -= taken;
    if (connection.in.empty() && connection.in.capacity() > (1U << 16)) connection.in.shrink_to_fit();
}

void TcpServer::take(Connection& connection, wire::Request request) {
    // One that waits to enter only looks, again and again; one that has entered writes as well.
    if (request.operation != wire::Operation::get) last_request_ = Clock::now();
    if (request.operation == wire::Operation::set) return set(connection, request);
    if (request.operation == wire::Operation::get) return get(connection, std::move(request));
    for (const auto& name : request.names) entries_.remove(name);
}

/// Returns why a connection may not hold so many bytes more; "" if it may. The one entry of a world of a
/// million ranks takes up to 256 bytes for each.
std::string TcpServer::no_room(const Connection& connection, std::size_t bytes) const {
    const auto all = entries_.bytes() + unread_;
    const auto held = entries_.bytes_of(connection.id) + connection.in.size();
    const auto share = limits_.peer + 256 * static_cast<std::size_t>(options_.size);
    if (all + bytes <= limits_.bytes && held + bytes <= share) return {};
    return cat("is full: its ", entries_.size(), " entries and requests take ", all, " bytes of ",
               limits_.bytes, ", those of this rank ", held, " of ", share);
}

void TcpServer::set(Connection& connection, const wire::Request& request) {
    const auto& name = request.names.front();
    if (entries_.find(name))
        return reply(connection, request.id, wire::Status::done, std::string_view("\0", 1));
    if (const auto why = no_room(connection, TcpEntries::bytes_of(name, request.text)); !why.empty())
        return reply(connection, request.id, wire::Status::refused, why);
    entries_.set(connection.id, name, request.text);
    reply(connection, request.id, wire::Status::done, std::string_view("\1", 1));
    answer(entries_.take_completed_by(name));
}

void TcpServer::get(Connection& connection, wire::Request request) {
    if (request.milliseconds == 0) return answer(connection, request.id, request.names);
    auto wait = TcpEntries::Wait{.connection = connection.id,
                                 .id = request.id,
                                 .names = std::move(request.names),
                                 .until = Clock::now() + milliseconds(request.milliseconds)};
    if (const auto why = no_room(connection, TcpEntries::bytes_of(wait.names)); !why.empty())
        return reply(connection, request.id, wire::Status::refused, why);
    if (!entries_.keep(wait)) return answer(connection, wait.id, wait.names);
    if (entries_.waits_of(connection.id) > most_waits) close_later(connection);
}

void TcpServer::answer(const std::vector<TcpEntries::Wait>& waits) {
    for (const auto& each : waits) answer(*connections_.at(each.connection), each.id, each.names);
}

void TcpServer::expire(Instant now) {
    answer(entries_.take_expired(now));
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
    auto texts = std::vector<std::pair<Text, bool>>{};  // and whether an entry shares it
    auto length = std::size_t{5};
    auto small = std::string{};
    const auto cut = [&] {
        if (small.empty()) return;
        texts.emplace_back(std::make_shared<const std::string>(std::exchange(small, {})), false);
    };
    wire::add(small, id);
    small += static_cast<char>(wire::Status::done);
    for (const auto& name : names) {
        const auto text = entries_.find(name);
        small += text ? '\1' : '\0';
        ++length;
        if (!text) continue;
        wire::add(small, static_cast<std::uint32_t>(text->size()));
        length += 4 + text->size();
        if (text->size() < long_text) {
            small += *text;
        } else {
            cut();
            texts.emplace_back(text, true);
        }
    }
    cut();
    if (length > wire::longest_message)
        return reply(connection, id, wire::Status::refused,
                     cat("was asked for ", length, " bytes at once, and gives ", wire::longest_message));
    auto head = std::string{};
    wire::add(head, static_cast<std::uint32_t>(length));
    connection.out.push(std::move(head));
    for (auto& [text, is_shared] : texts) connection.out.push(std::move(text), is_shared);
    flush(connection);
    watch(connection);
}

void TcpServer::reply(Connection& connection, std::uint32_t id, wire::Status status, std::string_view body) {
    auto message = std::string{};
    wire::add(message, id);
    message += static_cast<char>(status);
    message += body;
    send(connection, message);
    watch(connection);
}

void TcpServer::send(Connection& connection, std::string_view message) {
    auto text = std::string{};
    wire::add(text, message);
    connection.out.push(std::move(text));
    flush(connection);
}

/// Sends what the kernel takes.
void TcpServer::flush(Connection& connection) {
    if (connection.closes) return;
    auto any = false;
    if (!connection.out.flush(connection.socket, any)) close_later(connection);
    if (any && finishing_ && connection.known && !connection.spare) last_request_ = Clock::now();
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
        entries_.forget(id);
        unread_ -= connection.in.size();
        strangers_.erase(id);
        connections_.erase(id);
    }
}

}  // namespace rankmesh::detail
