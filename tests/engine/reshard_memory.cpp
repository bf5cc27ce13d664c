// SPDX-License-Identifier: Apache-2.0
// What a reshard holds besides its slices: every operator new of this program counts.
#include <gtest/gtest.h>

#include <rankmesh/engine/reshard.hpp>
#include <rankmesh/engine/threads.hpp>

#include "support/allocations.hpp"

namespace rankmesh::tests {
namespace {

constexpr auto ranks = 4;

/// The most bytes that the ranks hold at once, together, while rows become columns: 256 KiB from each to
/// each.
std::size_t held(std::size_t staging) {
    auto bytes = std::size_t{0};
    threads::run(ranks, [&](World& world) {
        auto all = world.join({{"tp", rest}}).on("tp");
        const auto mesh = Mesh{{"tp", ranks}};
        const auto plan = Reshard(Sharding(mesh, {1024, 1024}, Split::parse("0=tp")),
                                  Sharding(mesh, {1024, 1024}, Split::parse("1=tp")));
        const auto in = std::vector<float>(256 * 1024, 1.0f);
        auto out = std::vector<float>(256 * 1024);
        all.barrier();
        if (world.rank() == 0) static_cast<void>(support::most_bytes());
        all.barrier();
        reshard(all, plan, in, out, staging);
        all.barrier();
        if (world.rank() == 0) bytes = support::most_bytes();
        all.barrier();
        EXPECT_EQ(std::ranges::count(out, 1.0f), 256 * 1024);
    });
    return bytes;
}

TEST(ReshardMemory, IsTheStagingMemoryAndThePlan) {
    constexpr auto plan = std::size_t{16} << 10;
    for (auto kib : {4, 64, 512}) {
        const auto staging = static_cast<std::size_t>(kib) << 10;
        const auto bytes = held(staging);
        EXPECT_GE(bytes, staging);
        EXPECT_LE(bytes, ranks * (staging + plan)) << kib << " KiB";
    }
    EXPECT_LE(held(std::size_t{1} << 30), ranks * ((std::size_t{512} << 10) + plan));
}

}  // namespace
}  // namespace rankmesh::tests
