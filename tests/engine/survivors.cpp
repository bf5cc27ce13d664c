// SPDX-License-Identifier: Apache-2.0
// Who hears that a rank is lost and that others make a new world: every rank, whatever it waits in, and
// without a destroyed member.
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/threads.hpp>

#include "support/text_of.hpp"
#include "waits.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;

namespace {

constexpr auto size = 8;

/// What the ranks of one job have seen.
struct Seen {
    std::mutex mutex;
    std::multiset<std::vector<int>> lost;    // whom each has lost, by the error of its call
    std::multiset<std::vector<int>> worlds;  // of whom the next world of each is
    std::set<std::string> texts;
};

/// The ranks of a world, each by its number in the first one.
std::vector<int> ranks_of(World& world, int number) {
    auto me = world.join({{"dp", rest}});
    auto numbers = std::vector<int>(static_cast<std::size_t>(world.size()));
    me.on("dp").all_gather(number, numbers);
    return numbers;
}

/// Steps along the axes of `mesh`, in which `victim` ends; ranks without a group with it wait in `how`.
void lose(World& world, std::optional<Member>& me, const MeshSpec& mesh, int victim, const waits::Wait& how,
          bool throws) {
    me.emplace(world.join(mesh));
    for (int number = 0; number < 2; ++number) waits::step(*me);
    if (world.rank() == victim && throws) throw std::runtime_error("a mistake");
    if (world.rank() == victim) return;
    if (waits::share_a_group(me->mesh(), world.rank(), victim))
        for (;;) waits::step(*me);
    how(world, *me);
}

void expect_all_go_on(const MeshSpec& mesh, int victim, const std::string& how, bool throws, bool checked) {
    auto seen = Seen{};
    const auto program = [&](World& world) {
        auto me = std::optional<Member>{};
        try {
            lose(world, me, mesh, victim, waits::all().at(how), throws);
        } catch (const PeerLost& lost) {
            auto smaller = world.survivors(20s);
            const auto left = ranks_of(smaller, world.rank());
            const auto lock = std::lock_guard(seen.mutex);
            seen.lost.insert(lost.ranks);
            seen.texts.insert(lost.what());
            seen.worlds.insert(left);
        }
    };
    const auto job = [&] { threads::run(size, program, {.timeout = 5s, .checked = checked}); };
    if (throws)
        EXPECT_EQ(text_of<std::runtime_error>(job), "a mistake");
    else
        job();
    auto left = std::vector<int>{};
    for (int rank = 0; rank < size; ++rank)
        if (rank != victim) left.push_back(rank);
    const auto about = detail::cat("victim ", victim, " ", how, throws ? ", throws" : "", checked ? ", checked" : "");
    EXPECT_EQ(seen.lost.count({victim}), size - 1U) << about;
    EXPECT_EQ(seen.worlds.count(left), size - 1U) << about;
    for (const auto& text : seen.texts)
        EXPECT_TRUE(text.find(detail::cat("rank ", victim)) != text.npos) << text;
}

const auto meshes = std::vector<MeshSpec>{
    {{"a", 8}}, {{"a", 2}, {"b", 4}}, {{"a", 4}, {"b", 2}}, {{"a", 2}, {"b", 2}, {"c", 2}}};

}  // namespace

TEST(Survivors, OfEveryMeshAndVictim_AreAllHealthyRanks) {
    for (const auto& mesh : meshes)
        for (int victim = 0; victim < size; ++victim)
            for (auto throws : {false, true}) expect_all_go_on(mesh, victim, "call", throws, victim % 2 == 1);
}

TEST(Survivors, OfAWorldThatHasLostNobody_AreAllItsRanks) {
    auto seen = Seen{};
    threads::run(size, [&](World& world) {
        auto me = world.join(meshes.back());
        try {
            do waits::step(me);
            while (world.rank() != 3);
        } catch (const PeerLost& lost) {
            const auto lock = std::lock_guard(seen.mutex);
            seen.lost.insert(lost.ranks);
            seen.texts.insert(lost.what());
        }
        auto next = world.survivors(20s);
        const auto left = ranks_of(next, world.rank());
        const auto lock = std::lock_guard(seen.mutex);
        seen.worlds.insert(left);
    });
    EXPECT_EQ(seen.lost.count({3}), size - 1U);
    EXPECT_EQ(seen.worlds.count({0, 1, 2, 3, 4, 5, 6, 7}), std::size_t{size});
    for (const auto& text : seen.texts)
        EXPECT_TRUE(
            text.starts_with("rank 3 has lost no rank, and has called survivors(), which every rank must call; '"))
            << text;
}

TEST(Survivors, WhateverTheyWaitIn_HearOfIt) {
    for (const auto& [how, wait] : waits::all())
        for (std::size_t i = 1; i < meshes.size(); ++i)
            // In checked mode a message that meets a collective is a Disagreement.
            expect_all_go_on(meshes[i], static_cast<int>(7 * i % size), how, i % 2 == 0,
                             i == 3 && how != "message");
}
