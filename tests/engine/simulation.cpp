// SPDX-License-Identifier: Apache-2.0
#include "engine/simulation/simulation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <bit>
#include <mutex>
#include <set>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/join_cost.hpp>
#include <rankmesh/engine/threads.hpp>

#include "costly_plans.hpp"
#include "engine/access.hpp"
#include "engine/join/address_entries.hpp"
#include "support/text_of.hpp"

using namespace rankmesh;
using namespace rankmesh::detail;
using namespace std::chrono_literals;

namespace {

constexpr auto ways = {JoinBy::messages, JoinBy::store};

/// The channels of one rank, in the order of creation: key, group rank and ranks.
using Channels = std::vector<std::tuple<std::string, int, std::vector<int>>>;

Channels channels_of(const std::vector<ChannelRequest>& requests) {
    auto channels = Channels{};
    for (const auto& each : requests)
        channels.emplace_back(each.key, each.group_rank, each.label->ranks.list());
    return channels;
}

using Plans = std::function<const Plan&(int rank)>;
/// Ranks that wait in vain do so for two seconds on threads, others as long as a busy machine takes.
constexpr auto in_vain = Duration(2s);
constexpr auto patient = Duration(60s);
struct Through {
    std::function<std::unique_ptr<Exchange>(Exchange&)> exchange = nullptr;
    Duration timeout = patient;
};

/// What a join comes to: the channels of ranks that joined, and the errors of the others.
struct Joined {
    std::map<int, Channels> channels;
    std::map<int, std::string> errors;
    std::map<int, std::vector<int>> missing;  // of those that waited for others, in vain
    std::set<int> failed() const {
        auto ranks = std::set<int>{};
        for (const auto& [rank, text] : errors) ranks.insert(rank);
        for (const auto& [rank, others] : missing) ranks.insert(rank);
        return ranks;
    }
};

Joined simulated(int size, JoinBy by, const Plans& plans, const Through& through = {}) {
    auto joined = Joined{};
    const auto result = simulate({.size = size,
                                  .by = by,
                                  .ranks_per_host = size,
                                  .plan = plans,
                                  .through = through.exchange,
                                  .visit = [&](int rank, const auto&, const auto& made) {
                                      joined.channels[rank] = channels_of(made);
                                  }});
    for (const auto& [text, ranks] : result.errors)
        for (const auto rank : ranks) joined.errors[rank] = text;
    for (const auto& each : result.stuck) {
        joined.missing[each.rank] = each.missing;
        joined.channels.erase(each.rank);
    }
    return joined;
}

/// The same on threads, where a creation waits for all ranks of its group if there is an exchange between.
Joined on_threads(int size, const Plans& plans, const Through& through = {}) {
    auto joined = Joined{};
    auto mutex = std::mutex{};
    auto all = std::barrier(size);  // nobody leaves before all have ended: that would be another error
    threads::run(size,
                 [&](World& world) {
                     auto& exchange = Access::state(world)->exchange();
                     const auto between = through.exchange ? through.exchange(exchange) : nullptr;
                     auto joining = Joining{.exchange = between ? *between : exchange,
                                            .key = "join 1",
                                            .timeout = through.timeout};
                     try {
                         join(plans(world.rank()), std::nullopt, joining);
                         auto requests = std::vector<ChannelRequest>{};
                         for (const auto& each : joining.connections) requests.push_back(each.request);
                         const auto lock = std::lock_guard(mutex);
                         joined.channels[world.rank()] = channels_of(requests);
                     } catch (const Timeout& timeout) {
                         const auto lock = std::lock_guard(mutex);
                         joined.missing[world.rank()] = timeout.missing;
                     } catch (const Error& error) {
                         const auto lock = std::lock_guard(mutex);
                         joined.errors[world.rank()] = error.what();
                     }
                     all.arrive_and_wait();
                 },
                 {.timeout = through.timeout});
    return joined;
}

/// A bug in what join asks of the exchange of some ranks.
enum class Bug { none, not_compared, message_lost, items_swapped, order_reversed };

/// An exchange with a bug, on which a creation waits for all ranks of its group, as MPI's does.
class Broken final : public Exchange {
public:
    Broken(Exchange& own, Bug bug, Duration timeout) : own_(own), bug_(bug), timeout_(timeout) {}
    int rank() const override { return own_.rank(); }
    int size() const override { return own_.size(); }
    const std::vector<int>& local_ranks() const override { return own_.local_ranks(); }
    bool announces() const override { return true; }
    void announce(const std::string& key, std::span<const ChannelRequest> requests) override {
        requests_.assign(requests.begin(), requests.end());
        if (own_.announces()) own_.announce(key, requests);
    }
    void max(std::array<std::int64_t, 4>& values) override {
        if (bug_ != Bug::not_compared) own_.max(values);
    }
    void send(int to, const std::string& bytes) override {
        if (bug_ != Bug::message_lost) own_.send(to, bytes);
    }
    std::string receive(int from) override { return own_.receive(from); }
    void post(int to, const std::string& bytes) override { own_.post(to, bytes); }
    std::vector<std::pair<int, std::string>> collect(const std::string& phase, std::span<const int> from,
                                                     std::chrono::steady_clock::time_point until) override {
        return own_.collect(phase, from, until);
    }
    std::shared_ptr<Channel> create(const ChannelRequest& given) override {
        auto request = given;
        if (bug_ == Bug::order_reversed) request = requests_[requests_.size() - 1 - created_];
        if (bug_ == Bug::items_swapped) request.key = requests_[requests_.size() - 1 - created_].key;
        ++created_;
        auto channel = own_.create(request);
        channel->run({.operation = Operation::barrier}, *request.label, timeout_);
        return channel;
    }

private:
    Exchange& own_;
    const Bug bug_;
    const Duration timeout_;
    std::vector<ChannelRequest> requests_;
    std::size_t created_ = 0;
};

/// An exchange between for every rank, with the bug on some.
Through broken(Bug bug, const std::function<bool(int rank)>& on, Duration timeout = in_vain) {
    return {[=](Exchange& own) {
                return std::make_unique<Broken>(own, on(own.rank()) ? bug : Bug::none, timeout);
            },
            timeout};
}

Plans same(const Plan& plan) {
    return [&plan](int) -> const Plan& { return plan; };
}

/// The messages from the root of a binomial tree over so many ranks to the furthest: it counts the ones of a
/// rank.
int tree_depth(int ranks) {
    auto depth = 0;
    for (auto rank = 0; rank < ranks; ++rank)
        depth = std::max(depth, std::popcount(static_cast<unsigned>(rank)));
    return depth;
}

const auto four_axes = Plan{{.mesh = {{"pp", 2}, {"dp", rest}, {"tp", 2}}, .over = {{"dp", "tp"}}}};

}  // namespace

