// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/join_cost.hpp>

#include <gtest/gtest.h>

#include <mutex>
#include <vector>

#include "costly_plans.hpp"
#include "nccl_ranks.hpp"

using namespace rankmesh;

TEST(NcclCost, IsTheNumberOfCommunicatorsThatAJoinReportsOnEveryRank) {
    for (const auto& [size, plan] : costly_plans()) {
        auto mutex = std::mutex{};
        auto lines = std::vector<std::string>{};
        const auto log = [&](std::string_view line) {
            const auto lock = std::lock_guard(mutex);
            if (line.find(" NCCL communicator") != line.npos) lines.emplace_back(line);
        };
        on_devices(size, [&, &declared = plan](nccl::World& world) { world.join(declared); },
                   {.timeout = std::chrono::seconds(20), .log = log});
        ASSERT_EQ(lines.size(), static_cast<std::size_t>(size));
        for (int rank = 0; rank < size; ++rank) {
            const auto count = amount_of(join_cost(plan, size, rank), "nccl", "communicators").value_or(-1);
            const auto own = std::ranges::find_if(lines, [&](const std::string& line) {
                return line.find(detail::cat(" as rank ", rank, " of ")) != line.npos;
            });
            ASSERT_NE(own, lines.end()) << rank;
            EXPECT_NE(own->find(detail::cat("; ", count, " NCCL communicator", count == 1 ? ", " : "s, ")),
                      own->npos)
                << *own << ", not " << count;
        }
    }
}
