// SPDX-License-Identifier: Apache-2.0
// In which entries ranks say where their peers reach them, and that they are found there. Ranks are threads.
#include "engine/join/address_entries.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <map>
#include <thread>
#include <vector>

#include <rankmesh/engine/gloo.hpp>

#include "support/ports.hpp"

using namespace rankmesh;
using namespace rankmesh::detail;

namespace {

ChannelRequest request_of(int size, int group_rank, int item = 3) {
    auto label = Label{};
    label.ranks.group = Mesh{{"dp", size}}.group(0, "dp");
    auto request = ChannelRequest{};
    request.label = std::make_shared<const Label>(std::move(label));
    request.group_rank = group_rank;
    request.item = item;
    return request;
}

}  // namespace

TEST(Addresses, AnEntryIsForFewPeersHoweverManyThereAre) {
    for (const auto size : {2, largest_sharing, largest_sharing + 1, 1000}) {
        auto peers = std::map<std::string, int>{};
        for (int peer = 0; peer < size; ++peer) ++peers[address_entry(request_of(size, 0), peer)];
        EXPECT_EQ(peers.contains(""), size <= largest_sharing);
        for (const auto& [name, count] : peers)
            EXPECT_LE(count, size <= largest_sharing ? size : peers_of_an_entry);
        const auto requests = std::vector{request_of(size, 0)};
        const auto counts = address_counts(requests);
        EXPECT_EQ(counts.written, static_cast<std::int64_t>(peers.size()));
        EXPECT_EQ(counts.addresses, size - 1);
        EXPECT_LE(counts.read, std::int64_t{largest_sharing} * (size - 1));
    }
    EXPECT_NE(address_entry(request_of(100, 0, 3), 5), address_entry(request_of(100, 0, 4), 5));
}

TEST(Addresses, RanksOfAGroupLargerThanAnEntryFindEachOther) {
    constexpr auto size = 4 * largest_sharing + 2;
    auto limit = rlimit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < 8192) GTEST_SKIP() << "each rank has a descriptor for each other one";
    limit.rlim_cur = std::max(limit.rlim_cur, std::min<rlim_t>(limit.rlim_max, 16384));
    setrlimit(RLIMIT_NOFILE, &limit);
    const auto store = "tcp://127.0.0.1:" + std::to_string(support::free_ports(1));
    auto sums = std::vector<int>(size);
    auto ranks = std::vector<std::thread>{};
    for (int rank = 0; rank < size; ++rank)
        ranks.emplace_back([&, rank] {
            try {
                auto world = gloo::World(
                    gloo::RendezvousOptions{.store = store, .job = "addresses", .rank = rank, .size = size},
                    {.timeout = std::chrono::seconds(60)});
                // The first is connected with all others, the second by its members alone.
                const auto member = world.join({{.name = "all", .mesh = {{"dp", size}}},
                                                {.name = "later",
                                                 .mesh = {{"dp", size}},
                                                 .over = {Axes("dp").separate("grads")},
                                                 .axes = std::vector<std::string>{},
                                                 .lazy = true}});
                member["later"].prepare("grads");
                auto sum = rank;
                member["all"].on("dp").all_reduce(sum, rankmesh::sum);
                member["later"].on("grads").all_reduce(sum, rankmesh::max);
                sums[static_cast<std::size_t>(rank)] = sum;
            } catch (const std::exception& error) {
                ADD_FAILURE() << "rank " << rank << ": " << error.what();
            }
        });
    for (auto& rank : ranks) rank.join();
    for (const auto sum : sums) EXPECT_EQ(sum, size * (size - 1) / 2);
}