TEST(Simulation, RanksGetTheChannelsThatTheyGetOnThreads) {
    auto cases = costly_plans();
    for (const auto size : {4, 8, 12, 20}) cases.push_back({size, four_axes});
    cases.push_back({12, {{.mesh = {{"dp", 2}, {"tp", rest}}, .local = "node"}}});
    for (const auto& [size, plan] : cases) {
        const auto threads = on_threads(size, same(plan));
        ASSERT_EQ(threads.channels.size(), static_cast<std::size_t>(size));
        for (const auto by : ways) {
            const auto found = simulated(size, by, same(plan));
            EXPECT_EQ(found.channels, threads.channels) << size;
            EXPECT_TRUE(found.failed().empty());
        }
    }
}

TEST(Simulation, MeshesListedInAnotherOrderMakeTheSameGroups) {
    const auto through = broken(
        Bug::none, [](int) { return false; }, patient);
    for (const auto& [size, plan] : costly_plans()) {
        auto reversed = plan;
        std::ranges::reverse(reversed);
        const auto by_rank = [&](int rank) -> const Plan& { return rank % 3 == 1 ? reversed : plan; };
        const auto threads = on_threads(size, by_rank, through);
        EXPECT_EQ(threads.failed(), std::set<int>{});
        for (const auto by : ways) {
            const auto found = simulated(size, by, by_rank, through);
            EXPECT_EQ(found.missing, threads.missing);
            EXPECT_EQ(found.channels, threads.channels);
        }
    }
}

TEST(Simulation, RanksWhosePlansDifferThrowWhatTheyThrowOnThreads) {
    const auto plans = std::vector<Plan>{
        {{.mesh = {{"dp", rest}, {"tp", 1}}}}, {{.mesh = {{"dp", rest}}}}, {{.mesh = {{"dp", 1000}}}}};
    for (const auto size : {2, 3, 7, 8, 19})
        for (const auto kinds : {2, 3}) {
            const auto by_rank = [&](int rank) -> const Plan& {
                return plans[static_cast<std::size_t>(rank * rank % kinds)];
            };
            const auto threads = on_threads(size, by_rank);
            ASSERT_EQ(threads.errors.size(), static_cast<std::size_t>(size));
            for (const auto by : ways) EXPECT_EQ(simulated(size, by, by_rank).errors, threads.errors);
        }
}

