// SPDX-License-Identifier: Apache-2.0
#include "engine/join/join.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/join_cost.hpp>

#include "costly_plans.hpp"
#include "engine/threads/world.hpp"

using namespace rankmesh;
using namespace rankmesh::detail;

namespace {

/// A channel that only records that it was made.
class Made : public Channel {
public:
    void run(const Call&, const Label&, Duration) override {}
    std::uint64_t start(std::span<const Call>, const Label&) override { return 0; }
    void wait(std::uint64_t, const Label&, Duration) override {}
    bool done(std::uint64_t) override { return true; }
    void leave(std::uint64_t, const Label&) noexcept override {}
    void leave() noexcept override {}
};

/// One rank of a world in which all others agree: counts what the protocol does.
class Counting : public Exchange {
public:
    Counting(int rank, int size) : rank_(rank), size_(size) {}
    int rank() const override { return rank_; }
    int size() const override { return size_; }
    const std::vector<int>& local_ranks() const override { return local; }
    void max(std::array<std::int64_t, 4>&) override { ++reductions; }
    void send(int, const std::string&) override { ++messages; }
    std::string receive(int) override { return ++messages, std::string{}; }
    void post(int, const std::string&) override { ++messages; }
    std::vector<std::pair<int, std::string>> collect(const std::string&, std::span<const int>,
                                                     std::chrono::steady_clock::time_point) override {
        return {};
    }
    std::shared_ptr<Channel> create(const ChannelRequest& request) override {
        created.push_back({request.key, request.label->ranks.list()});
        return std::make_shared<Made>();
    }

    std::vector<int> local;
    int reductions = 0;
    int messages = 0;
    std::vector<std::pair<std::string, std::vector<int>>> created;

private:
    int rank_;
    int size_;
};

std::vector<MeshEntry> join_as(Counting& exchange, const Plan& plan) {
    auto joining = Joining{.exchange = exchange, .key = "join 1", .timeout = std::chrono::seconds(1)};
    return join(plan, std::nullopt, joining);
}

const auto big = Plan{{.mesh = {{"pp", 16}, {"dp", rest}, {"cp", 2}, {"tp", 8}}}};

}  // namespace

TEST(Join, TakesOneReductionAndOneCreationAGroupHoweverLargeTheWorld) {
    for (auto size : {16 * 2 * 8, 16384, 1 << 20, 1 << 30}) {
        auto exchange = Counting(size - 1, size);
        auto plan = big;
        // One rank of 2^30 would list the 4,194,304 ranks of its dp group; leave that axis out there.
        if (size == 1 << 30) plan[0].axes = std::vector<std::string>{"pp", "cp", "tp"};
        join_as(exchange, plan);
        EXPECT_EQ(exchange.reductions, 1);
        EXPECT_EQ(exchange.messages, 0);
        // In the smallest world dp has one rank, and a group of one costs nothing.
        EXPECT_EQ(exchange.created.size(), size == 16384 || size == 1 << 20 ? 4U : 3U) << size;
    }
}

TEST(Join, AllMembersOfAGroupMakeItUnderOneKeyAndInOneOrder) {
    const auto plan =
        Plan{{.name = "dense",
              .mesh = {{"pp", 2}, {"dp", rest}, {"tp", 3}},
              .over = {{"dp", "tp"}, {"pp", "dp"}, Axes("dp").separate("grads")},
              .picks = {{.of = "pp", .at = {0, -1}, .as = "ends"}, {.of = "tp", .at = {1, 2}, .as = "tail"}}},
             {.name = "expert",
              .mesh = {{"pp", 2}, {"edp", rest}, {"ep", 6}},
              .over = {Axes("pp").tuned({.max_ctas = 4}), Axes("ep").tuned({.name = "experts"})}},
             {.name = "part", .mesh = {{"x", 4}}, .partial = true}};
    constexpr auto size = 24;
    auto made = std::map<std::string, std::map<std::vector<int>, int>>{};  // key -> group -> how many made it
    auto orders = std::vector<std::vector<std::pair<std::string, std::vector<int>>>>{};
    for (int rank = 0; rank < size; ++rank) {
        auto exchange = Counting(rank, size);
        auto own = plan;
        if (rank % 2 == 1) std::swap(own[0], own[2]);
        join_as(exchange, own);
        for (const auto& [key, ranks] : exchange.created) {
            EXPECT_TRUE(std::ranges::find(ranks, rank) != ranks.end());
            ++made[key][ranks];
        }
        orders.push_back(exchange.created);
    }
    for (const auto& [key, groups] : made)
        for (const auto& [ranks, count] : groups)
            EXPECT_EQ(count, static_cast<int>(ranks.size())) << key << " " << ranks_to_string(ranks);
    // Two ranks create their common groups in the same order, else they would wait for each other.
    for (const auto& a : orders)
        for (const auto& b : orders) {
            auto of_a = a;
            auto of_b = b;
            std::erase_if(of_a, [&](auto& entry) { return std::ranges::find(b, entry) == b.end(); });
            std::erase_if(of_b, [&](auto& entry) { return std::ranges::find(a, entry) == a.end(); });
            EXPECT_EQ(of_a, of_b);
        }
}

