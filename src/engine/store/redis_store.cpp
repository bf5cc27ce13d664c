// SPDX-License-Identifier: Apache-2.0
#include "engine/store/stores.hpp"

#include <cstdlib>
#include <mutex>

#include <rankmesh/core/error.hpp>

#include "engine/store/redis_connection.hpp"
#include "engine/store/secret.hpp"

namespace rankmesh::detail {
namespace {

using Command = RedisConnection::Command;

constexpr auto lifetime = "86400";  // seconds

class RedisStore final : public Store {
public:
    RedisStore(const RedisUrl& server, const std::string& job)
        : server_(server), job_(job), password_(secret("RANKMESH_REDIS_PASSWORD")) {
        if (const auto* user = std::getenv("RANKMESH_REDIS_USER")) user_ = user;
        if (!user_.empty() && !password_)
            throw UsageError(cat("the user '", user_,
                                 "' (RANKMESH_REDIS_USER) has no password; set RANKMESH_REDIS_PASSWORD or "
                                 "RANKMESH_REDIS_PASSWORD_FILE"));
    }

    bool set(const std::string& name, const std::string& entry, Instant until) override {
        auto repeated = false;
        const auto replies = ask({{"SET", key(name), entry, "NX", "EX", lifetime}}, until, &repeated);
        if (replies.front().text) return true;
        // The first attempt may have written it and lost only its reply.
        return repeated && get({name}, until).front() == entry;
    }

    std::vector<std::optional<std::string>> get(const std::vector<std::string>& names,
                                                Instant until) override {
        // Not MGET, which answers nil for a key that holds no string.
        auto commands = std::vector<Command>{};
        for (const auto& name : names) commands.push_back({"GET", key(name)});
        auto entries = std::vector<std::optional<std::string>>{};
        for (auto& reply : ask(commands, until)) entries.push_back(std::move(reply.text));
        return entries;
    }

    void remove(const std::vector<std::string>& names, Instant until) noexcept override {
        try {
            auto command = Command{"DEL"};
            for (const auto& name : names) command.push_back(key(name));
            ask({command}, until);
        } catch (const std::exception&) {  // they expire after a day
        }
    }

    /// A thousand ranks in a long wait poll 4000 times a second.
    std::chrono::microseconds longest_pause() const override { return std::chrono::milliseconds(250); }
    std::string text() const override { return cat("the store '", server_.text(), "'"); }
    const std::string& job() const override { return job_; }

private:
    std::string key(const std::string& name) const { return cat("rankmesh:{", job_, "}:", name); }

    /// Asks, and throws for a reply that is an error. Sets `repeated` if it sent the commands twice.
    std::vector<RedisReply> ask(const std::vector<Command>& commands, Instant until,
                                bool* repeated = nullptr) {
        const auto lock = std::lock_guard(mutex_);
        // The server may have closed an idle connection, or may have been restarted: reconnects once.
        for (auto again = connection_ != nullptr;; again = false) {
            try {
                if (!connection_) connect(until);
                auto replies = connection_->ask(commands, until);
                for (std::size_t i = 0; i < replies.size(); ++i) check(commands[i], replies[i]);
                return replies;
            } catch (const RedisConnection::Broken& error) {
                connection_.reset();
                if (!again)
                    throw EngineFailure(cat(text(), " cannot be asked: ", commands.front().front(),
                                            " failed (", error.what(),
                                            "); see that a Redis server runs there"));
                if (repeated) *repeated = true;
            } catch (...) {
                connection_.reset();
                throw;
            }
        }
    }

    void connect(Instant until) {
        auto connection = std::make_unique<RedisConnection>(server_, until);
        auto commands = std::vector<Command>{};
        if (password_ && user_.empty()) commands.push_back({"AUTH", password_->value});
        if (password_ && !user_.empty()) commands.push_back({"AUTH", user_, password_->value});
        if (server_.database != 0) commands.push_back({"SELECT", std::to_string(server_.database)});
        const auto replies = connection->ask(commands, until);
        for (std::size_t i = 0; i < replies.size(); ++i) check(commands[i], replies[i]);
        connection_ = std::move(connection);
    }

    /// Throws the exception for an error reply.
    void check(const Command& command, const RedisReply& reply) const {
        if (!reply.is_error) return;
        auto answer = reply.text->substr(0, 200);
        if (password_ && answer.find(password_->value) != answer.npos)
            answer = "(an answer with the password)";
        if (answer.starts_with("NOAUTH") && !password_)
            throw UsageError(
                cat(text(),
                    " wants a password; set RANKMESH_REDIS_PASSWORD, or RANKMESH_REDIS_PASSWORD_FILE "
                    "to a file that only you can read"));
        if (command.front() == "AUTH")
            throw UsageError(cat(text(), " refuses the password of ", password_->from,
                                 user_.empty() ? std::string{} : cat(" for the user '", user_, "'"),
                                 ": it answered '", answer, "'"));
        const auto of = command.front() == "SELECT" ? "" : cat(" of '", command[1], "'");
        throw EngineFailure(cat(text(), " answered ", command.front(), of, " with '", answer, "'"));
    }

    const RedisUrl server_;
    const std::string job_;
    const std::optional<Secret> password_;
    std::string user_;
    std::mutex mutex_;  // worlds of several threads may share a store
    std::unique_ptr<RedisConnection> connection_;
};

}  // namespace

std::unique_ptr<Store> redis_store(const RedisUrl& server, const std::string& job) {
    return std::make_unique<RedisStore>(server, job);
}

}  // namespace rankmesh::detail
