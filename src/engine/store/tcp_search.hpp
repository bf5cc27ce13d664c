// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "engine/store/tcp_greeting.hpp"
#include "engine/store/tcp_server.hpp"

namespace rankmesh::detail {

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
    Found find(Instant until) const;

private:
    using Reasons = std::map<int, std::string>;  // why nothing was found, by port

    std::vector<std::string> addresses(Instant until, Reasons& reasons) const;
    Found proved(const TcpGreeting& greeting, int port, Instant until) const;
    void throw_if_refused(const std::string& answer, const std::string& proof, int port) const;
    [[noreturn]] void throw_late(Instant begin, const Reasons& reasons) const;

    const TcpStoreOptions& options_;
    const TcpUrl& url_ = options_.url;
    const TcpServer* const server_;
};

}  // namespace rankmesh::detail
