// SPDX-License-Identifier: Apache-2.0
// Receives from any rank and probes on threads that wait for a message that never comes.
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>

#include <rankmesh/engine/threads.hpp>

#include "support/is_seen.hpp"
#include "support/text_of.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;

namespace {

/// The ways to wait for a message of any rank.
const std::function<void(Communicator&)> waits[] = {
    [](Communicator& on) {
        auto x = 0.0F;
        on.recv(x, any_rank);
    },
    [](Communicator& on) {
        auto x = 0.0F;
        on.start().recv(x, any_rank).wait();
    },
    [](Communicator& on) { on.probe(any_rank); },
};

/// The error that rank 0 of three meets when it waits, and the others do `what`.
template <class E>
E error_of(const std::function<void(Communicator&)>& wait, const std::function<void(World&)>& what,
           const WorldOptions& options) {
    auto error = std::optional<E>{};
    try {
        threads::run(
            3,
            [&](World& world) {
                auto on = world.join({{"dp", rest}}).on("dp");
                if (world.rank() > 0) return what(world);
                try {
                    wait(on);
                } catch (const E& met) {
                    error.emplace(met);
                }
            },
            options);
    } catch (const std::exception&) {
    }
    if (!error) throw std::runtime_error("no such error");
    return *error;
}

}  // namespace

TEST(AnyRank, WhenNobodySends_TimeoutNamesAllOthers) {
    for (const auto checked : {false, true})
        for (const auto& wait : waits) {
            const auto error = error_of<Timeout>(
                [&](Communicator& on) {
                    auto soon = on.within(100ms);
                    wait(soon);
                },
                [](World& world) {
                    auto on =
                        world.join({{"dp", rest}}).on("dp");  // as the other ranks do: it waits for rank 0
                },
                {.timeout = 5s, .checked = checked});
            EXPECT_EQ(error.missing, (std::vector{1, 2})) << error.what();
            EXPECT_EQ(error.arrived, std::vector{0});
            EXPECT_NE(std::string(error.what()).find("from any rank"), std::string::npos) << error.what();
        }
}

TEST(AnyRank, WhenAllOthersReturn_LosesThem) {
    for (const auto& wait : waits) {
        const auto error = error_of<PeerLost>(wait, [](World&) {}, {.timeout = 5s});
        EXPECT_EQ(error.ranks, (std::vector{1, 2})) << error.what();
    }
}

TEST(AnyRank, WhenOneOtherReturns_TakesWhatTheLastSends) {
    threads::run(3, [](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto x = on.rank();
        if (on.rank() == 1) return;
        if (on.rank() == 0) {
            EXPECT_EQ(on.recv(x, any_rank), 2);
        } else {
            EXPECT_TRUE(support::is_seen(world, 0, "recv of 1 i32 from any rank"));
            on.send(x, 0);
        }
    });
}

TEST(AnyRank, WhenOneOtherFails_LosesItAtOnce) {
    for (const auto& wait : waits) {
        const auto error = error_of<PeerLost>(wait,
                                              [](World& world) {
                                                  if (world.rank() == 1) throw std::runtime_error("boom");
                                                  auto on = world.join({{"dp", rest}}).on("dp");  // as above
                                              },
                                              {.timeout = 5s});
        EXPECT_EQ(error.ranks, std::vector{1}) << error.what();
    }
}
