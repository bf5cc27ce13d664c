// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/fork.hpp"
#include "engine/store/tcp_protocol.hpp"
#include "engine/store/tcp_url.hpp"

namespace rankmesh::detail {

/// The entries of one job, served over TCP by a thread of rank 0's process.
///
/// It serves from `start` until it is released and no rank is connected; a process that ends meanwhile waits
/// for the ranks that still ask, until none has asked for a second.
class TcpServer {
public:
    using Instant = std::chrono::steady_clock::time_point;
    struct Options {
        TcpUrl url;
        std::string job;
        std::string key;          // what only the ranks of the job know
        bool has_secret = false;  // the key is one
        int size = 1;
        int rank = 0;         // that serves
        bool second = false;  // to which ranks go over; of those that can serve it one does

        bool operator==(const Options&) const = default;
    };
    struct Limits {
        std::size_t strangers = 512;               // that have not shown the key, more than the job has ranks
        std::size_t bytes = std::size_t{1} << 30;  // of entries and unread requests
        std::chrono::milliseconds patience{5000};  // with a stranger
    };

    /// Listens at the first of the URL's ports that is free; throws UsageError where there is none, or where
    /// another process serves the same job at one; null where that is a second store. Worlds of one job share
    /// the server of their process. If other hosts can reach it and no secret is set, it prints one line on
    /// stderr.
    static std::shared_ptr<TcpServer> start(const Options& options, const Limits& limits);
    static std::shared_ptr<TcpServer> start(const Options& options) { return start(options, Limits{}); }
    ~TcpServer();
    TcpServer(const TcpServer&) = delete;
    TcpServer& operator=(const TcpServer&) = delete;

    int port() const { return port_; }
    /// The address at which this process reaches it.
    const std::string& address() const { return address_; }
    /// `process 17 on head, a job of 8 ranks`: how it names itself to those that have shown the key.
    const std::string& words() const { return words_; }
    /// True if it serves that, and goes on with it until it is released once more.
    bool retain(const Options& options) noexcept;
    /// It ends once all that use it have released it, and no rank is connected.
    void release() noexcept;
    /// The process ends: waits until no rank needs it.
    void finish() noexcept;
    bool has_ended() const { return ended_; }
    /// False in a child that the process has forked, where no thread serves.
    bool is_of_this_process() const;

private:
    struct Connection;
    struct Wait;
    using Text = std::shared_ptr<const std::string>;

    TcpServer(Options options, const Limits& limits);
    bool listen();
    void find_addresses();
    bool listen_at(int port);
    void warn() const;
    void close_all() noexcept;
    void wake() noexcept;
    void run();
    bool is_over(Instant now);
    int milliseconds_to_wait(Instant now) const;
    void accept_strangers(Instant now);
    void close_oldest_stranger();
    void watch_listener(bool watched);
    void pause_listening(Instant now);
    void read_from(Connection& connection, Instant now);
    void greet(Connection& connection);
    bool take_hello(Connection& connection);
    void take_requests(Connection& connection);
    void take(Connection& connection, tcp_protocol::Request request);
    void set(Connection& connection, const tcp_protocol::Request& request);
    void get(Connection& connection, tcp_protocol::Request request);
    void remove(const std::string& name);
    void answer(Connection& connection, std::uint32_t id, const std::vector<std::string>& names);
    void reply(Connection& connection, std::uint32_t id, tcp_protocol::Status status, std::string_view body);
    void refuse(Connection& connection, std::string_view words);
    void woken_by(const std::string& name);
    void forget(Wait& wait);
    void expire(Instant now);
    void queue(Connection& connection, std::string text);
    void flush(Connection& connection);
    void watch(Connection& connection);
    void close_later(Connection& connection);
    void close_marked();

    const Options options_;
    const Limits limits_;
    const std::string words_;
    int port_ = 0;
    std::vector<std::string> own_;  // the addresses of the host that are this machine's, the preferred first
    std::string address_;
    bool is_local_ = false;  // only this machine reaches it
    int listener_ = -1;
    std::optional<ClosedOnFork> listener_closed_in_children_;
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
    std::unordered_map<std::string, Text> entries_;
    std::size_t bytes_ = 0;   // of entries and unread requests
    std::size_t unsent_ = 0;  // of answers, but for entries
    std::unordered_map<std::uint64_t, std::unique_ptr<Connection>> connections_;
    std::set<std::uint64_t> strangers_;  // the oldest first
    std::vector<std::uint64_t> closing_;
    std::uint64_t next_connection_ = 2;
    std::unordered_map<std::string, std::unordered_set<Wait*>> waits_by_name_;
    std::set<std::pair<Instant, Wait*>> waits_by_time_;
    bool watched_ = true;
    Instant listen_again_;
    Instant last_request_;
    Instant finish_began_;
};

}  // namespace rankmesh::detail
