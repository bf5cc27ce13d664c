// SPDX-License-Identifier: Apache-2.0
// Who connects to the ports of a Gloo job, and is none of its ranks, neither joins it nor ends it; who writes
// where its rendezvous is is not believed.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <list>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <rankmesh/core/error.hpp>

#include "engine/gloo/transport/connection.hpp"
#include "engine/gloo/transport/listener.hpp"
#include "support/eventually.hpp"
#include "support/gloo_job.hpp"
#include "support/sockets.hpp"
#include "support/taken_descriptors.hpp"

namespace {

using support::eventually;
using support::Job;
using support::listening;
using support::Stranger;

/// The first bytes of a message of Gloo's to a buffer that nobody has made: Gloo itself ends the process over
/// it.
std::string message_of_gloo(std::uint64_t operation) {
    const std::uint64_t words[] = {48, operation, 7, 0, 0, 0};
    return {reinterpret_cast<const char*>(words), sizeof words};
}

std::string noise(std::size_t bytes) {
    static auto random = std::mt19937(42);
    auto text = std::string(bytes, '\0');
    for (auto& each : text) each = static_cast<char>(random());
    return text;
}

/// The processes of the ranks, which they have printed.
std::vector<pid_t> ranks_of(const Job& job) {
    auto ranks = std::vector<pid_t>{};
    for (std::size_t rank = 0; rank < job.processes().size(); ++rank) {
        const auto text = job.said(static_cast<int>(rank));
        ranks.push_back(std::stoi(text.substr(text.find("process ") + 8)));
    }
    return ranks;
}

/// Every address at which some rank listens.
std::vector<sockaddr_in> doors(const std::vector<pid_t>& ranks) {
    auto all = std::vector<sockaddr_in>{};
    for (auto rank : ranks)
        for (const auto& each : listening(rank)) all.push_back(each);
    return all;
}

/// Four ranks of which the last is late: the others listen already, each at one port for all ranks above it,
/// and wait.
class GlooStrangers : public testing::Test {
protected:
    GlooStrangers() : job({.command = RANKMESH_GLOO_PROGRAM " late"}) {
        EXPECT_TRUE(job.all_say("joined the rendezvous"));
        ranks = ranks_of(job);
        EXPECT_TRUE(eventually([&] { return doors(ranks).size() == 3; }));
    }

    /// Starts the last rank, and expects that all compute together.
    void expect_well() {
        job.tell("go");
        EXPECT_TRUE(job.all_say("join: went well"));
        std::this_thread::sleep_for(std::chrono::milliseconds(200));  // while they compute beside strangers
        job.tell("enough");
        const auto outcome = job.end();
        for (std::size_t rank = 0; rank < 4; ++rank) {
            EXPECT_EQ(outcome.exit_codes[rank], 0);
            support::expect_says(outcome, rank, ", all: went well");
        }
    }

    Job job;
    std::vector<pid_t> ranks;
};

}  // namespace

TEST_F(GlooStrangers, ListenOnTheChosenInterfaceOnlyAndNotLongerThanTheyConnect) {
    EXPECT_EQ(doors(ranks).size(), 3U);
    for (const auto& door : doors(ranks)) EXPECT_EQ(ntohl(door.sin_addr.s_addr), INADDR_LOOPBACK);
    job.tell("go");
    EXPECT_TRUE(job.all_say("join: went well"));
    EXPECT_EQ(doors(ranks).size(), 0U);
    job.tell("enough");
    EXPECT_EQ(job.end().exit_codes, (std::vector{0, 0, 0, 0}));
}

TEST_F(GlooStrangers, WhoSaysNothingOrNonsenseIsNotTakenForARank) {
    auto held = std::vector<Stranger>{};
    for (const auto& door : doors(ranks)) {
        Stranger(door).say("closed at once");
        Stranger(door).reset();
        for (const auto& text :
             {std::string{}, noise(15), noise(16), noise(4096), std::string(4096, '\0'), message_of_gloo(0),
              message_of_gloo(1), message_of_gloo(2), message_of_gloo(3), noise(16) + message_of_gloo(1)}) {
            held.emplace_back(door);
            EXPECT_TRUE(held.back().is_connected());
            held.back().say(text);
        }
    }
    expect_well();
}

TEST_F(GlooStrangers, AFloodAndADribbleDoNotKeepRanksFromEachOther) {
    auto stopping = std::atomic<bool>{false};
    auto floods = std::vector<std::jthread>{};
    auto count = std::atomic<std::size_t>{0};
    const auto targets = doors(ranks);
    floods.emplace_back([&] {
        auto held = std::vector<Stranger>{};
        while (!stopping)
            for (const auto& door : targets) {
                held.emplace_back(door);
                held.back().say(noise(count % 40));
                if (count++ % 3 == 0) held.back().reset();
                if (held.size() > 200) held.erase(held.begin(), held.begin() + 100);
            }
    });
    floods.emplace_back([&] {
        auto held = std::vector<Stranger>{};
        for (const auto& door : targets) held.emplace_back(door);
        while (!stopping) {
            for (const auto& each : held) each.say("x");
            std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the pace of the dribble
        }
    });
    EXPECT_TRUE(eventually([&] { return count > 100; }));
    expect_well();
    stopping = true;
    floods.clear();
}

