// SPDX-License-Identifier: Apache-2.0
// How the rendezvous works by entries, and what that costs: ranks are threads here, and their store counts.
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cmath>
#include <condition_variable>
#include <functional>
#include <latch>
#include <map>
#include <mutex>
#include <thread>

#include "engine/fields.hpp"
#include "engine/gloo/world.hpp"
#include "engine/join/join.hpp"
#include "engine/membership/rendezvous.hpp"
#include "engine/membership/rendezvous_config.hpp"

namespace rankmesh::detail {
namespace {

struct Entries {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::string, std::string> by_name;
};

/// Entries in memory, as one rank sees them. A patient store answers a look once all that is wanted is there,
/// as if all ranks arrived at once.
class CountingStore final : public Store {
public:
    CountingStore(std::shared_ptr<Entries> entries, bool patient)
        : entries_(std::move(entries)), patient_(patient) {}

    bool set(const std::string& name, const std::string& text, Instant) override {
        ++sets;
        const auto lock = std::lock_guard(entries_->mutex);
        entries_->changed.notify_all();
        return entries_->by_name.emplace(name, text).second;
    }
    std::vector<std::optional<std::string>> get(const std::vector<std::string>& names,
                                                Instant until) override {
        ++looks;
        auto lock = std::unique_lock(entries_->mutex);
        const auto all_there = [&] {
            return std::ranges::all_of(names, [&](const auto& name) {
                return name.starts_with("failed.") || entries_->by_name.contains(name);
            });
        };
        if (patient_) entries_->changed.wait_until(lock, until, all_there);
        auto found = std::vector<std::optional<std::string>>{};
        for (const auto& name : names) {
            const auto entry = entries_->by_name.find(name);
            found.push_back(entry == entries_->by_name.end() ? std::nullopt : std::optional(entry->second));
        }
        return found;
    }
    void remove(const std::vector<std::string>& names, Instant) noexcept override {
        ++removals;
        const auto lock = std::lock_guard(entries_->mutex);
        for (const auto& name : names) entries_->by_name.erase(name);
    }
    std::chrono::microseconds longest_pause() const override { return std::chrono::milliseconds(250); }
    std::string text() const override { return "the store 'memory'"; }
    const std::string& job() const override { return job_; }

