// SPDX-License-Identifier: Apache-2.0
// The monitors of a channel, whose ranks are threads here.
#include "engine/gloo/monitor/peer_monitor.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <rankmesh/core/error.hpp>

using namespace rankmesh::detail;

namespace {

/// Calls `program` on each rank of a channel, with its connections to all others.
template <class Program>
void on_connected_ranks(int size, const Program& program) {
    auto all = std::vector<std::shared_ptr<Connections>>{};
    for (int i = 0; i < size; ++i)
        all.push_back(std::make_shared<Connections>(Network::on(cat("127.0.0.", i + 1)), i, size));
    auto ranks = std::vector<std::jthread>{};
    for (int rank = 0; rank < size; ++rank) {
        auto endpoints = std::vector<std::string>{};
        for (int lower = 0; lower < rank; ++lower)
            endpoints.push_back(all[static_cast<std::size_t>(lower)]->endpoint_for(rank));
        endpoints.resize(static_cast<std::size_t>(size));
        ranks.emplace_back([&program, rank, endpoints, own = all[static_cast<std::size_t>(rank)]]() mutable {
            const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
            const auto late = own->connect(
                endpoints, until, [] {}, [](int) { return false; });
            EXPECT_EQ(late, std::vector<int>{});
            program(rank, std::move(own));
        });
    }
    all.clear();
}

}  // namespace

// One that has heard the goodbye of another says none to it.
TEST(PeerMonitor, RanksThatLeaveAtTheSameTimeDoNotTakeEachOtherForLost) {
    constexpr auto size = 6;
    auto together = std::barrier(size);
    for (int turn = 0; turn < 150 && !HasFailure(); ++turn)
        on_connected_ranks(size, [&](int rank, std::shared_ptr<Connections> connections) {
            const auto ended = std::make_shared<Ended>(std::make_shared<LocalProcesses>());
            auto monitor = std::make_unique<PeerMonitor>(connections, first_ranks(size), ended, nullptr);
            together.arrive_and_wait();
            // Ranks leave at different times: the law holds for any.
            std::this_thread::sleep_for(std::chrono::microseconds(50 * ((turn * rank) % size)));
            monitor.reset();
            connections.reset();
            EXPECT_EQ(ended->ranks(), std::vector<int>{}) << "on rank " << rank;
        });
}

// The reads are for 200 us, so on a busy machine some come too late.
TEST(Connections, Wait_WhenGloosThreadIsBusy_ReadsItself) {
    constexpr auto messages = 50;
    auto read_early = 0;
    on_connected_ranks(2, [&](int rank, std::shared_ptr<Connections> connections) {
        const auto network = Network::on("127.0.0.2");
        for (int i = 1; i <= messages; ++i) {
            auto value = rank == 0 ? i : 0;
            const auto buffer = connections->buffer(&value, sizeof value, static_cast<std::uint64_t>(i));
            if (rank == 0) {
                buffer->send(1, 1);
                buffer->waitSend();
                continue;
            }
            auto held = std::promise<void>{}, read = std::promise<void>{};
            auto holder = std::jthread([&] {
                network->run([&] {
                    held.set_value();
                    const auto found = read.get_future().wait_for(std::chrono::milliseconds(20));
                    read_early += found == std::future_status::ready ? 1 : 0;
                });
            });
            held.get_future().wait();
            buffer->set_polls(true);
            buffer->recv(0, 1);
            buffer->waitRecv();
            read.set_value();
            EXPECT_EQ(value, i);
        }
    });
    EXPECT_GT(read_early, 0);
}

TEST(Network, HasProcessors_WhenAWorldHasMoreRanksHere_IsFalse) {
    auto network = Network("127.0.0.3");
    network.expect(static_cast<int>(std::thread::hardware_concurrency()));
    EXPECT_TRUE(network.has_processors());
    network.expect(static_cast<int>(std::thread::hardware_concurrency()) + 1);
    EXPECT_FALSE(network.has_processors());
    network.expect(1);
    EXPECT_FALSE(network.has_processors());
}