TEST(Simulation, ARankThatDoesNotCompareItsPlanEndsNoRanksJoinAsOnThreads) {
    const auto through = broken(Bug::not_compared, [](int rank) { return rank == 3; });
    const auto threads = on_threads(8, same(four_axes), through);
    EXPECT_EQ(threads.failed().size(), 8U);
    EXPECT_EQ(threads.missing.at(0), std::vector{3});
    for (const auto by : ways) {
        const auto found = simulated(8, by, same(four_axes), through);
        EXPECT_EQ(found.failed(), threads.failed());
        auto blamed = std::set<int>{};
        for (const auto& [rank, missing] : found.missing) blamed.insert(missing.begin(), missing.end());
        EXPECT_TRUE(blamed.contains(3));
    }
}

TEST(Simulation, AMessageThatIsNotSentKeepsTheRanksThatItKeepsOnThreads) {
    const auto other = Plan{{.mesh = {{"dp", rest}}}};
    const auto by_rank = [&](int rank) -> const Plan& { return rank == 5 ? other : four_axes; };
    // On threads the reduction is no message, and here that of the store: the tree of messages is the
    // gather's.
    const auto through = broken(Bug::message_lost, [](int rank) { return rank == 6; });
    const auto threads = on_threads(8, by_rank, through);
    EXPECT_EQ(threads.failed().size(), 8U);
    EXPECT_EQ(threads.missing.at(4), std::vector{6});
    const auto found = simulated(8, JoinBy::store, by_rank, through);
    EXPECT_EQ(found.missing, threads.missing);
}

TEST(Simulation, GroupsMadeInAnotherOrderDeadlockWhereThreadsDo) {
    const auto square = Plan{{.mesh = {{"dp", 2}, {"tp", 2}}}};
    auto stuck = 0;
    for (auto mask = 0; mask < 16; ++mask) {
        const auto on = [=](int rank) { return (mask >> rank & 1) != 0; };
        const auto hangs =
            !simulated(4, JoinBy::messages, same(square), broken(Bug::order_reversed, on)).missing.empty();
        const auto through = broken(Bug::order_reversed, on, hangs ? in_vain : patient);
        const auto threads = on_threads(4, same(square), through);
        for (const auto by : ways) {
            const auto found = simulated(4, by, same(square), through);
            EXPECT_EQ(found.missing, threads.missing) << mask;
        }
        if (!threads.missing.empty()) ++stuck;
    }
    EXPECT_EQ(stuck, 2) << "round the square, in either direction";
}

TEST(Simulation, ItemsNumberedInAnotherOrderAreMissedAsOnThreads) {
    // The groups of these begin with ranks with which no other group of that number begins.
    for (const auto odd : {3, 5, 7}) {
        const auto plan = Plan{{.mesh = {{"dp", 4}, {"tp", 2}}}};
        const auto through = broken(Bug::items_swapped, [=](int rank) { return rank == odd; });
        const auto threads = on_threads(8, same(plan), through);
        EXPECT_TRUE(threads.failed().contains(odd));
        for (const auto by : ways)
            EXPECT_EQ(simulated(8, by, same(plan), through).failed(), threads.failed()) << odd;
    }
}

TEST(Simulation, SaysWhichRanksWaitAndForWhat) {
    const auto plan = Plan{{.mesh = {{"dp", 2}, {"tp", 2}}}};
    const auto plans = same(plan);
    const auto in_other_order = broken(Bug::order_reversed, [](int rank) { return rank == 1 || rank == 2; });
    const auto reversed = simulate({.size = 4, .plan = plans, .through = in_other_order.exchange});
    EXPECT_EQ(to_text(reversed.stuck),
              "rank 0 waits for rank 2, making 'dp' of mesh dp=2 tp=2, group {0, 2}, as 'join 1 item 0'\n"
              "rank 1 waits for rank 0, making 'tp' of mesh dp=2 tp=2, group {0, 1}, as 'join 1 item 1'\n"
              "rank 2 waits for rank 3, making 'tp' of mesh dp=2 tp=2, group {2, 3}, as 'join 1 item 1'\n"
              "rank 3 waits for rank 1, making 'dp' of mesh dp=2 tp=2, group {1, 3}, as 'join 1 item 0'");
    const auto without = broken(Bug::not_compared, [](int rank) { return rank == 3; });
    const auto absent = simulate({.size = 4, .plan = plans, .through = without.exchange});
    EXPECT_EQ(to_text(absent.stuck),
              "rank 0 waits for rank 2, for the entry 'message.2.0.0', comparing plans\n"
              "rank 1 waits for rank 0, for the entry 'message.0.1.0', comparing plans\n"
              "rank 2 waits for rank 3, for the entry 'message.3.2.0', comparing plans\n"
              "rank 3 waits for rank 1, making 'dp' of mesh dp=2 tp=2, group {1, 3}, as 'join 1 item 0'");
}

