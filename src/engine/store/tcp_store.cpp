// SPDX-License-Identifier: Apache-2.0
#include "engine/store/tcp_store.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <rankmesh/core/error.hpp>

#include "engine/hosts/sockets.hpp"
#include "engine/store/secret.hpp"
#include "engine/store/tcp_connection.hpp"
#include "engine/store/tcp_search.hpp"

namespace rankmesh::detail {
namespace {

namespace wire = tcp_protocol;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

class TcpStore final : public Store {
public:
    /// `server`: of this process, null if it does not serve the store.
    TcpStore(const TcpStoreOptions& options, std::shared_ptr<TcpServer> server)
        : options_(options), server_(std::move(server)), search_(options_, server_.get()) {}
    ~TcpStore() override {
        if (server_) server_->release();
    }
    TcpStore(const TcpStore&) = delete;
    TcpStore& operator=(const TcpStore&) = delete;

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
