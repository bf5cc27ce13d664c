// SPDX-License-Identifier: Apache-2.0
// Messages to a few ranks that do not know who sends.
#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <map>
#include <random>

#include <rankmesh/engine/sparse.hpp>

#include "conformance.hpp"

using namespace rankmesh;

namespace {

struct Particle {
    std::array<double, 3> place;
    std::int32_t id;
    bool operator==(const Particle&) const = default;
};

/// What every rank sends in one exchange: each rank can compute it for all.
using Outgoing = std::vector<std::pair<int, std::vector<int>>>;
std::vector<Outgoing> random_exchange(int size, unsigned seed) {
    auto random = std::mt19937(seed);
    auto all = std::vector<Outgoing>(static_cast<std::size_t>(size));
    for (int from = 0; from < size; ++from)
        for (auto count = random() % 4; count > 0; --count) {
            const auto to = static_cast<int>(random() % static_cast<unsigned>(size));
            const auto lengths = std::array<std::size_t, 4>{0, 1, 7, 20'000};
            all[static_cast<std::size_t>(from)].emplace_back(
                to, words(from, static_cast<int>(count), lengths[random() % 4]));
        }
    return all;
}

}  // namespace

TEST(Conformance, Sparse_OfRandomMessages_DeliversEachToItsRank) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        for (unsigned seed = 0; seed < 30; ++seed) {
            const auto all = random_exchange(on.size(), seed);
            auto expected = Outgoing{};
            for (int from = 0; from < on.size(); ++from)
                for (const auto& [to, data] : all[static_cast<std::size_t>(from)])
                    if (to == on.rank()) expected.emplace_back(from, data);
            EXPECT_EQ(sparse_all_to_all(on, all[static_cast<std::size_t>(on.rank())]), expected) << seed;
        }
    });
}

TEST(Conformance, Sparse_OnEveryAxis_StaysInItsGroup) {
    on_every_rank([](World& world) {
        for (const auto& mesh : meshes_of(world.size())) {
            const auto me = world.join({mesh});
            for (const auto& axis : axes_of(mesh)) {
                auto on = me.on(axis);
                auto leaving = std::map<int, std::vector<Particle>>{};
                const auto upper = (on.rank() + 1) % on.size();
                leaving[upper].push_back({{1, 2, 3}, on.rank()});
                const auto lower = (on.rank() + on.size() - 1) % on.size();
                const auto arrived = sparse_all_to_all(on, leaving);
                ASSERT_EQ(arrived.size(), 1U);
                EXPECT_EQ(arrived[0].first, lower);
                EXPECT_EQ(arrived[0].second, (std::vector<Particle>{{{1, 2, 3}, lower}}));
            }
        }
    });
}

TEST(Conformance, Sparse_BesideOtherMessages_TakesOnlyItsOwn) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto n = on.size();
        if (n == 1) return;
        const auto upper = (on.rank() + 1) % n;
        const auto lower = (on.rank() + n - 1) % n;
        auto own = words(on.rank(), 9);
        auto got = std::vector<int>(own.size());
        const auto sent = std::map<int, std::vector<std::complex<float>>>{{upper, {{1, 2}}}};
        for (int turn = 0; turn < 3; ++turn) {
            const auto arrived = sparse_all_to_all(on, sent);
            ASSERT_EQ(arrived.size(), 1U);
            EXPECT_EQ(arrived[0].first, lower);
            EXPECT_EQ(arrived[0].second, sent.begin()->second);
            on.send_recv(own, upper, got, lower);
            EXPECT_EQ(got, words(lower, 9));
            auto sum = 1;
            on.all_reduce(sum);
            EXPECT_EQ(sum, n);
        }
    });
}

TEST(Conformance, Sparse_ToARankOutsideTheGroup_IsRefusedThere) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto text = text_of<UsageError>([&] {
            sparse_all_to_all(on, std::map<int, std::vector<int>>{{on.size(), {1}}});
        });
        EXPECT_EQ(text, detail::cat("sparse_all_to_all on 'dp' of mesh dp=", on.size(),
                                    " was given a message to group rank ", on.size(),
                                    "; the group has the ranks 0..", on.size() - 1));
        EXPECT_TRUE(sparse_all_to_all(on, std::map<int, std::vector<int>>{}).empty());
        EXPECT_THROW(on.batch([&] { sparse_all_to_all(on, std::map<int, std::vector<int>>{}); }), UsageError);
    });
}