/// What a world of that size takes at most.
static void expect_few_messages(int size) {
    const auto rounds = tree_rounds(size);
    const auto messages = simulate_join(four_axes, size, JoinBy::messages);
    EXPECT_EQ(messages.messages.most, rounds) << size;
    EXPECT_EQ(messages.messages.rank, 0);
    EXPECT_EQ(messages.messages.total, 2 * (size - 1));
    EXPECT_EQ(messages.rounds, 2 * tree_depth(size));
    EXPECT_EQ(messages.bytes.most, 32 * rounds);
    EXPECT_EQ(messages.connections.total, 0);

    const auto store = simulate_join(four_axes, size, JoinBy::store);
    EXPECT_LE(store.messages.most, 5) << size;
    EXPECT_LE(store.rounds, 2 * rounds);
    EXPECT_LE(store.bytes.most, 1024);
    const auto connections = join_cost(four_axes, size, 0).connections;
    EXPECT_EQ(store.connections.most, connections);
    EXPECT_EQ(store.connections.total, connections * size);
    // A request for each group and each 8 peers of a large one; the entries that it reads are short.
    EXPECT_LE(store.address_requests.most, connections / peers_of_an_entry + 2 * 4 + 1);
    EXPECT_LE(store.address_bytes.most, 60 * connections * (1 + 4 * largest_sharing));
}

TEST(Simulation, AgreementCostsLogarithmicMessagesAndOneAddressAPeer) {
    for (auto bits = 3; bits <= 10; ++bits)
        for (const auto size : {(1 << bits) - 4, 1 << bits}) expect_few_messages(size);
}

TEST(Simulation, TheSameHoldsForFourThousandRanksAndMore) {
    for (auto bits = 12; bits <= 14; ++bits)
        for (const auto size : {(1 << bits) - 4, 1 << bits}) expect_few_messages(size);
}

TEST(Simulation, ARankThatTakesOtherStepsWhenItRunsAgainIsAnError) {
    const auto other = Plan{{.mesh = {{"dp", rest}}}};
    const auto different = [&](int rank) -> const Plan& { return rank == 0 ? other : four_axes; };
    // Rank 3 has the bug in its last run alone, where it has sent what it says, and waits for what others
    // say.
    const auto error = [](Bug bug, int last_run, const Plans& plans) {
        auto runs = 0;
        const auto through = [&](Exchange& own) {
            const auto now = own.rank() == 3 && ++runs == last_run;
            return std::make_unique<Broken>(own, now ? bug : Bug::none, patient);
        };
        return text_of<EngineFailure>([&] { simulate({.size = 4, .plan = plans, .through = through}); });
    };
    const auto head = std::string("rank 3 takes other steps when its join runs again: ");
    EXPECT_EQ(error(Bug::not_compared, 2, same(four_axes)), head + "it ends after 0 of 1");
    EXPECT_EQ(error(Bug::message_lost, 3, different), head + "step 3 is 'message.2.3.1' now");
    EXPECT_EQ(error(Bug::none, 2, same(four_axes)), "");
}

TEST(Simulation, TakesAsLongAsItsLongestChain) {
    const auto costs = StepCosts{.message = 1, .request = 0, .connection = 0, .served = 0, .served_byte = 0};
    for (const auto size : {1, 2, 3, 8, 100}) {
        const auto plan = Plan{{.mesh = {{"dp", rest}}, .axes = std::vector<std::string>{}}};
        EXPECT_EQ(simulate_join(plan, size, JoinBy::messages, costs).seconds, 2 * tree_depth(size));
        EXPECT_EQ(simulate_join(plan, size, JoinBy::store, costs).seconds, 0);
        const auto whole = Plan{{.mesh = {{"dp", rest}}}};
        EXPECT_EQ(simulate_join(whole, size, JoinBy::messages, costs).seconds,
                  2 * tree_depth(size) + 2 * tree_rounds(size));
        EXPECT_EQ(simulate_join(whole, size, JoinBy::store, {0, 0, 1, 0, 0}).seconds, size - 1);
        const auto served = simulate_join(plan, size, JoinBy::store, {0, 0, 0, 1, 0});
        EXPECT_EQ(served.seconds, static_cast<double>(served.messages.total));
    }
}

TEST(Simulation, TellsEachRankThatHasJoined) {
    for (const auto by : {JoinBy::messages, JoinBy::store}) {
        auto told = 0;
        simulate_join(four_axes, 100, by, {}, [&](int joined) { EXPECT_EQ(joined, ++told); });
        EXPECT_EQ(told, 100);
    }
}

TEST(Simulation, RefusesWhatJoinRefuses) {
    const auto text = [](const Plan& plan, int world) {
        return text_of<UsageError>([&] { simulate_join(plan, world, JoinBy::messages); });
    };
    EXPECT_EQ(text(four_axes, 0), "a join of 0 ranks was to be simulated; a world has 1 or more");
    EXPECT_EQ(text({}, 8), "a plan without meshes; declare at least one");
}