    int sets = 0;
    int looks = 0;
    int removals = 0;

private:
    const std::shared_ptr<Entries> entries_;
    const bool patient_;
    const std::string job_ = "job";
};

/// Runs a program on the ranks of a world; what their stores have counted.
std::vector<std::shared_ptr<CountingStore>> on_ranks(int size, bool patient,
                                                     const std::function<void(Rendezvous&)>& program,
                                                     Duration timeout = std::chrono::minutes(1)) {
    const auto entries = std::make_shared<Entries>();
    auto stores = std::vector<std::shared_ptr<CountingStore>>{};
    auto threads = std::vector<std::jthread>{};
    for (int rank = 0; rank < size; ++rank) {
        stores.push_back(std::make_shared<CountingStore>(entries, patient));
        threads.emplace_back([&program, size, rank, timeout, store = stores.back()] {
            auto rendezvous = Rendezvous(store, rank, size, timeout);
            program(rendezvous);
        });
    }
    threads.clear();
    return stores;
}

/// Takes part in a join, and makes no channel: its `create` waits for `end`.
class Arriving final : public Exchange {
public:
    Arriving(Exchange& exchange, std::latch& end) : exchange_(exchange), end_(end) {}
    int rank() const override { return exchange_.rank(); }
    int size() const override { return exchange_.size(); }
    const std::vector<int>& local_ranks() const override { return exchange_.local_ranks(); }
    bool announces() const override { return exchange_.announces(); }
    void announce(const std::string& key, std::span<const ChannelRequest> requests) override {
        exchange_.announce(key, requests);
    }
    void max(std::array<std::int64_t, 4>& values) override { exchange_.max(values); }
    void send(int to, const std::string& bytes) override { exchange_.send(to, bytes); }
    std::string receive(int from) override { return exchange_.receive(from); }
    void post(int to, const std::string& bytes) override { exchange_.post(to, bytes); }
    std::vector<std::pair<int, std::string>> collect(const std::string& phase, std::span<const int> from,
                                                     std::chrono::steady_clock::time_point until) override {
        return exchange_.collect(phase, from, until);
    }
    std::shared_ptr<Channel> create(const ChannelRequest&) override {
        end_.wait();
        throw EngineFailure("it ends");
    }

private:
    Exchange& exchange_;
    std::latch& end_;
};

/// Runs a program on the ranks of a Gloo world, which are threads.
void on_worlds(int size, Duration timeout, const std::function<void(GlooWorld&, int rank)>& program,
               const std::shared_ptr<Entries>& entries = std::make_shared<Entries>()) {
    auto threads = std::vector<std::jthread>{};
    for (int rank = 0; rank < size; ++rank)
        threads.emplace_back([&program, &entries, size, rank, timeout] {
            auto store = std::make_shared<CountingStore>(entries, false);
            auto world = GlooWorld(std::make_unique<Rendezvous>(std::move(store), rank, size, timeout), "",
                                   {.timeout = timeout});
            program(world, rank);
        });
}

std::string concatenation(const std::string& a, const std::string& b) { return a + b; }

/// What a rank tells that leaves for a reason of its own.
Failure leaving(int rank, const char* why) {
    return {.kind = Failure::Kind::left, .why = cat("rank ", rank, " ", why), .lost = {rank}};
}

}  // namespace

TEST(Rendezvous, Step_TakesTwoEntriesAndTwoLooksOfARank) {
    constexpr auto steps = 3;
    for (auto size : {2, 8, 64, 100}) {
        const auto stores = on_ranks(size, true, [&](Rendezvous& world) {
            for (int step = 0; step < steps; ++step) {
                const auto text = world.all("a test", std::string(1, 'a'), concatenation);
                EXPECT_EQ(text, std::string(static_cast<std::size_t>(size), 'a'));
            }
        });
        for (const auto& store : stores) {
            EXPECT_LE(store->sets, 1 + 2 * steps) << size;  // the first says that the rank is here
            EXPECT_LE(store->looks, 2 * steps) << size;
            EXPECT_LE(store->removals, steps) << size;
        }
    }
}

TEST(Rendezvous, Fetch_ReadsAGroupInOneLook) {
    const auto stores = on_ranks(8, true, [](Rendezvous& world) {
        world.publish("name", std::to_string(world.rank()));
        const auto all = std::vector{0, 1, 2, 3, 4, 5, 6, 7};
        const auto from = std::vector{6, 2, 5};
        const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
        EXPECT_EQ(world.fetch("a test", from, "name", all, until), (std::vector<std::string>{"6", "2", "5"}));
    });
    for (const auto& store : stores) EXPECT_EQ(store->looks, 1);
}

TEST(Rendezvous, Poll_PausesAQuarterOfTheTimeWaited) {
    auto waited = 0.0;  // seconds
    const auto stores = on_ranks(2, false, [&](Rendezvous& world) {
        // The bound is about a wait that is long beside its shortest pause.
        if (world.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(400));
        const auto begin = std::chrono::steady_clock::now();
        world.all("a test", "", concatenation);
        if (world.rank() == 1)
            waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    });
    // Five looks until a quarter is the shortest pause, then each makes the time 5/4 of what it was.
    EXPECT_LE(stores[1]->looks, 5 + 1 + std::ceil(std::log(waited / 200e-6) / std::log(1.25)));
}

TEST(Rendezvous, MissingRanks_AreFoundInOneLook) {
    const auto stores = on_ranks(
        20, false,
        [](Rendezvous& world) {
            if (world.rank() == 3 || world.rank() == 17) return;
            try {
                world.all("a test", "", concatenation);
                ADD_FAILURE();
            } catch (const Timeout& error) {
                EXPECT_EQ(error.missing, (std::vector{3, 17}));
                EXPECT_EQ(error.arrived.size(), 18U);
            }
        },
        std::chrono::milliseconds(300));
    for (const auto& store : stores) EXPECT_LE(store->looks, 2 * (6 + 33) + 1);
}

TEST(Rendezvous, Rank_WhenItLeaves_IsLostWithItsReason) {
    for (auto leaver : {0, 2, 11}) {
        on_ranks(12, false, [&](Rendezvous& world) {
            if (world.rank() == leaver) return world.leave(leaving(leaver, "has had enough"));
            try {
                world.all("a test", "", concatenation);
                ADD_FAILURE();
            } catch (const PeerLost& error) {
                EXPECT_EQ(error.ranks, std::vector{leaver});
                EXPECT_EQ(error.what(),
                          cat("rank ", leaver, " has had enough; a test cannot be completed on rank ",
                              world.rank()));
            }
        });
    }
}

TEST(Rendezvous, Step_WhenItExpires_NamesTheAbsentOnAllRanks) {
    // Of 9 ranks the first child of rank 1 would be the first that is none, of 12 it has three.
    for (auto [size, absent] : {std::pair(9, 0), {9, 8}, {12, 0}, {12, 2}, {12, 11}}) {
        on_ranks(
            size, false,
            [&, ranks = static_cast<std::size_t>(size), absent = absent](Rendezvous& world) {
                if (world.rank() == absent) return;
                // Ranks that arrive at different times, of which the last would wait longest.
                std::this_thread::sleep_for(std::chrono::milliseconds(10 * world.rank()));
                try {
                    world.all("a test", "", concatenation);
                    ADD_FAILURE();
                } catch (const Timeout& error) {
                    EXPECT_EQ(error.missing, std::vector{absent}) << error.what();
                    EXPECT_EQ(error.arrived.size(), ranks - 1) << error.what();
                    world.leave(leaving(world.rank(), "gives up"));
                }
            },
            std::chrono::milliseconds(1000));
    }
}

TEST(Rendezvous, Rank_WhenItArrivesAndStops_IsNamed) {
    for (auto stuck : {0, 1, 2}) {  // which have children
        auto expired = std::latch(19);
        on_ranks(
            20, false,
            [&](Rendezvous& world) {
                const auto combine = [&, first = true](const std::string& a, const std::string& b) mutable {
                    if (world.rank() == stuck && std::exchange(first, false)) expired.wait();
                    return a + b;
                };
                try {
                    world.all("a test", "", combine);
                    EXPECT_EQ(world.rank(), stuck);
                } catch (const Timeout& error) {
                    EXPECT_EQ(error.missing, std::vector{stuck}) << error.what();
                    EXPECT_EQ(error.arrived.size(), 19U) << error.what();
                }
                if (world.rank() != stuck) expired.count_down();
            },
            std::chrono::milliseconds(400));
    }
}

TEST(GlooWorld, Rank_ThatWaitsForTheMissingOne_IsNotNamed) {
    const auto mesh = Mesh{{"dp", 2}, {"tp", 2}};
    auto waiting = std::latch(3);
    on_worlds(4, std::chrono::milliseconds(800), [&](GlooWorld& world, int rank) {
        auto requests = std::vector<ChannelRequest>{};
        for (const auto* axis : {"dp", "tp"}) {
            const auto group = mesh.group(rank, axis);
            auto label = Label{};
            label.axes = axis;
            label.ranks = {group};
            requests.push_back({.label = std::make_shared<const Label>(std::move(label)),
                                .group_rank = *group.group_rank(rank),
                                .key = axis,
                                .item = static_cast<int>(requests.size())});
        }
        auto& exchange = world.exchange();
        exchange.announce("join", requests);
        auto values = std::array<std::int64_t, 4>{};
        exchange.max(values);
        if (rank == 3) return waiting.wait();  // it has arrived, and connects to nobody
        if (rank == 2) requests.pop_back();    // rank 1 alone waits for rank 3
        // Its timeout begins later than that of rank 0, and so expires later.
        if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
        auto channels = std::vector<std::shared_ptr<Channel>>{};
        try {
            for (const auto& request : requests) channels.push_back(exchange.create(request));
            EXPECT_EQ(rank, 2);
        } catch (const Timeout& error) {
            EXPECT_EQ(error.missing, std::vector{3}) << rank << ": " << error.what();
        }
        waiting.count_down();
    });
}

TEST(GlooWorld, Rank_ThatCannotJoin_EndsSoon) {
    auto waiting = std::latch(1);
    on_worlds(4, std::chrono::milliseconds(500), [&](GlooWorld& world, int rank) {
        auto arriving = Arriving(world.exchange(), waiting);
        const auto begin = std::chrono::steady_clock::now();
        try {
            // Rank 2 connects to rank 0, whose connections accept by themselves, and then waits for rank 3.
            auto joining = Joining{rank == 2 ? world.exchange() : arriving, "join", std::chrono::seconds(1)};
            join(std::vector{Declaration{.mesh = {{"dp", 2}, {"tp", 2}}}}, std::nullopt, joining);
            ADD_FAILURE() << rank;
        } catch (const Timeout& error) {
            EXPECT_EQ(error.missing, std::vector{3}) << rank << ": " << error.what();
            EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
            waiting.count_down();
        } catch (const EngineFailure&) {
            EXPECT_NE(rank, 2);
        }
    });
}

TEST(Rendezvous, Receiver_OfAWaitingRank_NamesTheMissingOne) {
    auto waiting = std::latch(4);
    on_ranks(
        5, false,
        [&](Rendezvous& world) {
            if (world.rank() == 2) return waiting.wait();
            const auto missing = std::vector{2};
            try {
                if (world.rank() ==
                    4) {  // which makes connections in the same join, for longer than a timeout
                    std::this_thread::sleep_for(std::chrono::milliseconds(400));
                    world.give_up_for_cause(
                        "connections",
                        {.kind = Failure::Kind::timeout, .why = "no rank 2", .missing = missing});
                } else {
                    // Its timeout expires later than that of rank 1, which waits for it.
                    if (world.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
                    constexpr auto from = std::array{2, 0, 0, 4};
                    world.receive(from[static_cast<std::size_t>(world.rank())], "connections");
                    ADD_FAILURE() << world.rank();
                }
            } catch (const Timeout& error) {
                EXPECT_EQ(error.missing, missing) << world.rank() << ": " << error.what();
            }
            waiting.count_down();
        },
        std::chrono::milliseconds(300));
}

TEST(Rendezvous, Rank_ThatHearsOfAFailure_IsNotTheCause) {
    auto heard = std::latch(1);
    on_ranks(4, false, [&](Rendezvous& world) {
        if (world.rank() == 1)
            world.fail({}, {.kind = Failure::Kind::gone, .why = "rank 2 is gone", .lost = {2}});
        if (world.rank() == 0) {
            EXPECT_THROW(world.receive(1, "connections"), PeerLost);
            heard.count_down();
        }
        if (world.rank() != 3) return;
        heard.wait();
        const auto lost =
            Failure{.kind = Failure::Kind::gone, .why = "rank 0 cannot be reached", .lost = {0}};
        const auto cause = world.cause("connections", lost);
        ASSERT_TRUE(cause);
        EXPECT_EQ(cause->lost, std::vector{2});
    });
}

TEST(Rendezvous, Rank_ThatLeavesBecauseOfAnother_IsNotTheCause) {
    on_ranks(
        4, false,
        [](Rendezvous& world) {
            if (world.rank() == 1) return;
            if (world.rank() == 2) {
                world.give_up("",
                              {.kind = Failure::Kind::gone, .why = "rank 2 has lost rank 1", .lost = {1}});
                return world.leave(leaving(2, "left"));
            }
            const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
            const auto lost = [&](std::vector<int> ranks) {
                try {
                    world.fetch("a test", std::vector{2}, "name", ranks, until);
                } catch (const PeerLost& error) {
                    EXPECT_EQ(error.what(), cat("rank 2 has lost rank 1; a test cannot be completed on rank ",
                                                world.rank()));
                    return error.ranks;
                }
                return std::vector<int>{};
            };
            EXPECT_EQ(lost({0, 1, 2, 3}), std::vector{1});
            EXPECT_EQ(lost({0, 2, 3}), std::vector{1});
        },
        std::chrono::minutes(1));
}

TEST(Rendezvous, Rank_ThatEndsBecauseOfAnother_IsNotBlamed) {
    const auto entries = std::make_shared<Entries>();
    const auto of_rank = [&](int rank) {
        return Rendezvous(std::make_shared<CountingStore>(entries, false), rank, 3, std::chrono::minutes(1));
    };
    auto first = of_rank(0);
    auto last = of_rank(2);
    last.watch([&] {  // between two looks at the store rank 1 is killed, rank 0 notices, and has ended, too
        first.fail({}, {.kind = Failure::Kind::gone, .why = "rank 1 has ended", .lost = {1}});
        return std::vector{0, 1};
    });
    try {
        last.all("a test", "", concatenation);
        ADD_FAILURE();
    } catch (const PeerLost& error) {
        EXPECT_EQ(error.ranks, std::vector{1}) << error.what();
        EXPECT_STREQ(error.what(), "rank 1 has ended; a test cannot be completed on rank 2");
    }
}

TEST(Rendezvous, Rank_AfterTheOthersGaveUp_IsToldAtOnce) {
    auto gave_up = std::latch(2);
    on_ranks(
        3, false,
        [&](Rendezvous& world) {
            if (world.rank() == 1) gave_up.wait();
            const auto begin = std::chrono::steady_clock::now();
            try {
                world.all("a test", "", concatenation);
                ADD_FAILURE();
            } catch (const Timeout& error) {
                EXPECT_EQ(error.missing, std::vector{1}) << error.what();
                EXPECT_EQ(error.arrived, (std::vector{0, 2})) << error.what();
            }
            if (world.rank() != 1) gave_up.count_down();
            if (world.rank() == 1) {
                EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(200));
            }
        },
        std::chrono::milliseconds(300));
}

TEST(Rendezvous, Worlds_OfTheSameRanks_LeaveFewEntries) {
    const auto entries = std::make_shared<Entries>();
    auto counts = std::vector<std::size_t>{};
    // A rank removes what it wrote after others may have gone on: it is counted when all are at the same
    // place.
    auto all_there = std::barrier(4);
    const auto program = [&](int rank) {
        auto world =
            Rendezvous(std::make_shared<CountingStore>(entries, false), rank, 4, std::chrono::minutes(1));
        auto kept = std::unique_ptr<Rendezvous>{};
        for (int turn = 0; turn < 40; ++turn) {
            const auto ranks = turn % 2 == 0 ? std::vector{0, 1, 2, 3} : std::vector{3, 2, 1, 0};
            auto sub = world.sub(ranks);
            sub->all("a test", "", concatenation);
            sub->publish("name", "text");
            EXPECT_EQ(sub->all("a test", std::to_string(sub->rank()), concatenation).size(), 4U);
            if (turn == 6) kept = std::move(sub);
            // The entries of a world that a rank still uses stay.
            if (turn == 20) {
                EXPECT_EQ(kept->all("a test", "a", concatenation), "aaaa");
                kept = nullptr;
            }
            world.all("a test", "", concatenation);
            all_there.arrive_and_wait();
            if (rank == 0) counts.push_back(entries->by_name.size());
            all_there.arrive_and_wait();
        }
    };
    auto threads = std::vector<std::jthread>{};
    for (int rank = 0; rank < 4; ++rank) threads.emplace_back(program, rank);
    threads.clear();
    EXPECT_LE(counts[38], counts[4]);
    EXPECT_LE(counts[39], counts[5]);
}

TEST(GlooWorld, Communicator_WhenResumedOften_LeavesFewEntries) {
    const auto entries = std::make_shared<Entries>();
    auto counts = std::vector<std::size_t>{};
    auto all_there = std::barrier(3);
    const auto count = [&](GlooWorld& world, int rank) {
        auto joining =
            Joining{.exchange = world.exchange(), .key = "join", .timeout = std::chrono::minutes(1)};
        const auto kept = join(std::vector{Declaration{.mesh = {{"dp", 3}}}}, std::nullopt, joining);
        const auto one = std::array{&joining.connections.front()};
        for (int turn = 0; turn < 6; ++turn) {
            suspend(joining, one);
            all_there.arrive_and_wait();
            if (rank == 0) counts.push_back(entries->by_name.size());
            all_there.arrive_and_wait();
            resume(joining, one);
        }
    };
    on_worlds(3, std::chrono::minutes(1), count, entries);
    EXPECT_EQ(counts, std::vector(6, counts.front()));
}

TEST(Rendezvous, Publish_OfAnExistingEntry_Throws) {
    on_ranks(2, false, [](Rendezvous& world) {
        world.publish("name", "text");
        try {
            world.publish("name", "another");
            FAIL();
        } catch (const EngineFailure& error) {
            EXPECT_EQ(std::string(error.what()),
                      cat("the entry 'name.", world.rank(),
                          "' of the job 'job' is in the store 'memory' already; start the job again under "
                          "another id, such as RANKMESH_JOB=$(uuidgen)"));
        }
        world.withdraw("name");
        world.publish("name", "another");
    });
}

TEST(Rendezvous, Entry_WhenDamaged_IsRefusedByName) {
    using Damage = std::function<void(std::string&)>;
    const auto damages = std::vector<Damage>{
        [](std::string& text) { text = ""; },       [](std::string& text) { text = "stoi"; },
        [](std::string& text) { text.pop_back(); }, [](std::string& text) { text.back() ^= 1; },
        [](std::string& text) { text += '0'; },     [](std::string& text) { text.front() = 'R'; }};
    for (const auto& damage : damages) {
        const auto entries = std::make_shared<Entries>();
        auto first =
            Rendezvous(std::make_shared<CountingStore>(entries, false), 0, 2, std::chrono::seconds(1));
        auto second =
            Rendezvous(std::make_shared<CountingStore>(entries, false), 1, 2, std::chrono::seconds(1));
        second.publish("name", "some text");
        damage(entries->by_name.at("name.1"));
        try {
            first.fetch("a test", std::vector{1}, "name", std::vector{0, 1},
                        std::chrono::steady_clock::now() + std::chrono::seconds(1));
            ADD_FAILURE();
        } catch (const EngineFailure& error) {
            EXPECT_EQ(std::string(error.what()),
                      "the entry 'name.1' of the job 'job' in the store 'memory' is damaged, or of another "
                      "version of rankmesh; start the job again under another id, such as "
                      "RANKMESH_JOB=$(uuidgen)");
        }
    }
}

TEST(Fields, WhatCannotBeReadIsAnEngineFailureInWords) {
    for (const auto* text : {"", "x", "-1 ", "1", " ", "99999999999999999999999 ", "1x "})
        EXPECT_THROW(Fields(text, "a text").number(), EngineFailure) << text;
    auto fields = Fields("12 3 abcd", "a text");
    EXPECT_EQ(fields.number(), 12U);
    EXPECT_EQ(fields.part(fields.number()), "abc");
    try {
        fields.part(2);
        FAIL();
    } catch (const EngineFailure& error) {
        EXPECT_EQ(std::string(error.what()),
                  "a text cannot be read; start all ranks with the same rankmesh, in a job of its own");
    }
}

TEST(RendezvousConfig, TheOnlyRankIsZeroWhereNobodySaysAndNeedsNoStore) {
    for (const auto* variable :
         {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK", "RANKMESH_STORE"})
        unsetenv(variable);
    const auto config = resolve({.size = 1});
    EXPECT_EQ(config.rank, 0);
    EXPECT_EQ(config.size, 1);
    EXPECT_EQ(config.text(), "rank 0 (the only one) of 1 (the program)");
}

TEST(RendezvousConfig, TheTasksOfAStepOfSlurmMeetOnItsFirstHost) {
    for (const auto* variable :
         {"RANKMESH_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK",
          "RANKMESH_STORE", "RANKMESH_JOB", "MASTER_ADDR", "TORCHELASTIC_RUN_ID"})
        unsetenv(variable);
    for (const auto& [variable, text] : {std::pair("SLURM_JOB_ID", "17"),
                                         {"SLURM_STEP_ID", "3"},
                                         {"SLURM_PROCID", "5"},
                                         {"SLURM_RESTART_COUNT", "0"},
                                         {"SLURM_STEP_NUM_TASKS", "8"}})
        setenv(variable, text, 1);
    const auto store_on = [](const char* hosts) {
        setenv("SLURM_STEP_NODELIST", hosts, 1);
        const auto store = resolve({}).store;
        return store.substr(0, store.rfind(':'));
    };
    EXPECT_EQ(store_on("a01"), "tcp://a01");
    EXPECT_EQ(store_on("a[01-04,07],b3"), "tcp://a01");
    EXPECT_EQ(store_on("rack[2,4]gpu[08-09]-ib,login"), "tcp://rack2gpu08-ib");
    EXPECT_EQ(store_on("a,b[1-2]"), "tcp://a");
    const auto config = resolve({});
    EXPECT_EQ(config.rank_from + ", " + config.size_from + ", " + config.store_from,
              "SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST");
    EXPECT_EQ(config.job, "17.3.0");
    setenv("SLURM_STEP_ID", "4", 1);
    EXPECT_NE(resolve({}).store, config.store);
    // Of a launcher that Slurm has started, each task starts several ranks.
    EXPECT_THROW(resolve({.rank = 6, .size = 8}), UsageError);
    EXPECT_THROW(resolve({.rank = 5, .size = 16}), UsageError);
    setenv("RANKMESH_STORE", "/a/folder", 1);
    EXPECT_EQ(resolve({}).store, "/a/folder");
}

TEST(Rendezvous, Store_WhenEmptied_IsNamed) {
    for (const auto in_part : {false, true}) {
        const auto entries = std::make_shared<Entries>();
        const auto store = std::make_shared<CountingStore>(entries, false);
        auto world = Rendezvous(store, 1, 2, std::chrono::milliseconds(200));
        const auto part = world.sub({1, 0});
        auto& asked = in_part ? *part : static_cast<Rendezvous&>(world);
        EXPECT_THROW(asked.all("a test", "", concatenation), Timeout);
        entries->by_name.clear();
        try {
            asked.all("a test", "", concatenation);
            FAIL();
        } catch (const EngineFailure& error) {
            EXPECT_EQ(std::string(error.what()),
                      cat("the store 'memory' no longer has what rank ", asked.rank(),
                          " wrote there when it started: it was emptied, removed or started again; the ranks "
                          "of the job "
                          "'job' cannot find each other any more"));
        }
    }
}

TEST(Rendezvous, Rank_WhenStartedTwice_IsToldOfTheOther) {
    const auto entries = std::make_shared<Entries>();
    const auto store = std::make_shared<CountingStore>(entries, false);
    const auto first = Rendezvous(store, 1, 2, std::chrono::seconds(1));
    try {
        const auto second = Rendezvous(store, 1, 2, std::chrono::seconds(1));
        FAIL();
    } catch (const UsageError& error) {
        EXPECT_TRUE(std::string(error.what())
                        .starts_with("rank 1 of the job 'job' is in the store 'memory' already, of process "))
            << error.what();
    }
}

}  // namespace rankmesh::detail