TEST(Join, EqualGroupsShareAChannelExactlyWhereTheirSettingsAreEqual) {
    const auto made = [](const DeviceSettings& a, const DeviceSettings& b) {
        auto exchange = Counting(0, 8);
        join_as(exchange, {{.name = "dense", .mesh = {{"dp", rest}}, .over = {Axes("dp").tuned(a)}},
                           {.name = "expert",
                            .mesh = {{"ep", rest}},
                            .picks = {{.of = "ep", .at = {0, 1, 2, 3, 4, 5, 6, 7}, .as = "all", .tuned = b}},
                            .axes = std::vector<std::string>{}}});
        return exchange.created.size();
    };
    const auto settings = std::vector<DeviceSettings>{{},
                                                      {.min_ctas = 4},
                                                      {.max_ctas = 4},
                                                      {.traffic_class = 4},
                                                      {.high_priority = true},
                                                      {.name = "tp"},
                                                      {.max_ctas = 4, .high_priority = true, .name = "tp"}};
    for (const auto& a : settings)
        for (const auto& b : settings) EXPECT_EQ(made(a, b), a == b ? 1U : 2U);
}

TEST(Join, ARankHoldsKilobytesInAWorldOfAMillion) {
    auto exchange = Counting(12345, 1 << 20);
    const auto mesh_entries = join_as(exchange, big);
    ASSERT_EQ(mesh_entries.size(), 1U);
    EXPECT_EQ(mesh_entries[0].group_entries.size(), 4U);
    // A label holds its group in closed form, no table.
    EXPECT_LT(
        sizeof(MeshEntry) + 4 * (sizeof(MeshEntry::GroupEntry) + sizeof(Label) + sizeof(CommunicatorState)),
        8192U);
}

TEST(Join, MakesTheCommunicatorsThatItsCostSaysInThatOrder) {
    for (const auto& [size, plan] : costly_plans())
        for (int rank = 0; rank < size; ++rank) {
            auto exchange = Counting(rank, size);
            join_as(exchange, plan);
            const auto cost = join_cost(plan, size, rank);
            ASSERT_EQ(cost.communicators, static_cast<int>(exchange.created.size()));
            auto connections = std::size_t{0};
            for (const auto& [key, ranks] : exchange.created) connections += ranks.size() - 1;
            EXPECT_EQ(cost.connections, static_cast<std::int64_t>(connections));
            auto next = 0;
            for (const auto& set : cost.sets) {
                if (!set.communicator) continue;
                ASSERT_LE(*set.communicator, next);
                EXPECT_EQ(exchange.created[static_cast<std::size_t>(*set.communicator)].second.size(),
                          static_cast<std::size_t>(set.group_size))
                    << set.label;
                next = std::max(next, *set.communicator + 1);
            }
            EXPECT_EQ(next, cost.communicators);
        }
}

