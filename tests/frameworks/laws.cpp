// SPDX-License-Identifier: Apache-2.0
// What holds for the groups of every framework that is described by rows.
#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/error.hpp>
#include <rankmesh/frameworks/groups.hpp>

#include "frameworks/kinds.hpp"

using namespace rankmesh;
using frameworks::GroupPart;
using frameworks::Groups;
using frameworks::State;
using frameworks::Value;

namespace {

std::vector<int> list(const auto& ranks) { return {ranks.begin(), ranks.end()}; }

/// Settings of a framework that give every axis a size of 1 to 3, by a number.
frameworks::Values settings_of(const frameworks::Framework& framework, int number) {
    auto values = frameworks::Values{};
    auto sizes = std::map<std::string_view, int>{};
    for (const auto& setting : framework.settings) {
        if (setting.name == "dims") {  // of three axes, which are settings themselves
            const auto axes = frameworks::words_of(framework.meshes.front().axes);
            values.emplace_back("axes", std::vector<std::string>(axes.begin(), axes.end()));
            values.emplace_back("dims", std::vector{number % 3 + 1, number / 3 % 3 + 1, number / 9 % 3 + 1});
        }
        if (setting.axis.empty()) continue;
        auto product = 1;
        for (const auto axis : frameworks::words_of(setting.axis)) {
            const auto [found, fresh] = sizes.emplace(axis, number % 3 + 1);
            if (fresh) number /= 3;
            product *= found->second;
        }
        values.emplace_back(setting.name, product);
    }
    return values;
}

/// Calls `visit` with the groups of many settings of every framework.
template <class Visit>
void for_each_groups(int most, Visit&& visit) {
    for (const auto& framework : frameworks::all())
        for (int number = 0; number < 243; number += 7)
            for (const int world : {1, 2, 4, 6, 8, 12, 16, 24, 36}) {
                if (world > most) continue;
                auto groups = std::optional<Groups>{};
                try {
                    groups.emplace(framework.name, settings_of(framework, number), world);
                } catch (const frameworks::Error&) {
                    continue;
                }
                SCOPED_TRACE(framework.name + " " + to_string(groups->mesh()));
                visit(*groups);
            }
}

}  // namespace

TEST(Frameworks, ARankIsInAtMostOneGroupOfAKindAndOfReturnsIt) {
    auto seen = 0;
    for_each_groups(36, [&](const Groups& groups) {
        ++seen;
        for (const auto& kind : groups.kinds()) {
            const auto& rows = frameworks::Access::framework(groups).kinds;
            const auto row = std::ranges::find(rows, kind, &frameworks::KindRow::name);
            auto owner = std::map<int, std::vector<int>>{};
            for (int i = 0; i < groups.count(kind); ++i) {
                auto ranks = list(groups.group(kind, i));
                if (row != rows.end() && row->sorted) std::ranges::sort(ranks);
                for (auto rank : ranks) EXPECT_TRUE(owner.emplace(rank, ranks).second) << kind;
            }
            for (int rank = 0; rank < groups.world_size(); ++rank) {
                const auto own = groups.of(kind, rank);
                ASSERT_EQ(own.has_value(), owner.contains(rank)) << kind;
                if (own) {
                    EXPECT_EQ(list(*own), owner[rank]) << kind;
                }
            }
        }
    });
    EXPECT_GT(seen, 20);
}

TEST(Frameworks, AnswersAreThoseOfTheirGroup) {
    using enum frameworks::Quantity;
    for_each_groups(16, [](const Groups& groups) {
        for (int rank = 0; rank < groups.world_size(); ++rank) {
            const auto state = State(groups, rank);
            for (const auto& row : frameworks::Access::framework(groups).accessors) {
                if (row.code || row.choose || row.kinds || !groups.has(row.kind)) continue;
                const auto own = groups.of(row.kind, rank);
                if (!own) continue;
                const auto place = *own->group_rank(rank);
                const auto size_of_own = own->size();
                const auto expected = std::map<frameworks::Quantity, Value>{
                    {group, list(*own)},
                    {frameworks::Quantity::rank, place},
                    {size, size_of_own},
                    {first, own->front()},
                    {last, own->back()},
                    {next, (*own)[(place + 1) % size_of_own]},
                    {prev, (*own)[(place + size_of_own - 1) % size_of_own]},
                    {is_first, own->front() == rank},
                    {is_last, own->back() == rank},
                };
                if (const auto found = expected.find(row.quantity); found != expected.end()) {
                    EXPECT_EQ(state.ask(row.name), found->second) << row.name;
                }
            }
        }
    });
}

TEST(Frameworks, EveryGroupIsLive) {
    auto seen = std::set<std::string>{};
    for_each_groups(8, [&](const Groups& groups) {
        const auto& framework = frameworks::Access::framework(groups);
        if (groups.world_size() < 8) return;
        seen.insert(framework.name);
        if (groups.kinds().empty()) return;
        threads::run(groups.world_size(), [&](World& world) {
            const auto me = world.join(groups.plan());
            for (const auto& kind : frameworks::Access::made(groups).kinds) {
                const auto own = groups.of(kind.name, me.rank());
                if (!own || kind.has_shorter() || kind.row->on_host) continue;  // no plan has the latter
                auto live = me[kind.brief].on("group");
                auto sum = 1;
                live.all_reduce(sum);
                EXPECT_EQ(sum, own->size()) << kind.name;
                EXPECT_EQ(list(live.world_ranks()), list(*own)) << kind.name;
            }
        });
    });
    EXPECT_EQ(seen.size(), frameworks::all().size());
}

TEST(Frameworks, AKindOfSeveralRowsSaysWhenEachHolds) {
    for (const auto& framework : frameworks::all()) {
        auto rows = std::map<std::string_view, int>{};
        for (const auto& kind : framework.kinds) ++rows[kind.name];
        for (const auto& kind : framework.kinds)
            EXPECT_TRUE(rows[kind.name] == 1 || !kind.when.empty()) << framework.name << ' ' << kind.name;
    }
}

TEST(Frameworks, WrongNamesAreToldWithTheNearest) {
    const auto text = [](auto&& call) {
        try {
            call();
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string("nothing was thrown");
    };
    EXPECT_EQ(text([] { Groups("vlm", {}, 8); }).substr(0, 23), "unknown framework 'vlm'");
    EXPECT_EQ(text([] {
                  Groups("vllm", {{"tensor_model_parallel_sise", 2}}, 8);
              }),
              "vllm has no 'tensor_model_parallel_sise'; did you mean 'tensor_model_parallel_size'?");
    EXPECT_EQ(text([] {
                  Groups("vllm", {{"tensor_model_parallel_size", true}}, 8);
              }),
              "tensor_model_parallel_size of vllm is true; it must be a whole number");
    EXPECT_EQ(text([] {
                  Groups("vllm", {{"tensor_model_parallel_size", 3}}, 8);
              }),
              "a world of 8 ranks is not divided by dp 1 x pp 1 x pcp 1 x tp 3, which is 3");
    EXPECT_EQ(text([] { static_cast<void>(State(Groups("vllm", {}, 8), 8)); }),
              "rank 8 of a world of 8; ranks are 0..7");
}
