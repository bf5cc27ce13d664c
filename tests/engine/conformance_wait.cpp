// SPDX-License-Identifier: Apache-2.0
// Waiting for several operations: wait_all and wait_any.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <set>

#include "conformance.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;

namespace {

/// The processor time of this thread.
std::chrono::nanoseconds worked() {
    auto time = timespec{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

TEST(Conformance, WaitAll_OnSeveralCommunicators_CompletesAll) {
    on_every_rank([](World& world) {
        for (const auto& mesh : meshes_of(world.size())) {
            const auto me = world.join({mesh});
            auto buffers = std::vector<std::vector<int>>{};
            auto pendings = std::vector<Pending>{};
            auto sizes = std::vector<int>{};
            const auto names = axes_of(mesh);
            buffers.assign(names.size(), std::vector(3, 1));
            for (std::size_t i = 0; i < buffers.size(); ++i) {
                auto on = me.on(names[i]);
                sizes.push_back(on.size());
                pendings.push_back(on.start().all_reduce(buffers[i]));
            }
            wait_all(pendings);
            for (std::size_t i = 0; i < buffers.size(); ++i)
                EXPECT_EQ(buffers[i], std::vector(3, sizes[i])) << to_string(mesh);
            wait_all(pendings);  // which are complete
        }
    });
}

TEST(Conformance, WaitAll_OfTwoTemporaries_CompletesBoth) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto x = 1;
        auto y = on.rank();
        wait_all(on.start().all_reduce(x), on.start().broadcast(y, on.size() - 1));
        EXPECT_EQ(x, on.size());
        EXPECT_EQ(y, on.size() - 1);
    });
}

TEST(Conformance, WaitAny_WhenOneRankSendsAtATime_ReturnsItsIndex) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        if (on.rank() > 0) {
            auto go = 0;
            on.recv(go, 0);
            const auto message = words(on.rank(), go);
            on.send(message, 0);
            return;
        }
        auto random = std::mt19937(7);
        auto order = std::vector<int>(static_cast<std::size_t>(on.size() - 1));
        std::iota(order.begin(), order.end(), 1);
        auto got = std::vector<std::vector<int>>(order.size(), std::vector<int>(5));
        auto pendings = std::vector<Pending>(order.size());
        for (std::size_t i = 0; i < order.size(); ++i)
            pendings[i] = on.start().recv(got[i], static_cast<int>(i) + 1);
        std::ranges::shuffle(order, random);
        for (auto rank : order) {
            on.start().send(rank, rank).wait();
            const auto index = static_cast<std::size_t>(rank - 1);
            EXPECT_EQ(wait_any(pendings), index);
            EXPECT_EQ(got[index], words(rank, rank));
        }
        EXPECT_EQ(wait_any(pendings), std::nullopt);
        EXPECT_EQ(wait_any({}), std::nullopt);
    });
}

TEST(Conformance, WaitAny_OfCollectivesAndMessages_FindsEachOnce) {
    on_every_rank([](World& world) {
        const auto me = world.join({{"dp", rest}});
        auto on = me.on("dp");
        const auto n = on.size();
        auto sums = std::vector<std::vector<int>>(4, std::vector<int>(1000, 1));
        auto message = std::vector<int>(2000);
        const auto given = words(on.rank(), 0, message.size());
        auto pendings = std::vector<Pending>{};
        for (auto& sum : sums) pendings.push_back(on.start().all_reduce(sum));
        pendings.push_back(on.start().shift(given, message, 1));
        if (n > 1) pendings.push_back(on.start().send(given, (on.rank() + 1) % n));
        auto from_any = std::vector<int>(2000);
        if (n > 1) pendings.push_back(on.start().recv(from_any, any_rank));
        auto found = std::set<std::size_t>{};
        while (const auto i = wait_any(pendings)) EXPECT_TRUE(found.insert(*i).second) << *i;
        EXPECT_EQ(found.size(), pendings.size());
        const auto lower = (on.rank() + n - 1) % n;
        for (const auto& sum : sums) EXPECT_EQ(sum, std::vector(1000, n));
        EXPECT_EQ(message, words(lower, 0, 2000));
        if (n == 1) return;
        EXPECT_EQ(from_any, message);
        EXPECT_EQ(pendings.back().sender(), lower);
    });
}

TEST(Conformance, WaitAny_WhenNothingArrives_NamesWhoIsMissing) {
    on_every_rank([](World& world) {
        if (world.engine() == "mpi" || world.size() == 1) return;  // there it ends the job
        const auto me = world.join({{"dp", rest}}, {.over = {Axes("dp").separate("other")}});
        auto other = me.on("other");
        if (world.rank() == 0) {
            auto on = me.on("dp").within(200ms);
            auto patient = me.on("dp");
            auto x = std::vector<float>(2);
            auto pendings = std::vector<Pending>{};
            pendings.push_back(patient.start().recv(x[0], 1, 3));
            pendings.push_back(on.start().recv(x[1], 1, 4));
            const auto before = worked();
            const auto begin = std::chrono::steady_clock::now();
            try {
                wait_any(pendings);
                ADD_FAILURE() << "no timeout";
            } catch (const Timeout& error) {
                EXPECT_EQ(error.missing, std::vector{1}) << error.what();
                EXPECT_NE(std::string(error.what()).find("recv of 1 f32 from 1 with tag 4"),
                          std::string::npos)
                    << error.what();
                EXPECT_NE(std::string(error.what()).find("200 ms"), std::string::npos) << error.what();
            }
            const auto passed = std::chrono::steady_clock::now() - begin;
            EXPECT_GE(passed, 200ms);
            const auto used = worked() - before;
            EXPECT_TRUE(is_checked() || used < passed / 4) << used.count() << " ns";  // it sleeps
            EXPECT_THROW(wait_any(pendings), Error);
        }
        other.barrier();
    });
}

TEST(Conformance, WaitAll_WhenOneFails_WaitsForTheOthers) {
    on_every_rank([](World& world) {
        if (world.engine() == "mpi" || world.size() == 1) return;
        const auto me = world.join({{"dp", rest}}, {.over = {Axes("dp").separate("other")}});
        auto other = me.on("other");
        auto sum = 1;
        if (world.rank() == 0) {
            auto on = me.on("dp").within(100ms);
            auto x = 0.0F;
            auto never = on.start().recv(x, 1);
            auto comes = other.start().all_reduce(sum);
            EXPECT_THROW(wait_all(never, comes), Timeout);
            EXPECT_TRUE(never.done());
            EXPECT_TRUE(comes.done());
        } else {
            other.start().all_reduce(sum).wait();
        }
        EXPECT_EQ(sum, world.size());
        other.barrier();
    });
}
