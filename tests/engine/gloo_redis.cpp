// SPDX-License-Identifier: Apache-2.0
// Entries in a Redis server: what every store does, which connections are accepted, and the error of each
// failure.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include <rankmesh/core/error.hpp>

#include "engine/store/redis_connection.hpp"
#include "engine/store/stores.hpp"
#include "support/redis_server.hpp"
#include "support/store_law.hpp"
#include "support/text_of.hpp"
#include "support/variables.hpp"

namespace rankmesh::detail {
namespace {

using Clock = std::chrono::steady_clock;
using Names = std::vector<std::string>;
using Texts = std::vector<std::optional<std::string>>;

Clock::time_point in(int milliseconds) { return Clock::now() + std::chrono::milliseconds(milliseconds); }
using support::soon;

std::unique_ptr<Store> store(const std::string& url, const std::string& job = "a job") {
    return redis_store(RedisUrl::parse(url), job);
}

/// Asks a server behind the store's back; the reply in words.
std::string ask(const support::RedisServer& server, const RedisConnection::Command& command) {
    const auto reply = RedisConnection(RedisUrl::parse(server.url()), soon()).ask({command}, soon()).front();
    return reply.text.value_or("nil");
}

/// Accepts one connection after the other; on each it answers requests with one text after the other, and
/// then closes it.
class ScriptedServer {
public:
    explicit ScriptedServer(std::vector<Names> connections)
        : thread_([this, connections = std::move(connections)] {
              for (const auto& answers : connections) {
                  const auto peer = ::accept(listener_.socket(), nullptr, nullptr);
                  char buffer[4096];
                  for (const auto& answer : answers) {
                      if (read(peer, buffer, sizeof buffer) <= 0) break;
                      static_cast<void>(send(peer, answer.data(), answer.size(), MSG_NOSIGNAL));
                  }
                  static_cast<void>(read(peer, buffer, answers.empty() ? 0 : sizeof buffer));
                  close(peer);
              }
          }) {}
    ~ScriptedServer() { thread_.join(); }
    std::string url() const { return listener_.url(); }

private:
    support::Listener listener_;
    std::thread thread_;
};

class RedisStore : public testing::Test {
protected:
    void SetUp() override {
        if (!support::RedisServer::is_installed()) GTEST_SKIP() << support::RedisServer::how_to_get_it;
    }
};

}  // namespace

TEST_F(RedisStore, KeepsEntriesAsAFolderDoes) {
    const auto folder = support::Folder();
    const auto files = file_store(folder.path() + "/store", "a job");
    support::expect_to_keep_entries(*files);
    const auto server = support::RedisServer();
    const auto keys = store(server.url());
    support::expect_to_keep_entries(*keys);
    EXPECT_EQ(keys->text(), "the store '" + server.url() + "'");
}

TEST_F(RedisStore, KeepsJobsAndDatabasesApart) {
    const auto server = support::RedisServer();
    const auto stores = std::vector<std::shared_ptr<Store>>{
        store(server.url(), "a"), store(server.url(), "b"), store(server.url() + "/1", "a"),
        store(server.url(), "a}:x"), store(server.url(), "")};
    for (std::size_t i = 0; i < stores.size(); ++i)
        EXPECT_TRUE(stores[i]->set("x", std::to_string(i), soon())) << i;
    for (std::size_t i = 0; i < stores.size(); ++i)
        EXPECT_EQ(stores[i]->get({"x"}, soon()), Texts{std::to_string(i)});
}

TEST_F(RedisStore, IsReachedByANameAndByAnIpv6Address) {
    const auto server = support::RedisServer({"--bind", "127.0.0.1", "-::1"});
    const auto port = std::to_string(server.port());
    EXPECT_TRUE(store("redis://localhost:" + port)->set("a", "", soon()));
    auto address = sockaddr_in6{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_loopback;
    const auto own = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto has_ipv6 = bind(own, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    close(own);
    if (!has_ipv6) GTEST_SKIP() << "this host has no IPv6";
    EXPECT_TRUE(store("redis://[::1]:" + port)->set("b", "", soon()));
}

TEST_F(RedisStore, LetsEntriesGoAfterADay) {
    const auto server = support::RedisServer();
    store(server.url(), "job")->set("claim.0", "", soon());
    const auto left = std::stoi(ask(server, {"TTL", "rankmesh:{job}:claim.0"}));
    EXPECT_GT(left, 86400 - 60);
    EXPECT_LE(left, 86400);
}

TEST_F(RedisStore, TakesThePasswordFromTheEnvironmentOrAFile) {
    const auto server = support::RedisServer({"--requirepass", "open sesame"});
    {
        const auto variables = support::Variables{{"RANKMESH_REDIS_PASSWORD", "open sesame"}};
        EXPECT_TRUE(store(server.url())->set("a", "", soon()));
    }
    const auto folder = support::Folder();
    const auto file = folder.path() + "/password";
    std::ofstream(file) << "open sesame\nanother line\n";
    chmod(file.c_str(), 0600);
    {
        const auto variables = support::Variables{{"RANKMESH_REDIS_PASSWORD_FILE", file}};
        EXPECT_TRUE(store(server.url())->set("b", "", soon()));
    }
    const auto variables =
        support::Variables{{"RANKMESH_REDIS_USER", "default"}, {"RANKMESH_REDIS_PASSWORD", "open sesame"}};
    EXPECT_TRUE(store(server.url())->set("c", "", soon()));
}

TEST_F(RedisStore, SaysWhenAPasswordIsMissingOrWrongWithoutRepeatingIt) {
    const auto server = support::RedisServer({"--requirepass", "open sesame"});
    const auto set = [&] { store(server.url())->set("a", "", soon()); };
    EXPECT_EQ(text_of(set), "the store '" + server.url() +
                                "' wants a password; set RANKMESH_REDIS_PASSWORD, or "
                                "RANKMESH_REDIS_PASSWORD_FILE to a file that only you can read");
    {
        const auto variables = support::Variables{{"RANKMESH_REDIS_PASSWORD", "guess"}};
        EXPECT_EQ(text_of(set),
                  "the store '" + server.url() +
                      "' refuses the password of RANKMESH_REDIS_PASSWORD: it answered 'WRONGPASS invalid "
                      "username-password pair or user is disabled.'");
    }
    {
        const auto variables =
            support::Variables{{"RANKMESH_REDIS_PASSWORD", "guess"}, {"RANKMESH_REDIS_USER", "somebody"}};
        EXPECT_EQ(
            text_of(set),
            "the store '" + server.url() +
                "' refuses the password of RANKMESH_REDIS_PASSWORD for the user 'somebody': it answered "
                "'WRONGPASS invalid username-password pair or user is disabled.'");
    }
    {
        const auto variables = support::Variables{{"RANKMESH_REDIS_USER", "somebody"}};
        EXPECT_EQ(text_of(set),
                  "the user 'somebody' (RANKMESH_REDIS_USER) has no password; set RANKMESH_REDIS_PASSWORD or "
                  "RANKMESH_REDIS_PASSWORD_FILE");
    }
    const auto open = support::RedisServer();
    const auto variables = support::Variables{{"RANKMESH_REDIS_PASSWORD", "guess"}};
    EXPECT_TRUE(text_of([&] { store(open.url())->set("a", "", soon()); })
                    .starts_with("the store '" + open.url() +
                                 "' refuses the password of RANKMESH_REDIS_PASSWORD: it answered 'ERR AUTH "
                                 "<password> called without any password configured"));
    const auto repeating =
        ScriptedServer({{"-ERR unknown command 'AUTH', with args beginning with: 'guess'\r\n"}});
    EXPECT_EQ(
        text_of([&] { store(repeating.url())->set("a", "", soon()); }),
        "the store '" + repeating.url() +
            "' refuses the password of RANKMESH_REDIS_PASSWORD: it answered '(an answer with the password)'");
}

TEST(RedisPassword, AFileThatOthersCouldReadIsRefused) {
    const auto folder = support::Folder();
    const auto file = folder.path() + "/password";
    std::ofstream(file) << "secret\n";
    const auto make = [] { store("redis://127.0.0.1:1"); };
    const auto begin = "the file '" + file + "' (RANKMESH_REDIS_PASSWORD_FILE) ";
    const auto variables = support::Variables{{"RANKMESH_REDIS_PASSWORD_FILE", file}};
    for (auto mode : {0604, 0640, 0622}) {
        chmod(file.c_str(), static_cast<mode_t>(mode));
        auto text = std::array<char, 8>{};
        std::snprintf(text.data(), text.size(), "%04o", mode);
        EXPECT_EQ(text_of(make),
                  begin + "can be read or written by others (mode " + text.data() + "); chmod 600 it");
    }
    chmod(file.c_str(), 0600);
    EXPECT_EQ(text_of(make), "");
    {
        const auto both = support::Variables{{"RANKMESH_REDIS_PASSWORD", "x"}};
        EXPECT_EQ(text_of(make),
                  "RANKMESH_REDIS_PASSWORD and RANKMESH_REDIS_PASSWORD_FILE are both set; unset one of them");
    }
    std::ofstream(file, std::ios::trunc) << "\nsecond line\n";
    EXPECT_EQ(text_of(make), begin + "holds nothing in its first line");
    std::filesystem::remove(file);
    EXPECT_EQ(text_of(make), begin + "cannot be read: No such file or directory");
    std::filesystem::create_directory(file);
    EXPECT_EQ(text_of(make), begin + "is no file");
    std::filesystem::remove(file);
    if (geteuid() != 0) return;  // only root can give a file away
    std::ofstream(file) << "secret\n";
    chmod(file.c_str(), 0600);
    ASSERT_EQ(chown(file.c_str(), 12345, 12345), 0);
    EXPECT_EQ(text_of(make),
              begin + "belongs to user 12345, but this process runs as 0; name a file of your own");
}

TEST(RedisFailures, AServerThatIsNotThereIsSaidAtOnce) {
    const auto begin = Clock::now();
    EXPECT_EQ(text_of<EngineFailure>([] { store("redis://127.0.0.1:1/2")->set("a", "", soon()); }),
              "the store 'redis://127.0.0.1:1/2' cannot be asked: SET failed (Connection refused); see that "
              "a Redis "
              "server runs there");
    const auto no_name = "redis://" + std::string(70, 'x');
    const auto text = text_of<EngineFailure>([&] { store(no_name)->get({"a"}, soon()); });
    EXPECT_TRUE(text.starts_with("the store '" + no_name +
                                 ":6379' cannot be asked: GET failed (its address cannot be found: "))
        << text;
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
}

TEST(RedisFailures, AServerThatNeverAnswersEndsTheCallAtItsTimeout) {
    const auto silent = support::Listener();
    const auto begin = Clock::now();
    const auto text = text_of<Timeout>([&] { store(silent.url())->set("a", "", in(300)); });
    const auto took = Clock::now() - begin;
    EXPECT_TRUE(
        text.starts_with("the timeout expired: the store '" + silent.url() + "' has not answered SET for "))
        << text;
    EXPECT_GE(took, std::chrono::milliseconds(300));
    EXPECT_LT(took, std::chrono::seconds(5));
}

TEST(RedisFailures, AConnectionThatIsNeverTakenEndsTheCallAtItsTimeout) {
    const auto full = support::Listener(0);
    auto fillers = std::vector<int>{};
    const auto address = support::Listener::loopback(full.port());
    for (int i = 0; i < 4; ++i) {
        fillers.push_back(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        static_cast<void>(
            connect(fillers.back(), reinterpret_cast<const sockaddr*>(&address), sizeof address));
    }
    const auto begin = Clock::now();
    const auto text = text_of<Timeout>([&] { store(full.url())->set("a", "", in(300)); });
    const auto took = Clock::now() - begin;
    for (auto each : fillers) close(each);
    EXPECT_TRUE(text.starts_with("the timeout expired: the store '" + full.url() +
                                 "' has not taken the connection for "))
        << text;
    EXPECT_GE(took, std::chrono::milliseconds(300));
    EXPECT_LT(took, std::chrono::seconds(5));
}

TEST(RedisFailures, WhatIsNoRedisServerIsSaid) {
    const auto web = ScriptedServer({{"HTTP/1.1 400 Bad Request\r\n\r\n"}});
    EXPECT_EQ(text_of<EngineFailure>([&] { store(web.url())->set("a", "", soon()); }),
              "what answers at the store '" + web.url() +
                  "' is no Redis server: Protocol error, got \"H\" as reply type byte");
}

TEST(RedisFailures, AListIsNoAnswerHoweverLongItSaysToBe) {
    for (const auto* list : {"*2147483647\r\n", "*0\r\n", "*1\r\n$1\r\nx\r\n"}) {
        const auto strange = ScriptedServer({{list}});
        EXPECT_EQ(
            text_of<EngineFailure>([&] { store(strange.url())->set("a", "", in(5000)); }),
            "what answers at the store '" + strange.url() + "' is no Redis server: it answers with a list");
    }
}

TEST(RedisFailures, AnAnswerThatDoesNotEndEndsTheCallAtItsTimeout) {
    const auto listener = support::Listener();
    auto sender = std::thread([&] {
        const auto peer = ::accept(listener.socket(), nullptr, nullptr);
        auto answer = std::string("$2147483647\r\n");
        while (send(peer, answer.data(), answer.size(), MSG_NOSIGNAL) > 0) {
            answer = "x";
            std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the pace of the answer
        }
        close(peer);
    });
    const auto begin = Clock::now();
    const auto text = text_of<Timeout>([&] { store(listener.url())->get({"a"}, in(300)); });
    const auto took = Clock::now() - begin;
    sender.join();
    EXPECT_TRUE(
        text.starts_with("the timeout expired: the store '" + listener.url() + "' has not answered GET"))
        << text;
    EXPECT_GE(took, std::chrono::milliseconds(300));
    EXPECT_LT(took, std::chrono::seconds(5));
}

TEST(RedisFailures, AnEntryWhoseAnswerWasLostIsNotTakenForAnother) {
    // The answer to the second SET is lost; the third finds the entry, which is this rank's own.
    const auto own = ScriptedServer({{"+OK\r\n"}, {"$-1\r\n", "$4\r\nmine\r\n"}});
    auto first = store(own.url());
    EXPECT_TRUE(first->set("a", "", soon()));
    EXPECT_TRUE(first->set("b", "mine", soon()));
    first.reset();
    const auto another = ScriptedServer({{"+OK\r\n"}, {"$-1\r\n", "$5\r\nother\r\n"}});
    auto second = store(another.url());
    EXPECT_TRUE(second->set("a", "", soon()));
    EXPECT_FALSE(second->set("b", "mine", in(1000)));
}

TEST_F(RedisStore, TellsWhatIsNoText) {
    const auto server = support::RedisServer();
    ask(server, {"RPUSH", "rankmesh:{a job}:x", "1"});
    EXPECT_EQ(text_of<EngineFailure>([&] {
                  store(server.url())->get({"left", "x"}, soon());
              }),
              "the store '" + server.url() +
                  "' answered GET of 'rankmesh:{a job}:x' with 'WRONGTYPE Operation against a key holding "
                  "the wrong "
                  "kind of value'");
    EXPECT_EQ(text_of<EngineFailure>([&] { store(server.url() + "/99")->get({"x"}, soon()); }),
              "the store '" + server.url() + "/99' answered SELECT with 'ERR DB index is out of range'");
}

TEST_F(RedisStore, ComesBackOnceWithoutAWordWhenAConnectionEnds) {
    auto server = support::RedisServer();
    const auto entries = store(server.url());
    EXPECT_TRUE(entries->set("a", "1", soon()));
    ask(server, {"CLIENT", "KILL", "TYPE", "normal"});
    EXPECT_EQ(entries->get({"a"}, soon()), Texts{"1"});
    ask(server, {"CLIENT", "KILL", "TYPE", "normal"});
    EXPECT_TRUE(entries->set("b", "2", soon()));
    server.stop();
    ASSERT_TRUE(server.start());
    EXPECT_EQ(entries->get({"a"}, soon()), Texts{std::nullopt}) << "it keeps nothing";
    server.stop();
    EXPECT_EQ(text_of<EngineFailure>([&] { entries->get({"a"}, soon()); }),
              "the store '" + server.url() +
                  "' cannot be asked: GET failed (Connection refused); see that a Redis server runs there");
    entries->remove({"a"}, soon());
}

}  // namespace rankmesh::detail
