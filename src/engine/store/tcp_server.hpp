// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <random>
#include <thread>

#include "engine/store/tcp_entries.hpp"
#include "engine/store/tcp_listener.hpp"
#include "engine/store/tcp_protocol.hpp"

namespace rankmesh::detail {

/// The entries of one job, served over TCP by a thread of rank 0's process.
///
/// It serves from `start` until it is released and no rank is connected. A process that ends meanwhile waits
/// until no rank has asked for a second.
class TcpServer {
public:
    using Instant = std::chrono::steady_clock::time_point;
    using Options = TcpStoreOptions;
    struct Limits {
        std::size_t strangers = 512;               // that have not shown the key, more than the job has ranks
        std::size_t bytes = std::size_t{1} << 30;  // of entries, waiting and unread requests
        std::size_t peer = std::size_t{1} << 26;   // of them, of one connection; and 256 for each rank
        std::chrono::milliseconds patience{5000};  // with a stranger
    };

    /// Starts to serve, as TcpListener::open and warn say. Worlds of one job share the server of their
    /// process.
    static std::shared_ptr<TcpServer> start(const Options& options, const Limits& limits);
    static std::shared_ptr<TcpServer> start(const Options& options) { return start(options, Limits{}); }
    ~TcpServer();
    TcpServer& operator=(TcpServer&&) = delete;

    int port() const { return listener_.port(); }
    /// The address at which this process reaches it.
    const std::string& address() const { return listener_.address(); }
    /// How it names itself to clients that have shown the key: `process 17 on head, a job of 8 ranks`.
    const std::string& words() const { return words_; }
    /// True if it serves with these options. It then serves until it is released once more.
    bool retain(const Options& options) noexcept;
    /// It ends once all users have released it, and no rank is connected.
    void release() noexcept;
    /// The process ends: waits until no rank needs it.
    void finish() noexcept;
    bool has_ended() const { return ended_; }
    /// False in a forked child, in which no thread serves.
    bool is_of_this_process() const;

private:
    struct Connection;
    using Text = TcpOutbox::Text;

    TcpServer(Options options, const Limits& limits);
    void watch_events();
    void close_all() noexcept;
    void wake() noexcept;
    void run();
    bool is_over(Instant now);
    std::string no_room(const Connection& connection, std::size_t bytes) const;
    int milliseconds_to_wait(Instant now) const;
    void accept_strangers(Instant now);
    void close_any_stranger(Instant now);
    void watch_listener(bool watched);
    void read_from(Connection& connection, Instant now);
    bool take_hello(Connection& connection);
    void take_requests(Connection& connection);
    void take(Connection& connection, tcp_protocol::Request request);
    void set(Connection& connection, const tcp_protocol::Request& request);
    void get(Connection& connection, tcp_protocol::Request request);
    void answer(const std::vector<TcpEntries::Wait>& waits);
    void answer(Connection& connection, std::uint32_t id, const std::vector<std::string>& names);
    void reply(Connection& connection, std::uint32_t id, tcp_protocol::Status status, std::string_view body);
    void refuse(Connection& connection, std::string_view words);
    void expire(Instant now);
    void send(Connection& connection, std::string_view message);
    void flush(Connection& connection);
    void watch(Connection& connection);
    void close_later(Connection& connection);
    void close_marked();

    const Options options_;
    const Limits limits_;
    const std::string words_;
    TcpListener listener_;
    int epoll_ = -1;
    std::mutex waking_;
    int event_ = -1;  // by which the thread is woken
    const int process_;
    std::thread thread_;
    int users_ = 1;      // under `waking_`
    bool over_ = false;  // the same
    std::atomic<bool> finishing_ = false;
    std::atomic<bool> ended_ = false;

    // Of the thread alone.
    TcpEntries entries_;
    std::size_t unread_ = 0;  // bytes of requests
    std::size_t unsent_ = 0;  // of answers, but for entries
    std::unordered_map<std::uint64_t, std::unique_ptr<Connection>> connections_;
    std::set<std::uint64_t> strangers_;  // the oldest first
    std::minstd_rand random_;
    std::vector<std::uint64_t> closing_;
    std::uint64_t next_connection_ = 2;
    bool watched_ = true;
    Instant listen_again_;
    Instant last_request_;
    Instant finish_began_;
};

}  // namespace rankmesh::detail
