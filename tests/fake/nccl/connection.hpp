// SPDX-License-Identifier: Apache-2.0
// The messages between ranks, threads and processes alike: a connection for each two ranks that share one id.
#pragma once

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fake/common.hpp"

namespace fake_nccl {

using fake_common::setting;
using fake_common::text;

template <class... T>
[[noreturn]] void violation(const T&... parts) {
    fake_common::violation("nccl", parts...);
}

/// What a call answers, and what ncclGetLastError says of it.
struct Failure {
    ncclResult_t result;
    std::string what;
};

inline void demand(bool holds, const char* call, const char* what) {
    if (!holds) throw Failure{ncclInvalidArgument, text(call, ": ", what)};
}

/// When a wait has taken too long.
inline std::chrono::steady_clock::time_point out_of_patience() {
    return std::chrono::steady_clock::now() + std::chrono::milliseconds(setting("FAKE_PATIENCE", 60'000));
}

enum class Kind : std::uint32_t { collective, message, receipt, exchange, aborted, left };

/// Which frame: the `number`th of its kind that `from` sends here within a communicator.
struct Key {
    std::uint64_t communicator;
    Kind kind;
    int from;  // a rank of the connection
    std::uint64_t number;
    auto operator<=>(const Key&) const = default;
};

struct Frame {
    std::string about;  // what must be equal on both sides
    std::string data;
};

class Connection {
public:
    /// Meets the other ranks that have this id; throws Failure. `aborted` ends the wait.
    Connection(const std::string& id, int rank, int size, const std::string& device,
               const std::atomic<bool>& aborted);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    int rank() const { return rank_; }

    /// To any rank, this one too. What cannot be sent is lost with the rank, and so is one that does not
    /// read until `given_up()`.
    void send(int to, std::uint64_t communicator, Kind kind, std::uint64_t number, const Frame& frame,
              const std::function<bool()>& given_up);
    /// Waits until there is such a frame, or `given_up()`, which is asked again whenever something has come.
    bool take(const Key& key, Frame& frame, std::chrono::steady_clock::time_point until,
              const std::function<bool()>& given_up);
    /// Makes those who wait ask again.
    void wake();

    /// The rank's process has ended, or it has closed the connection.
    bool is_lost(int rank) const;
    bool has(const Key& key) const;
    /// What the first frame of a kind is about that has not been taken; empty: there is none.
    std::string first(std::uint64_t communicator, Kind kind, int from) const;
    /// Drops all frames of a communicator, received or yet to come.
    void close(std::uint64_t communicator);

private:
    void connect_all(const std::string& id, const std::string& device, const std::atomic<bool>& aborted);
    void read();
    bool read_some(int rank);
    void deliver(const Key& key, Frame frame);

    const int rank_;
    const int size_;
    std::vector<int> sockets_;  // by rank; -1: this one
    std::vector<std::unique_ptr<std::mutex>> sending_;
    std::vector<std::string> half_read_;
    int end_ = -1;  // readable once the connection ends
    std::thread reader_;

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::map<Key, Frame> frames_;
    std::set<std::uint64_t> closed_;
    std::set<int> lost_;
};

}  // namespace fake_nccl