TEST(Blueprint, APlanIsCheckedWholeAndTheTextNamesWhatIsWrong) {
    const auto wrong = [](Declaration declaration) {
        try {
            make_blueprint(Plan{std::move(declaration)}, 8, std::chrono::seconds(1));
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string("no error");
    };
    EXPECT_EQ(wrong({.mesh = {{"dp", 4}, {"tp", 4}}}), "mesh dp=4 tp=4 needs 16 ranks; the world has 8");
    EXPECT_EQ(wrong({.mesh = {{"dp", rest}, {"tp", 3}}}),
              "mesh dp=* tp=3 does not fit a world of 8: the known sizes make 3, which does not divide 8");
    EXPECT_EQ(wrong({.mesh = {{"dp", 4}}}),
              "mesh dp=4 covers 4 of the world's 8 ranks; make a size rankmesh::rest (in text '*'), or set "
              ".partial = true to leave "
              "ranks out");
    EXPECT_EQ(wrong({.mesh = {{"dp", 8}}, .over = {Axes({})}}),
              "a set of axes of mesh dp=8 is empty; name at least one axis");
    EXPECT_EQ(wrong({.mesh = {{"dp", 8}}, .picks = {{.of = "dp", .at = {}, .as = "none"}}}),
              "pick 'none' of axis 'dp' lists no index");
    EXPECT_EQ(wrong({.mesh = {{"dp", 8}}, .picks = {{.of = "dp", .at = {0}, .as = "dp"}}}),
              "the name 'dp' is an axis of mesh dp=8; choose another name");
    EXPECT_EQ(wrong({.mesh = {{"dp", 8}},
                     .over = {Axes("dp").separate("x")},
                     .picks = {{.of = "dp", .at = {0}, .as = "x"}}}),
              "the name 'x' is declared twice; choose another name");
    EXPECT_EQ(wrong({.mesh = {{"dp", 8}}, .placed = {0, 1, 2, 3, 4, 5, 6, 6}}),
              "a placement lists rank 6 at positions 6 and 7; every rank has one place");
    EXPECT_EQ(wrong({.mesh = {{"dp", 8}}, .placed = {0, 1, 2, 3, 4, 5, 6, 9}}),
              "the placement of mesh dp=8 lists rank 9; the world has ranks 0..7");
    EXPECT_EQ(wrong({.mesh = {{"dp", 8}}, .timeout = std::chrono::seconds(0)}),
              "a timeout of 0 s; it must be positive");
    const auto tuned = [&](DeviceSettings settings) {
        return wrong({.mesh = {{"dp", 4}, {"tp", 2}}, .over = {Axes("tp").tuned(std::move(settings))}});
    };
    EXPECT_EQ(tuned({.min_ctas = 1, .max_ctas = 64, .traffic_class = 0}), "no error");
    EXPECT_EQ(tuned({.max_ctas = 65}),
              "'tp' of mesh dp=4 tp=2 is tuned to max_ctas=65; an operation takes 1 to 64 CTAs");
    EXPECT_EQ(tuned({.min_ctas = 0, .name = "tp"}),
              "'tp' of mesh dp=4 tp=2 is tuned to min_ctas=0 name=tp; an operation takes 1 to 64 CTAs");
    EXPECT_EQ(
        tuned({.min_ctas = 16, .max_ctas = 8}),
        "'tp' of mesh dp=4 tp=2 is tuned to min_ctas=16 max_ctas=8; the fewest CTAs are at most as many "
        "as the most");
    EXPECT_EQ(tuned({.traffic_class = -1}),
              "'tp' of mesh dp=4 tp=2 is tuned to traffic_class=-1; a traffic class is 0 or more");
    EXPECT_EQ(
        tuned({.name = "tensor parallel"}),
        "the name 'tensor parallel' holds the character ' '; names are letters, digits, '_', '-' or '.'");
    EXPECT_EQ(wrong({.mesh = {{"dp", 8}},
                     .picks = {{.of = "dp", .at = {0, 1}, .as = "two", .tuned = {.max_ctas = -1}}}}),
              "'two' of mesh dp=8 is tuned to max_ctas=-1; an operation takes 1 to 64 CTAs");
    EXPECT_EQ(wrong({.mesh = {{"dp", 8}},
                     .over = {Axes("dp").tuned({.max_ctas = 8}), Axes("dp").tuned({.high_priority = true})}}),
              "'dp' of mesh dp=8 was tuned twice, to max_ctas=8 and to high_priority; "
              ".separate(\"name\") gives one a communicator of its own");
}

TEST(Blueprint, DescriptionsAreEqualExactlyWhereRanksMustAgree) {
    const auto said = [](const Plan& plan) {
        return description(make_blueprint(plan, 8, std::chrono::seconds(1)));
    };
    const auto base =
        Declaration{.name = "m", .mesh = {{"dp", rest}, {"tp", 2}}, .over = {{"dp", "tp"}, {"tp", "dp"}}};
    EXPECT_EQ(said({base}), "m: dp=4 tp=2, over dp; tp; dp,tp");
    auto same = base;
    same.mesh = {{"dp", 4}, {"tp", 2}};
    same.over = {{"tp", "dp"}, {"tp"}};
    same.timeout = std::chrono::seconds(9);
    EXPECT_EQ(said({same}), said({base}));

    auto seen = std::set<std::string>{said({base})};
    auto lazy = base;
    lazy.lazy = true;
    auto fewer = base;
    fewer.axes = std::vector<std::string>{"dp"};
    auto picks = base;
    picks.picks = {{.of = "dp", .at = {0, -1}, .as = "ends"}};
    auto named = picks;
    named.picks[0].as = "edges";
    auto separate = base;
    separate.over.push_back(Axes("dp").separate("ends"));
    auto placed = base;
    placed.placed = {7, 6, 5, 4, 3, 2, 1, 0};
    const auto tuned = [&](DeviceSettings settings) {
        auto one = base;
        one.over.push_back(Axes("tp").tuned(std::move(settings)));
        return one;
    };
    const auto all =
        tuned({.min_ctas = 1, .max_ctas = 8, .traffic_class = 3, .high_priority = true, .name = "tp"});
    auto of_pick = picks;
    of_pick.picks[0].tuned = {.max_ctas = 8};
    for (const auto& other :
         {lazy, fewer, picks, named, separate, placed, tuned({.min_ctas = 8}), tuned({.max_ctas = 8}),
          tuned({.traffic_class = 8}), tuned({.high_priority = true}), tuned({.name = "tp"}), all, of_pick})
        EXPECT_TRUE(seen.insert(said({other})).second) << said({other});
    EXPECT_EQ(said({lazy}), "m: dp=4 tp=2, over dp; tp; dp,tp, lazy");
    EXPECT_EQ(said({picks}), "m: dp=4 tp=2, over dp; tp; dp,tp; dp[0,3] as ends");
    EXPECT_EQ(
        said({all}),
        "m: dp=4 tp=2, over dp; tp tuned to min_ctas=1 max_ctas=8 traffic_class=3 high_priority name=tp; "
        "dp,tp");
    EXPECT_EQ(said({tuned({})}), said({base})) << "what says nothing changes nothing";
    EXPECT_EQ(said({of_pick}), "m: dp=4 tp=2, over dp; tp; dp,tp; dp[0,3] as ends tuned to max_ctas=8");
}

TEST(Join, ARankThatLosesAnotherNamesItOnItsConnections) {
    const auto world = std::make_shared<ThreadsWorld>(std::make_shared<Job>(1), std::make_shared<JobStore>(),
                                                      0, WorldOptions{});
    auto told = std::vector<int>{};
    class Connected final : public Made {
    public:
        Connected(WorldState& world, std::vector<int>& told) : world_(world), told_(told) {}
        void leave() noexcept override { told_ = world_.cause->of_leaving(0, "left").lost; }

    private:
        WorldState& world_;
        std::vector<int>& told_;
    };
    class Losing final : public Counting {
    public:
        Losing(WorldState& world, std::vector<int>& told) : Counting(0, 4), world_(world), told_(told) {}
        std::shared_ptr<Channel> create(const ChannelRequest& request) override {
            Counting::create(request);
            if (created.size() == 2) throw PeerLost("rank 1 is gone", {1});
            return std::make_shared<Connected>(world_, told_);
        }

    private:
        WorldState& world_;
        std::vector<int>& told_;
    };
    auto exchange = Losing(*world, told);
    auto joining =
        Joining{.exchange = exchange, .key = "join 1", .timeout = std::chrono::seconds(1), .world = world};
    EXPECT_THROW(join(Plan{{.mesh = {{"dp", 2}, {"tp", 2}}}}, std::nullopt, joining), PeerLost);
    EXPECT_EQ(told, std::vector{1});
}