TEST(GlooStore, AFolderThatIsExchangedInTheMiddleOfTheStartIsNotBelieved) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can make what another user would";
    const auto folder = support::Folder();
    chmod(folder.path().c_str(), 0777);
    const auto store = folder.path() + "/store";
    const auto options =
        Job::Options{.command = RANKMESH_GLOO_PROGRAM " timeout", .size = 2, .come = 1, .store = store};
    auto first = Job(options);
    const auto claim = store + "/a%032job/claim.0";
    ASSERT_TRUE(eventually([&] { return std::filesystem::exists(claim); }));
    // Who can write the folder above can move this one away, but makes none that belongs to this user.
    std::filesystem::rename(store, store + ".old");
    std::filesystem::create_directory(store);
    ASSERT_EQ(chown(store.c_str(), 12345, 12345), 0);
    auto other = options;
    other.first = 1;
    support::expect_says(Job(other).end(), 0, "main caught: the store '" + store + "' belongs to user 12345");
    std::filesystem::remove(store);
    // Nor does a link to a folder of this user's own pass.
    std::filesystem::create_directory_symlink(store + ".old", store);
    support::expect_says(Job(other).end(), 0, "main caught: the store '" + store + "' is no folder");
    support::expect_says(
        first.end(), 0,
        "main caught: the timeout of 1 s expired in the start of the world on rank 0: arrived rank 0, "
        "missing rank 1");
}

TEST(GlooStore, AFolderThatEverybodyWritesIsRefusedThoughItIsSticky) {
    if (geteuid() != 0) GTEST_SKIP() << "/tmp belongs to root, so others are refused for that";
    support::expect_says(
        Job({.command = RANKMESH_GLOO_PROGRAM " timeout", .size = 2, .come = 1, .store = "/tmp"}).end(), 0,
        "main caught: the store '/tmp' can be written by others (mode 1777)");
}

TEST(GlooConnector, WhoListensButDoesNotKnowTheAnswerIsNotTakenForTheMember) {
    auto listener = support::Listener();
    auto endpoint = rankmesh::detail::Endpoint{};
    std::memcpy(&endpoint.address, &listener.address(), sizeof listener.address());
    endpoint.password.fill('p');
    endpoint.answer.fill('a');
    auto connector = rankmesh::detail::Connector(endpoint);
    const auto goes_on_until = [&](auto&& condition) {
        return eventually([&] {
            EXPECT_FALSE(connector.advance());
            return condition();
        });
    };
    // Who hangs up is called again, and nobody is believed who says less than the whole answer.
    EXPECT_TRUE(goes_on_until([&] { return listener.is_called(); }));
    listener.accept().reset();
    EXPECT_TRUE(goes_on_until([&] { return !connector.trouble().empty(); }));
    EXPECT_EQ(connector.trouble(), "no answer: Connection reset by peer");
    EXPECT_TRUE(goes_on_until([&] { return listener.is_called(); }));
    const auto stranger = listener.accept();
    EXPECT_TRUE(goes_on_until([&] { return stranger.is_heard(); }));
    EXPECT_EQ(stranger.hear(16), std::string(16, 'p'));
    stranger.say(std::string(15, 'a'));
    EXPECT_FALSE(connector.advance());
    stranger.say("b");
    EXPECT_THROW(static_cast<void>(goes_on_until([] { return false; })), rankmesh::EngineFailure);
}

