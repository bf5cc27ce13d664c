// SPDX-License-Identifier: Apache-2.0
// The store that rank 0 serves: what every store does, who is let in, and what is said when something fails.
// Ranks are threads here.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <latch>
#include <optional>
#include <thread>

#include <rankmesh/core/error.hpp>

#include "engine/hosts/sockets.hpp"
#include "engine/membership/rendezvous.hpp"
#include "engine/membership/rendezvous_config.hpp"
#include "engine/store/secret.hpp"
#include "engine/store/stores.hpp"
#include "engine/store/tcp_listener.hpp"
#include "engine/store/tcp_protocol.hpp"
#include "engine/store/tcp_server.hpp"
#include "support/eventually.hpp"
#include "support/ports.hpp"
#include "support/processes.hpp"
#include "support/sockets.hpp"
#include "support/store_law.hpp"
#include "support/taken_descriptors.hpp"
#include "support/text_of.hpp"
#include "support/variables.hpp"

namespace rankmesh::detail {
namespace {

using namespace tcp_protocol;
using support::eventually;
using Clock = std::chrono::steady_clock;
using Texts = std::vector<std::optional<std::string>>;
using support::soon;

Clock::time_point in(int milliseconds) { return Clock::now() + std::chrono::milliseconds(milliseconds); }

/// The URL of ports of this host that are free now.
TcpUrl free_url(int ports = 1) {
    const auto port = support::free_ports(ports);
    return {.host = "127.0.0.1", .first_port = port, .last_port = port + ports - 1};
}

sockaddr_in address_of(int port) {
    auto address = support::Listener().address();
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    return address;
}

std::string hex(const std::string& bytes) {
    auto text = std::string{};
    for (auto c : bytes)
        for (auto digit : {static_cast<unsigned char>(c) >> 4, c & 15}) text += "0123456789abcdef"[digit];
    return text;
}

std::size_t open_descriptors() {
    const auto all = std::filesystem::directory_iterator("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// Who has connected shows the store that it is rank 1 of a job without a secret.
void prove_to_be_of(const std::string& job, std::uint32_t size, const support::Stranger& rank) {
    auto greeting = std::string{};
    while (greeting.size() < Greeting::size_of(greeting))
        greeting += rank.hear(Greeting::size_of(greeting) - greeting.size());
    auto hello = Hello{.rank = 1, .size = size, .nonce = std::string(nonce_size, 'n'), .proof = {}};
    hello.proof = proof_of("job " + job, "rank", job, Greeting::from(greeting).server_nonce, hello);
    rank.say(hello.bytes());
    const auto length = std::size_t{Unpacker(rank.hear(4)).number()};
    EXPECT_GT(length, 1 + proof_size) << "let in";
    EXPECT_EQ(rank.hear(length).size(), length);
}

/// A connection of that rank, which the store has let in.
support::Stranger let_in(const TcpUrl& url, const std::string& job, std::uint32_t size) {
    auto rank = support::Stranger(address_of(url.first_port));
    prove_to_be_of(job, size, rank);
    return rank;
}

/// Texts by which a rank that is let in could ruin the others' store.
std::vector<std::string> malformed_requests() {
    const auto framed = [](const std::string& request) {
        auto text = std::string{};
        add(text, std::string_view(request));
        return text;
    };
    auto long_list = std::string("\0\0\0\1\2\0\0\0\0", 9);
    add(long_list, std::uint32_t{0xffffffffU});
    return {framed(""),
            framed("x"),
            framed(std::string("\0\0\0\1\7", 5)),
            framed(long_list),
            framed(std::string("\0\0\0\1\1\xff\xff\xff\xff", 9)),
            std::string("\xff\xff\xff\xff")};
}

}  // namespace

TEST(Sha256, IsThatOfTheStandard) {
    EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(hex(sha256(std::string(1'000'000, 'a'))),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    EXPECT_EQ(hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    EXPECT_EQ(
        hex(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(TcpUrl, IsAHostAndAPortOrSomePorts) {
    EXPECT_EQ(TcpUrl::parse("tcp://head:29511").text(), "tcp://head:29511");
    EXPECT_EQ(TcpUrl::parse("tcp://head:29511/").text(), "tcp://head:29511");
    EXPECT_EQ(TcpUrl::parse("tcp://[::1]:1-8").text(), "tcp://[::1]:1-8");
    EXPECT_EQ(TcpUrl::parse("tcp://[::1]:1-8").host, "::1");
    EXPECT_EQ(TcpUrl::beside("head", 29500).text(), "tcp://head:29511-29518");
    EXPECT_EQ(TcpUrl::beside("::1", 65517).text(), "tcp://[::1]:65528-65535");
    EXPECT_EQ(TcpUrl::beside("head", 65518).text(), "tcp://head:65500-65507");
    for (int port = 1; port <= 65535; ++port) {
        const auto url = TcpUrl::beside("head", port);
        ASSERT_TRUE(url.last_port < port || url.first_port > port) << port;
        ASSERT_TRUE(url.first_port >= 1 && url.last_port <= 65535) << port;
    }
    const auto form = std::string(
        "; write tcp://HOST:PORT with a port of rank 0's host that is free, such as tcp://10.0.0.1:29511");
    const auto refused = [](const std::string& url) { return text_of([&] { TcpUrl::parse(url); }); };
    EXPECT_EQ(refused("tcp:head:1"), "the store 'tcp:head:1' is no URL" + form);
    EXPECT_EQ(refused("tcp://head"), "the store 'tcp://head' names no port" + form);
    EXPECT_EQ(refused("tcp://:1"), "the store 'tcp://:1' names no host" + form);
    EXPECT_EQ(refused("tcp://head:0"),
              "the store 'tcp://head:0' has the port '0', which is no whole number of 1 to 65535" + form);
    EXPECT_EQ(refused("tcp://head:9-8"),
              "the store 'tcp://head:9-8' has the last port '8', which is no whole number of 9 to 72" + form);
    EXPECT_EQ(refused("tcp://head:1/0"),
              "the store 'tcp://head:1/0' says more than a host and a port" + form);
    EXPECT_EQ(refused("tcp://me:secret@head:1").find("secret@"), std::string::npos);
}

TEST(TcpUrl, OfASecondHost_NamesTheStoresThatOutliveRank0) {
    for (const std::string url :
         {"tcp://a:1,b:1", "tcp://[::1]:1-8,[::2]:1", "tcp://a:1,", "tcp://a:1,b:2,c:3"})
        EXPECT_EQ(text_of<UsageError>([&] { TcpUrl::parse(url); }),
                  "the store '" + url +
                      "' names more than one host, and rank 0 serves it at one; to outlive rank 0, set "
                      "RANKMESH_STORE to a folder that all ranks see, or to redis://HOST:PORT");
    EXPECT_EQ(text_of([] { TcpUrl::parse("tcp://a:1,me:secret@b:1"); }).find("secret@"), std::string::npos);
}

TEST(TcpStore, KeepsEntriesAsAFolderDoes) {
    const auto folder = support::Folder();
    const auto files = file_store(folder.path() + "/store", "a job");
    support::expect_to_keep_entries(*files);
    const auto url = free_url();
    const auto store = tcp_store(url, "a job", 0, 1);
    support::expect_to_keep_entries(*store);
    EXPECT_EQ(store->text(), "the store '" + url.text() + "'");
    EXPECT_EQ(store->job(), "a job");
}

TEST(TcpStore, Wait_EndsByAllEntriesOrTheLastOrItsTime) {
    const auto url = free_url();
    const auto host = tcp_store(url, "a job", 0, 2);
    const auto other = tcp_store(url, "a job", 1, 2);
    ASSERT_TRUE(host->set("a", "1", soon()));
    EXPECT_EQ(other->wait({"a", "failed"}, soon(), soon()), (Texts{"1", std::nullopt}));
    for (auto turn = 0; turn < 20; ++turn) {  // either may be first
        const auto b = cat("b.", turn), c = cat("c.", turn), failed = cat("failed.", turn);
        auto begun = std::latch(1);
        auto later = std::jthread([&] {
            begun.wait();
            host->set(b, "2", soon());
            host->set(c, "3", soon());
        });
        begun.count_down();
        EXPECT_EQ(other->wait({"a", b, c, b, failed}, soon(), soon()),
                  (Texts{"1", "2", "3", "2", std::nullopt}));
        later.join();
        auto fails = std::latch(1);
        auto failing = std::jthread([&] {
            fails.wait();
            host->set(failed, "why", soon());
        });
        fails.count_down();
        EXPECT_EQ(other->wait({"d", failed}, soon(), soon()), (Texts{std::nullopt, "why"}));
    }
    const auto begin = Clock::now();
    EXPECT_EQ(other->wait({"d", "failed"}, in(200), soon()), (Texts{std::nullopt, std::nullopt}));
    EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(200));
}

TEST(TcpStore, Threads_OfARank_AskWhileOneWaits) {
    const auto url = free_url();
    const auto store = tcp_store(url, "a job", 0, 1);
    ASSERT_TRUE(store->set("a", "", soon()));
    auto threads = std::vector<std::jthread>{};
    for (int i = 0; i < 8; ++i)
        threads.emplace_back([&, i] {
            const auto own = "wanted." + std::to_string(i);
            EXPECT_EQ(store->wait({own, "failed"}, soon(), soon()).front(), own);
        });
    for (int i = 7; i >= 0; --i) {
        const auto name = "wanted." + std::to_string(i);
        EXPECT_TRUE(store->set(name, name, soon()));
        EXPECT_EQ(store->get({name}, soon()).front(), name);
    }
}

TEST(TcpStore, Ranks_BeforeAndAfterTheServer_Connect) {
    for (auto turn = 0; turn < 5; ++turn) {
        const auto url = free_url();
        auto comes = std::latch(1);
        auto early = std::jthread([&] {
            comes.count_down();
            EXPECT_TRUE(tcp_store(url, "a job", 1, 3)->set("early", "", soon()));
        });
        comes.wait();
        const auto host = tcp_store(url, "a job", 0, 3);
        EXPECT_EQ(host->wait({"early", "failed"}, soon(), soon()).front(), "");
        EXPECT_TRUE(tcp_store(url, "a job", 2, 3)->set("late", "", soon()));
    }
}

TEST(TcpStore, Server_WhenTheLastRankGoes_FreesItsPort) {
    const auto url = free_url();
    const auto before = open_descriptors();
    auto host = tcp_store(url, "a job", 0, 2);
    auto other = tcp_store(url, "a job", 1, 2);
    ASSERT_TRUE(host->set("a", "text", soon()));
    ASSERT_TRUE(other->set("b", "", soon()));
    host.reset();
    EXPECT_EQ(other->get({"a"}, soon()), Texts{"text"});
    other.reset();
    EXPECT_TRUE(eventually([&] { return !support::Stranger(address_of(url.first_port)).is_connected(); }));
    const auto again = tcp_store(url, "a job", 0, 1);
    EXPECT_EQ(again->get({"a"}, soon()), Texts{std::nullopt}) << "entries end with their job";
    EXPECT_LE(open_descriptors(), before + 5) << "of the first job none is open";
}

TEST(TcpStore, Rank_WhenRank0NeverComes_ThrowsTimeout) {
    for (const auto* host : {"127.0.0.1", "localhost"}) {
        auto url = free_url();
        url.host = host;
        const auto begin = Clock::now();
        try {
            tcp_store(url, "a job", 3, 4)->set("a", "", in(300));
            FAIL();
        } catch (const Timeout& error) {
            EXPECT_EQ(error.missing, std::vector{0});
            const auto text = std::string(error.what());
            EXPECT_TRUE(text.starts_with("the timeout expired: rank 3 has not found the store '" +
                                         url.text() + "' of the job 'a job' for "))
                << text;
            EXPECT_TRUE(text.ends_with(
                cat(" ms: port ", url.ports(),
                    " cannot be reached (Connection refused); rank 0 serves it: see that rank 0 has "
                    "started, and that '",
                    host, "' is its host")))
                << text;
        }
        EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(300));
        EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
    }
}

TEST(TcpStore, Rank_WhenAnotherServiceListens_ThrowsTimeout) {
    const auto listener = support::Listener();
    const auto port = ntohs(listener.address().sin_port);
    const auto url = TcpUrl{.host = "127.0.0.1", .first_port = port, .last_port = port};
    const auto set = [&] { tcp_store(url, "a job", 1, 2)->set("a", "", in(300)); };
    auto text = text_of<Timeout>(set);
    EXPECT_NE(text.find("port " + url.ports() + " is taken by something that says nothing; "), text.npos)
        << text;
    auto web = std::thread([&] {
        for (;;) {
            const auto peer = listener.accept();
            if (!peer.is_connected()) return;
            peer.say("HTTP/1.1 400 Bad Request\r\n\r\n");
            if (peer.hear(1) == "!") return;
        }
    });
    text = text_of<Timeout>(set);
    EXPECT_NE(text.find("port " + url.ports() + " is taken by something that is no store of rankmesh"),
              text.npos)
        << text;
    {
        auto last = support::Stranger(listener.address());
        last.say("!");
        last.hear(1000);
    }
    web.join();
}

TEST(TcpStore, Rank_WhenAnotherJobHasThePort_SaysSo) {
    const auto url = free_url();
    const auto first = tcp_store(url, "first", 0, 2);
    auto text = text_of([&] { tcp_store(url, "second", 0, 2); });
    EXPECT_TRUE(text.starts_with("rank 0 cannot serve the store '" + url.text() + "': port " + url.ports() +
                                 " is taken by the store of another job; "))
        << text;
    EXPECT_NE(text.find("; name a free port of its host, such as RANKMESH_STORE=tcp://"), text.npos) << text;
    EXPECT_EQ(text_of([&] { tcp_store(url, "first", 0, 2); }), "") << "another world of this process";
    text = text_of([&] { tcp_store(url, "first", 0, 3); });
    EXPECT_TRUE(text.starts_with("the job 'first' is served at port " + url.ports() + " already: ")) << text;
    text = text_of([&] { tcp_store(url, "second", 1, 2)->set("a", "", soon()); });
    EXPECT_TRUE(text.starts_with("rank 1 of the job 'second' does not find its store: port " + url.ports() +
                                 " is taken by the store of another job of '127.0.0.1'; "))
        << text;
    EXPECT_NE(text.find("; give every job a port of its own, and all its ranks the same job id"), text.npos)
        << text;
}

TEST(TcpStore, Jobs_WithTheSamePorts_TakeOneEach) {
    const auto url = free_url(4);
    const auto silent = support::Listener();  // what else a port may be taken by
    auto jobs = std::vector<std::unique_ptr<Store>>{};
    for (const auto* job : {"a", "b", "c"}) jobs.push_back(tcp_store(url, job, 0, 2));
    for (const auto* job : {"c", "a", "b"}) {
        const auto store = tcp_store(url, job, 1, 2);
        EXPECT_TRUE(store->set("who", job, soon()));
    }
    for (std::size_t i = 0; i < jobs.size(); ++i)
        EXPECT_EQ(jobs[i]->get({"who"}, soon()), Texts{std::string(1, "abc"[i])});
}

TEST(TcpStore, Server_WhenOthersReachItWithoutASecret_Warns) {
    // What listens at 127.0.0.1 alone is not reached at 127.0.0.2, what listens at all interfaces is.
    const auto reached = [](const std::string& host, std::string* said) {
        auto url = free_url();
        url.host = host;
        testing::internal::CaptureStderr();
        const auto store = tcp_store(url, "a job", 0, 2);
        *said = testing::internal::GetCapturedStderr();
        EXPECT_TRUE(store->set("a", "", soon()));
        const auto there = TcpGreeting::at("127.0.0.2", url.first_port, soon());
        if (there.socket >= 0) close(there.socket);
        return there.is_store();
    };
    auto said = std::string{};
    for (const auto* host : {"localhost", "127.0.0.1"}) {
        EXPECT_FALSE(reached(host, &said)) << host;
        EXPECT_EQ(said, "");
    }
    auto name = std::array<char, 256>{};
    gethostname(name.data(), name.size() - 1);
    auto unknown = std::vector<std::string>{"0.0.0.0", "rank-0.service.invalid", "192.0.2.1"};
    try {  // Debian gives a host's own name to 127.0.1.1
        if (host_addresses(name.data(), soon()).front().starts_with("127."))
            unknown.emplace_back(name.data());
    } catch (const std::exception&) {
    }
    for (const auto& host : unknown) {
        EXPECT_TRUE(reached(host, &said)) << host;
        EXPECT_TRUE(said.starts_with("rankmesh: rank 0 serves a store at port ")) << said;
        EXPECT_TRUE(
            said.ends_with(", without a secret; set RANKMESH_SECRET to the same random text on all ranks\n"))
            << said;
        EXPECT_EQ(std::ranges::count(said, '\n'), 1);
        const auto secret = support::Variables{{"RANKMESH_SECRET", "open sesame"}};
        EXPECT_TRUE(reached(host, &said)) << host;
        EXPECT_EQ(said, "");
    }
}

TEST(TcpStore, Secret_WhenEmpty_IsRefused) {
    for (const auto* name : {"RANKMESH_SECRET", "RANKMESH_SECRET_FILE"}) {
        const auto empty = support::Variables{{name, ""}};
        for (auto rank : {0, 1})
            EXPECT_EQ(text_of([&] { tcp_store(free_url(), "a job", rank, 2)->set("a", "", soon()); }),
                      cat(name, " is set and empty; give it the secret, or unset it"));
    }
}

TEST(TcpStore, Rank_WithAnotherSecretOrSize_IsRefused) {
    const auto url = free_url();
    auto host = std::unique_ptr<Store>();
    {
        const auto secret = support::Variables{{"RANKMESH_SECRET", "open sesame"}};
        host = tcp_store(url, "a job", 0, 2);
        EXPECT_TRUE(tcp_store(url, "a job", 1, 2)->set("a", "", soon()));
        const auto text = text_of([&] { tcp_store(url, "a job", 3, 4)->set("b", "", soon()); });
        EXPECT_NE(
            text.find(" serves a job of 2 ranks, and this is rank 3 of 4; give all ranks of a job the same"),
            text.npos)
            << text;
    }
    const auto set = [&] { tcp_store(url, "a job", 1, 2)->set("c", "", soon()); };
    EXPECT_NE(text_of(set).find(" has another RANKMESH_SECRET than this rank; give all ranks"),
              std::string::npos);
    const auto folder = support::Folder();
    std::ofstream(folder.path() + "/secret") << "open sesame\n";
    const auto file = support::Variables{{"RANKMESH_SECRET_FILE", folder.path() + "/secret"}};
    EXPECT_NE(text_of(set).find("(RANKMESH_SECRET_FILE) can be read or written by others"),
              std::string::npos);
    std::filesystem::permissions(folder.path() + "/secret", std::filesystem::perms::owner_read);
    EXPECT_EQ(text_of(set), "");
}

TEST(TcpStore, Hello_HidesJobAndSecret_AndIsValidOnce) {
    const auto listener = support::Listener();
    const auto port = ntohs(listener.address().sin_port);
    const auto secret = support::Variables{{"RANKMESH_SECRET", "open sesame"}};
    auto hello = std::string{};
    auto server = std::thread([&] {
        const auto peer = listener.accept();
        const auto chosen = std::string(nonce_size, 'n');
        peer.say(Greeting{.server_nonce = chosen, .tag = tag_of("a random id", chosen)}.bytes());
        hello = peer.hear(hello_size);
        auto answer = std::string{};
        add(answer, static_cast<std::uint32_t>(1 + proof_size));
        peer.say(answer + '\0' + std::string(proof_size, 'x'));
        peer.hear(1);
    });
    const auto url = TcpUrl{.host = "127.0.0.1", .first_port = port, .last_port = port};
    const auto text = text_of([&] { tcp_store(url, "a random id", 1, 2)->set("a", "", soon()); });
    server.join();
    EXPECT_EQ(text,
              "what answers at the store '" + url.text() +
                  "' does not know the secret of the job 'a random id'; see who listens there, and that all "
                  "ranks have the same RANKMESH_SECRET");
    EXPECT_EQ(hello.size(), hello_size);
    EXPECT_EQ(hello.find("random"), hello.npos);
    EXPECT_EQ(hello.find("sesame"), hello.npos);

    // What a rank has said to one server it has not said to another.
    const auto own = free_url();
    const auto host = tcp_store(own, "a random id", 0, 2);
    const auto replayed = support::Stranger(address_of(own.first_port));
    replayed.say(hello);
    const auto heard = replayed.hear(2000);
    EXPECT_NE(heard.find("has another RANKMESH_SECRET"), heard.npos);
}

TEST(TcpStore, Ranks_AmongManyStrangers_Connect) {
    const auto url = free_url();
    const auto server = TcpServer::start({.url = url, .job = "a job", .key = "job a job", .size = 8},
                                         {.strangers = 32, .patience = std::chrono::milliseconds(500)});
    const auto address = address_of(url.first_port);
    const auto before = open_descriptors();
    auto over = std::atomic<bool>(false);
    auto made = std::atomic<int>(0);
    auto flood = std::vector<std::jthread>{};
    const auto what = std::vector<std::function<void(support::Stranger&)>>{
        [](auto&) {}, [](auto& each) { each.say(std::string(100'000, '\xff')); },
        [](auto& each) { each.say("GET / HTTP/1.1\r\n\r\n"); }, [](auto& each) { each.reset(); },
        [](auto& each) { each.say("x"); }};
    for (const auto& act : what)
        flood.emplace_back([&, act] {
            auto kept = std::deque<support::Stranger>{};
            while (!over) {
                kept.emplace_back(address);
                act(kept.back());
                ++made;
                if (kept.size() > 20) kept.pop_front();
                std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the pace of the flood
            }
        });
    ASSERT_TRUE(eventually([&] { return made > 100; }));
    {
        auto ranks = std::vector<std::jthread>{};
        for (int rank = 1; rank < 8; ++rank)
            ranks.emplace_back([&, rank] {
                for (int turn = 0; turn < 5; ++turn) {
                    const auto store = tcp_store(url, "a job", rank, 8);
                    EXPECT_TRUE(store->set(cat("from ", rank, " ", turn), "", soon()));
                }
            });
    }
    over = true;
    flood.clear();
    EXPECT_TRUE(eventually([&] { return open_descriptors() <= before; })) << "strangers go after a while";
    server->release();
    EXPECT_TRUE(eventually([&] { return server->has_ended(); }));
}

// Linux says that there is none also where nobody has called, which is no reason to throw anybody out.
TEST(TcpStore, Rank_WithTheLastDescriptor_Connects) {
    const auto url = free_url();
    const auto server = TcpServer::start({.url = url, .job = "a job", .key = "job a job", .size = 2});
    const auto serving = open_descriptors();
    let_in(url, "a job", 2);  // a sanitizer opens a pipe for each type that it has not seen before
    EXPECT_TRUE(eventually([&] { return open_descriptors() <= serving; }));
    {
        const auto taken = support::TakenDescriptors(2);
        const auto rank = support::Stranger(address_of(url.first_port));
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the law is about such a rank
        prove_to_be_of("a job", 2, rank);
    }
    server->release();
    EXPECT_TRUE(eventually([&] { return server->has_ended(); }));
}

TEST(TcpStore, Rank_WithAMalformedRequest_LosesItsConnectionAlone) {
    const auto url = free_url();
    const auto host = tcp_store(url, "a job", 0, 4);
    ASSERT_TRUE(host->set("a", "text", soon()));
    for (const auto& request : malformed_requests()) {
        const auto stranger = let_in(url, "a job", 4);
        stranger.say(request);
        EXPECT_EQ(stranger.hear(1), "") << hex(request) << ": closed";
        EXPECT_EQ(host->get({"a"}, soon()), Texts{"text"});
    }
}

TEST(TcpStore, Rank_ThatReadsLate_IsAnswered) {
    const auto url = free_url();
    const auto host = tcp_store(url, "a job", 0, 2);
    const auto entry = std::string(2000, 'x');
    ASSERT_TRUE(host->set("long", entry, soon()));
    const auto rank = let_in(url, "a job", 2);
    constexpr auto requests = std::uint32_t{40};
    const auto names = std::vector<std::string>(200, "long");
    for (std::uint32_t id = 1; id <= requests; ++id)
        rank.say(tcp_protocol::Request{.id = id, .operation = tcp_protocol::Operation::get, .names = names}
                     .bytes());
    EXPECT_EQ(host->get({"long"}, soon()), Texts{entry}) << "others are answered meanwhile";
    for (std::uint32_t id = 1; id <= requests; ++id) {
        const auto length = rank.hear(4);
        ASSERT_EQ(length.size(), 4U) << id;
        const auto answer = rank.hear(Unpacker(length).number());
        auto reader = Unpacker(answer);
        ASSERT_EQ(reader.number(), id);
        ASSERT_EQ(reader.part(1).front(), '\0');
        ASSERT_EQ(entries_in(reader.rest(), names.size()), Texts(names.size(), entry));
    }
}

TEST(TcpStore, Server_WhenFull_SaysSo) {
    const auto url = free_url();
    const auto server =
        TcpServer::start({.url = url, .job = "a job", .key = "job a job", .size = 2}, {.bytes = 500});
    {
        const auto store = tcp_store(url, "a job", 1, 2);
        auto text = text_of<EngineFailure>([&] { store->set("long", std::string(300, 'x'), soon()); });
        EXPECT_EQ(text,
                  "the store '" + url.text() +
                      "' is full: its 0 entries and requests take 317 bytes of 500, those of this rank 317 "
                      "of 67109376");
        for (const auto* name : {"a", "b", "c"}) EXPECT_TRUE(store->set(name, "", soon()));
        text = text_of<EngineFailure>([&] { store->set("d", "", soon()); });
        EXPECT_NE(text.find("is full: its 3 entries and requests "), text.npos) << text;
        store->remove({"a"}, soon());
        EXPECT_TRUE(store->set("d", "", soon()));
        EXPECT_NE(text_of<EngineFailure>([&] {
                      store->set("e", std::string(200'000, 'x'), soon());
                  }).find("', which rank 0 serves, is gone ("),
                  text.npos);
        const auto next = tcp_store(url, "a job", 1, 2);
        EXPECT_EQ(next->get({"d", "e"}, soon()), (Texts{"", std::nullopt}));
    }
    server->release();
}

TEST(TcpStore, ARankThatAsksForTooMuch_IsRefusedAlone) {
    const auto url = free_url();
    const auto server = TcpServer::start({.url = url, .job = "a job", .key = "job a job", .size = 2},
                                         {.bytes = 1 << 20, .peer = 20'000});
    {
        const auto greedy = tcp_store(url, "a job", 1, 2);
        const auto store = tcp_store(url, "a job", 1, 2);
        auto names = std::vector<std::string>(1000, std::string(30, 'n'));
        const auto refused = [&](const auto& ask) {
            const auto text = text_of<EngineFailure>(ask);
            EXPECT_NE(text.find("those of this rank "), text.npos) << text;
        };
        refused([&] { greedy->wait(names, soon(), soon()); });
        refused([&] { greedy->set("long", std::string(15'000, 'x'), soon()); });
        for (auto turn = 0; turn < 3; ++turn) {  // what is removed, or no longer waits, is not counted
            EXPECT_TRUE(greedy->set("half", std::string(9'000, 'x'), soon()));
            EXPECT_EQ(greedy->wait(std::vector<std::string>(100, "never"), Clock::now(), soon()).size(),
                      100U);
            greedy->remove({"half"}, soon());
        }
        for (auto turn = 0; turn < 3; ++turn)
            EXPECT_TRUE(store->set("others " + std::to_string(turn), std::string(5'000, 'x'), soon()));
        EXPECT_EQ(greedy->get({"others 2"}, soon()).front(), std::string(5'000, 'x'));
    }
    server->release();
}

TEST(TcpStore, RequestsThatWaitAreCounted_AndThoseThatFitGoOn) {
    const auto url = free_url();
    const auto server = TcpServer::start({.url = url, .job = "a job", .key = "job a job", .size = 2},
                                         {.bytes = 1 << 20, .peer = 20'000});
    {
        const auto greedy = tcp_store(url, "a job", 1, 2);
        const auto store = tcp_store(url, "a job", 1, 2);
        auto names =
            std::vector<std::string>(100, "n");  // they take 5 kB in the store, and 0.5 kB on their way
        names.emplace_back("done");
        auto refused = std::atomic<int>{0};
        auto answered = std::atomic<int>{0};
        {
            auto waiting = std::vector<std::jthread>{};
            for (auto i = 0; i < 10; ++i)
                waiting.emplace_back([&] {
                    try {
                        const auto found = greedy->wait(names, soon(), soon());
                        answered += found.back() == "text";
                    } catch (const Error& error) {
                        refused += std::string_view(error.what()).find("those of this rank ") !=
                                   std::string_view::npos;
                    }
                });
            EXPECT_TRUE(eventually([&] { return refused >= 6; }));
            EXPECT_TRUE(store->set("done", "text", soon()));
        }
        EXPECT_GT(answered, 0);
        EXPECT_EQ(answered + refused, 10);
    }
    server->release();
}

TEST(TcpStore, Ranks_WhenTheServerDies_SayWhoServed) {
    for (auto turn = 0; turn < 5; ++turn) {  // it is killed before the wait, or in it
        const auto url = free_url();
        const auto rank_0 = fork();
        if (rank_0 == 0) {
            const auto host = tcp_store(url, "a job", 0, 2);
            host->set("a", "", soon());
            for (;;) pause();
        }
        const auto store = tcp_store(url, "a job", 1, 2);
        ASSERT_EQ(store->wait({"a", "failed"}, soon(), soon()).front(), "");
        auto begun = std::latch(1);
        auto killer = std::jthread([&] {
            begun.wait();
            kill(rank_0, SIGKILL);
            waitpid(rank_0, nullptr, 0);
        });
        const auto begin = Clock::now();
        begun.count_down();
        const auto text = text_of<EngineFailure>([&] { store->wait({"never", "failed"}, soon(), soon()); });
        EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5)) << "at once, not at the timeout";
        EXPECT_TRUE(text.starts_with("the store '" + url.text() + "', which rank 0 serves, is gone ("))
            << text;
        EXPECT_NE(text.find(cat("): rank 0, process ", rank_0, " on ")), text.npos) << text;
        EXPECT_EQ(text_of<EngineFailure>([&] { store->get({"a"}, soon()); }), text);
    }
}

TEST(TcpStore, Ranks_WhenTheServerStops_NameItsRankInTheirWorld) {
    for (const auto signal : {SIGKILL, SIGSTOP})
        for (const auto in_part : {false, true}) {
            const auto url = free_url();
            const auto rank_0 = fork();
            if (rank_0 == 0) {
                const auto host = tcp_store(url, "a job", 0, 2);
                for (;;) pause();
            }
            auto world = Rendezvous(std::shared_ptr<Store>(tcp_store(url, "a job", 1, 2)), 1, 2,
                                    std::chrono::seconds(1));
            const auto part = world.sub({1, 0});
            kill(rank_0, signal);
            const auto number = in_part ? 1 : 0;
            auto text = std::string{};
            try {
                const auto any = [](const std::string&, const std::string&) { return std::string{}; };
                (in_part ? *part : static_cast<Rendezvous&>(world)).all("a test", "", any);
            } catch (const PeerLost& lost) {
                EXPECT_EQ(signal, SIGKILL);
                EXPECT_EQ(lost.ranks, std::vector{number});
                text = lost.what();
            } catch (const Timeout& timeout) {
                EXPECT_EQ(signal, SIGSTOP);
                EXPECT_EQ(timeout.missing, std::vector{number});
                text = timeout.what();
            }
            EXPECT_NE(text.find(signal == SIGKILL ? "', which rank 0 serves, is gone ("
                                                  : "', which rank 0 serves, has not answered for "),
                      text.npos)
                << text;
            EXPECT_NE(text.find(cat(": rank 0, process ", rank_0, " on ")), text.npos) << text;
            EXPECT_TRUE(text.ends_with(cat("; a test cannot be completed on rank ", in_part ? 0 : 1)))
                << text;
            kill(rank_0, SIGKILL);
            waitpid(rank_0, nullptr, 0);
        }
}

TEST(TcpStore, Rank0_WhenItEnds_WaitsForReaders) {
    const auto url = free_url();
    const auto rank_0 = fork();
    if (rank_0 == 0) {
        {
            const auto host = tcp_store(url, "a job", 0, 2);
            host->wait({"here", "failed"}, soon(), soon());
            host->set("last", "word", soon());
        }
        std::exit(0);
    }
    {
        const auto store = tcp_store(url, "a job", 1, 2);
        ASSERT_TRUE(store->set("here", "", soon()));
        std::this_thread::sleep_for(std::chrono::milliseconds(300));  // in which rank 0 could end too early
        EXPECT_EQ(store->get({"last"}, soon()), Texts{"word"});
    }
    auto status = 0;
    waitpid(rank_0, &status, 0);
    EXPECT_EQ(status, 0);
}

/// A process that serves as rank 0 of two until an entry says that another one is here, and then ends.
pid_t rank_0_until_another_is_here(const TcpUrl& url) {
    const auto rank_0 = fork();
    if (rank_0 == 0) {
        {
            const auto host = tcp_store(url, "a job", 0, 2);
            host->wait({"here", "failed"}, soon(), soon());
        }
        std::exit(0);
    }
    return rank_0;
}

TEST(TcpStore, Rank0_WhenItEnds_IgnoresWaitingCandidates) {
    const auto url = free_url();
    const auto rank_0 = rank_0_until_another_is_here(url);
    const auto spare = tcp_store(url, "a job", 1, 0);
    const auto begin = Clock::now();
    ASSERT_TRUE(spare->set("here", "", soon()));
    EXPECT_THROW(static_cast<void>(eventually([&] {
                     spare->get({"offer"}, soon());
                     return false;
                 })),
                 EngineFailure);
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10)) << "not after the longest time, 30 s";
    auto status = 0;
    waitpid(rank_0, &status, 0);
    EXPECT_EQ(status, 0);
}

TEST(TcpStore, Rank0_WhenItEnds_IgnoresOtherJobs) {
    const auto url = free_url();
    const auto rank_0 = rank_0_until_another_is_here(url);
    const auto silent = tcp_store(url, "a job", 1, 2);  // as a rank that is stopped keeps its connection
    const auto begin = Clock::now();
    ASSERT_TRUE(silent->set("here", "", soon()));
    // Those of other jobs, which look for their own store.
    while (waitpid(rank_0, nullptr, WNOHANG) == 0 && Clock::now() - begin < std::chrono::seconds(20))
        TcpGreeting::of("127.0.0.1", url.first_port, "127.0.0.1", in(100));
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10)) << "not after the longest time, 30 s";
}

TEST(TcpStore, Child_OfRank0_HoldsNoConnections) {
    const auto url = free_url();
    auto host = tcp_store(url, "a job", 0, 2);
    auto other = tcp_store(url, "a job", 1, 2);
    ASSERT_TRUE(host->set("a", "", soon()));
    ASSERT_TRUE(other->set("b", "", soon()));
    const auto child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    other.reset();
    host.reset();
    EXPECT_TRUE(eventually([&] { return !support::Stranger(address_of(url.first_port)).is_connected(); }));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const auto leaving = fork();
    if (leaving == 0) std::exit(0);  // with the copies of its statics
    auto status = 0;
    waitpid(leaving, &status, 0);
    EXPECT_EQ(status, 0);
}

/// Steps of all ranks, which are threads with a connection each.
void on_ranks(int size, const std::function<void(Rendezvous&)>& program) {
    const auto url = free_url();
    auto threads = std::vector<std::jthread>{};
    for (int rank = 0; rank < size; ++rank)
        threads.emplace_back([&, rank] {
            auto world = Rendezvous(std::shared_ptr<Store>(tcp_store(url, "a job", rank, size)), rank, size,
                                    std::chrono::minutes(2));
            program(world);
        });
}

void expect_to_come_up(int size) {
    auto limit = rlimit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < static_cast<rlim_t>(2 * size + 200))
        GTEST_SKIP() << "a process may open " << limit.rlim_cur << " descriptors here";
    auto sums = std::atomic<std::int64_t>(0);
    on_ranks(size, [&](Rendezvous& world) {
        const auto add_up = [](const std::string& a, const std::string& b) {
            return std::to_string(std::stoll(a) + std::stoll(b));
        };
        for (int step = 0; step < 2; ++step)
            sums += std::stoll(world.all("a test", std::to_string(world.rank()), add_up));
        // As at the start of a world, where every rank reads a line of each.
        const auto lines = world.all("a test", cat(world.rank(), " 123456789 46 a-host-name\n"),
                                     [](const std::string& a, const std::string& b) { return a + b; });
        EXPECT_EQ(std::ranges::count(lines, '\n'), size);
    });
    EXPECT_EQ(sums, std::int64_t{size} * size * (size - 1));
}

TEST(TcpStore, Ranks_ComeUpThroughOneHost) { expect_to_come_up(100); }
TEST(TcpStore, FourThousandRanks_ComeUpThroughOneHost) { expect_to_come_up(4096); }

TEST(TcpStore, Rank0_WithTooFewDescriptors_SaysSo) {
    const auto url = free_url();
    auto limit = rlimit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    const auto before = limit;
    limit.rlim_cur = 100;
    setrlimit(RLIMIT_NOFILE, &limit);
    const auto text = text_of([&] { tcp_store(url, "a job", 0, 64); });
    setrlimit(RLIMIT_NOFILE, &before);
    EXPECT_EQ(
        text,
        "rank 0 serves the store of 64 ranks, each of which is a connection, and its process may open 100 "
        "descriptors; let it open 128 by ulimit -n 128, or set RANKMESH_STORE to a folder or a Redis "
        "server");
}

TEST(TcpStore, Rank_WhenItDoesNotCome_IsNamed) {
    const auto url = free_url();
    auto threads = std::vector<std::jthread>{};
    for (auto rank : {0, 1, 3})
        threads.emplace_back([&, rank] {
            auto world = Rendezvous(std::shared_ptr<Store>(tcp_store(url, "a job", rank, 4)), rank, 4,
                                    std::chrono::seconds(3));
            try {
                world.all("a test", "", [](const std::string&, const std::string&) { return std::string{}; });
                ADD_FAILURE();
            } catch (const Timeout& error) {
                EXPECT_EQ(error.missing, std::vector{2}) << error.what();
            }
        });
}

}  // namespace rankmesh::detail
