// SPDX-License-Identifier: Apache-2.0
// The monitors of a channel, whose ranks are threads here.
#include "engine/gloo/monitor/peer_monitor.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
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