namespace {

/// Lets connectors advance until each is connected or refused; says which was what.
std::vector<std::string> advanced(std::vector<std::unique_ptr<rankmesh::detail::Connector>>& connectors) {
    auto said = std::vector<std::string>(connectors.size());
    EXPECT_TRUE(eventually([&] {
        for (std::size_t i = 0; i < said.size(); ++i) {
            if (!said[i].empty()) continue;
            try {
                if (connectors[i]->advance()) said[i] = "connected";
            } catch (const rankmesh::EngineFailure& error) {
                said[i] = error.what();
            }
        }
        return std::ranges::count(said, "") == 0;
    }));
    return said;
}

sockaddr_in address_of(const rankmesh::detail::Listener::Peer& peer) {
    auto address = sockaddr_in{};
    std::memcpy(&address, &peer.endpoint().address, sizeof address);
    return address;
}
std::string password_of(const rankmesh::detail::Listener::Peer& peer) {
    const auto& password = peer.endpoint().password;
    return {password.begin(), password.end()};
}
auto from_now(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

}  // namespace

// One descriptor that is left is enough for a peer that says its password late.
TEST(GlooListener, TakesAPeerWithTheLastDescriptor) {
    const auto network = std::make_shared<rankmesh::detail::Network>("127.0.0.1");
    auto peer = rankmesh::detail::Listener::Peer(rankmesh::detail::Network::listener_of(network));
    auto taken = support::TakenDescriptors(2);
    const auto caller = Stranger(address_of(peer));
    EXPECT_FALSE(peer.wait_until(from_now(std::chrono::milliseconds(20))));
    caller.say(password_of(peer));
    EXPECT_TRUE(peer.wait_until(from_now(std::chrono::seconds(10))));
    EXPECT_EQ(peer.shortage({}), 0);
}

// Where none is left the caller waits, and is accepted once there is one.
TEST(GlooListener, SaysThatItHasNoDescriptorForWhoCalls) {
    const auto network = std::make_shared<rankmesh::detail::Network>("127.0.0.1");
    auto peer = rankmesh::detail::Listener::Peer(rankmesh::detail::Network::listener_of(network));
    auto taken = support::TakenDescriptors(1);
    EXPECT_EQ(peer.shortage({}), 0);
    const auto caller = Stranger(address_of(peer));
    caller.say(password_of(peer));
    for (int tries = 0; peer.shortage({}) == 0 && tries < 1000; ++tries)
        EXPECT_FALSE(peer.wait_until(from_now(std::chrono::milliseconds(10))));
    EXPECT_EQ(peer.shortage({}), EMFILE);
    EXPECT_EQ(peer.shortage(std::chrono::hours(1)), 0);
    taken.give_back(1);
    for (int tries = 0; !peer.wait_until(from_now(std::chrono::milliseconds(10))) && tries < 1000; ++tries) {
    }
    EXPECT_TRUE(peer.wait_until(from_now({})));
    EXPECT_EQ(peer.shortage({}), 0);
}

// Every peer gets the socket of the connector that has its password, in whatever order they come, at one
// port.
TEST(GlooListener, TellsPeersApartByTheirPasswords) {
    const auto network = std::make_shared<rankmesh::detail::Network>("127.0.0.1");
    auto listener = rankmesh::detail::Network::listener_of(network);
    EXPECT_EQ(rankmesh::detail::Network::listener_of(network), listener);
    auto peers = std::list<rankmesh::detail::Listener::Peer>{};
    for (int i = 0; i < 40; ++i) peers.emplace_back(listener);
    EXPECT_EQ(listening(getpid()).size(), 1U);
    auto order = std::vector<const rankmesh::detail::Listener::Peer*>{};
    for (const auto& each : peers) order.push_back(&each);
    std::ranges::shuffle(order, std::mt19937(7));
    auto connectors = std::vector<std::unique_ptr<rankmesh::detail::Connector>>{};
    for (const auto* peer : order) {
        const auto endpoint = rankmesh::detail::Endpoint::from(peer->endpoint().bytes());
        connectors.push_back(std::make_unique<rankmesh::detail::Connector>(endpoint));
    }
    EXPECT_EQ(advanced(connectors), std::vector<std::string>(order.size(), "connected"));
    auto number = 0;
    for (auto& peer : peers) {
        ASSERT_TRUE(peer.wait_until(std::chrono::steady_clock::now() + std::chrono::seconds(10)));
        const auto accepted = Stranger(peer.take());
        const auto connected = Stranger(
            connectors[static_cast<std::size_t>(std::ranges::find(order, &peer) - order.begin())]->take());
        connected.say(std::to_string(++number + 10));
        EXPECT_EQ(accepted.hear(2), std::to_string(number + 10));
    }
}

// A password is good for one connection, and for as long as its peer is waited for; who has another one,
// equal in its first half, is none of them.
TEST(GlooListener, RefusesAtOnceWhoIsNotWaitedFor) {
    const auto network = std::make_shared<rankmesh::detail::Network>("127.0.0.1");
    auto listener = rankmesh::detail::Network::listener_of(network);
    auto peer = rankmesh::detail::Listener::Peer(listener);
    const auto gone = rankmesh::detail::Listener::Peer(listener).endpoint();
    auto alike = peer.endpoint();
    alike.password.back() = static_cast<char>(alike.password.back() + 1);
    const auto refused = std::string("it does not wait for a connection of this rank any more");
    auto connectors = std::vector<std::unique_ptr<rankmesh::detail::Connector>>{};
    for (const auto& each : {gone, alike, peer.endpoint()})
        connectors.push_back(std::make_unique<rankmesh::detail::Connector>(each));
    EXPECT_EQ(advanced(connectors), (std::vector{refused, refused, std::string("connected")}));
    EXPECT_TRUE(peer.wait_until(std::chrono::steady_clock::now()));
    connectors.clear();
    connectors.push_back(std::make_unique<rankmesh::detail::Connector>(peer.endpoint()));
    EXPECT_EQ(advanced(connectors), (std::vector{refused}));
}

// A process that stops waiting gives its port back, though strangers are connected there.
TEST(GlooListener, EndsWithWhomItWaitsFor) {
    const auto network = std::make_shared<rankmesh::detail::Network>("127.0.0.1");
    auto peer =
        std::make_optional<rankmesh::detail::Listener::Peer>(rankmesh::detail::Network::listener_of(network));
    const auto address = address_of(*peer);
    const auto stranger = Stranger(address);
    stranger.say("half");
    EXPECT_FALSE(peer->wait_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(20)));
    peer.reset();
    EXPECT_EQ(listening(getpid()).size(), 0U);
    EXPECT_EQ(stranger.hear(1), "");
    EXPECT_FALSE(Stranger(address).is_connected());
}
