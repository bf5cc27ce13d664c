// SPDX-License-Identifier: Apache-2.0
// Receives from any rank, and probes of messages that have not been received.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>

#include <rankmesh/core/text.hpp>

#include "conformance.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;

TEST(Conformance, AnyRank_WhenWorkersAskForTasks_ServesEachOfThem) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        constexpr auto tasks = 20;
        auto result = std::int64_t{0};
        auto task = 0;
        if (on.rank() == 0) {
            auto sum = std::int64_t{0};
            auto next = 0;
            for (auto working = on.size() - 1; working > 0;) {
                const auto worker = on.recv(result, any_rank);
                EXPECT_TRUE(worker > 0 && worker < on.size()) << worker;
                sum += result;
                task = next < tasks ? next++ : -1;
                if (task < 0) --working;
                on.send(task, worker);
            }
            EXPECT_EQ(sum, on.size() == 1 ? 0 : tasks * (tasks - 1) / 2);
        } else {
            while (task >= 0) {
                on.send(result, 0);
                on.recv(task, 0);
                result = task;
            }
        }
    });
}

TEST(Conformance, AnyRank_WhenAllSendMany_KeepsTheOrderOfEach) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto n = on.size();
        if (n == 1) return;
        for (auto length : {std::size_t{0}, std::size_t{3}, std::size_t{50'000}})
            for (auto start : {false, true}) {
                auto random = std::mt19937(static_cast<unsigned>(length));
                auto open = std::vector<int>{};  // by rank, how many it sends
                for (int i = 0; i < n; ++i) open.push_back(i == 0 ? 0 : 1 + static_cast<int>(random() % 4));
                if (on.rank() > 0) {
                    for (int k = 0; k < open[static_cast<std::size_t>(on.rank())]; ++k) {
                        const auto message = words(on.rank(), k, length);
                        on.send(message, 0, 7);
                    }
                } else {
                    auto many = std::size_t{0};
                    for (auto each : open) many += static_cast<std::size_t>(each);
                    auto got = std::vector<std::vector<int>>(many, std::vector<int>(length));
                    auto senders = std::vector<int>{};
                    auto pending = std::vector<Pending>{};
                    for (auto& message : got) {
                        if (start)
                            pending.push_back(on.start().recv(message, any_rank, 7));
                        else
                            senders.push_back(on.recv(message, any_rank, 7));
                    }
                    for (auto& each : pending) {
                        each.wait();
                        senders.push_back(each.sender());
                    }
                    auto next = std::vector<int>(open.size());
                    for (std::size_t i = 0; i < many; ++i) {
                        const auto from = static_cast<std::size_t>(senders[i]);
                        EXPECT_EQ(got[i], words(senders[i], next[from]++, length));
                    }
                    EXPECT_EQ(next, open);
                }
                on.barrier();
            }
    });
}

TEST(Conformance, AnyRank_WhenTagsDiffer_TakesTheMessageOfItsTag) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        if (on.size() < 3) return;
        auto x = on.rank();
        if (on.rank() == 1) on.send(x, 0, 1);
        if (on.rank() == 2) on.send(x, 0, 2);
        if (on.rank() == 0) {
            EXPECT_EQ(on.recv(x, any_rank, 2), 2);
            EXPECT_EQ(x, 2);
            EXPECT_EQ(on.recv(x, any_rank, 1), 1);
            EXPECT_EQ(x, 1);
        }
        on.barrier();
        // Receives of given ranks, behind a receive from any rank that nothing is for yet.
        auto service = -1;
        auto a = -1;
        auto b = -1;
        if (on.rank() == 0) {
            auto any = on.start().recv(service, any_rank, 9);
            auto from_two = on.start().recv(a, 2, 3);
            auto from_one = on.start().recv(b, 1, 3);
            from_one.wait();
            from_two.wait();
            EXPECT_FALSE(any.done());
            EXPECT_EQ((std::vector{a, b}), (std::vector{2, 1}));
            on.send(x, 2);
            any.wait();
            EXPECT_EQ(any.sender(), 2);
            EXPECT_EQ(service, 2);
        } else if (on.rank() <= 2) {
            on.send(x, 0, 3);
            auto go = 0;
            if (on.rank() == 2) on.recv(go, 0);
            if (on.rank() == 2) on.send(x, 0, 9);
        }
        on.barrier();
    });
}

TEST(Conformance, AnyRank_WhenReceivesAreStarted_KeepsTheirOrder) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        if (on.size() == 1) return;
        auto first = on.rank();
        auto second = on.rank() + 100;
        auto third = on.rank() + 200;
        auto got = std::vector<int>(3, -1);
        if (on.rank() == 0) {
            auto given = on.start().recv(got[0], 1, 6);
            auto any = on.start().recv(got[1], any_rank, 6);
            auto behind = on.start().recv(got[2], 1, 6);
            on.barrier();
            behind.wait();
            any.wait();
            given.wait();
            EXPECT_EQ(got, (std::vector{1, 101, 201}));
            EXPECT_EQ(any.sender(), 1);
        } else {
            on.barrier();
            if (on.rank() > 1) return;
            on.send(first, 0, 6);
            on.send(second, 0, 6);
            on.send(third, 0, 6);
        }
    });
}

TEST(Conformance, AnyRank_WhenReceiverIsInACollective_LetsTheSenderGoOn) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        if (on.size() == 1) return;
        const auto last = on.size() - 1;
        for (auto asks : {false, true}) {
            auto x = std::vector<int>(100'000, on.rank());
            if (on.rank() == 0) {
                auto got = std::vector<int>(x.size(), -1);
                auto pending = on.start().recv(got, any_rank);
                on.barrier();
                while (asks && !pending.done()) continue;
                pending.wait();
                EXPECT_EQ(pending.sender(), last);
                EXPECT_EQ(got, std::vector<int>(x.size(), last));
            } else {
                if (on.rank() == last) on.send(x, 0);
                on.barrier();
            }
        }
    });
}

TEST(Conformance, Probe_WhenLengthsAreUnknown_TellsThemAndTheSender) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto n = on.size();
        if (n == 1) return;
        const auto length = [](int rank) { return static_cast<std::size_t>(rank * rank * 1000 % 7001); };
        if (on.rank() == 0) {
            auto seen = std::vector<int>(static_cast<std::size_t>(n));
            for (int i = 1; i < n; ++i) {
                const auto message = i % 2 == 0 ? on.probe(any_rank, 4) : [&] {
                    auto found = on.try_probe(any_rank, 4);
                    while (!found) found = on.try_probe(any_rank, 4);
                    return *found;
                }();
                EXPECT_EQ(message.count<int>(), length(message.from));
                const auto again = on.try_probe(message.from, 4);
                EXPECT_TRUE(again && again->bytes == message.bytes) << "a probe received it";
                auto got = std::vector<int>(message.count<int>());
                on.recv(got, message.from, 4);
                EXPECT_EQ(got, words(message.from, 0, got.size()));
                ++seen[static_cast<std::size_t>(message.from)];
            }
            EXPECT_EQ(std::ranges::count(seen, 1), n - 1);
            EXPECT_FALSE(on.try_probe(any_rank, 4));
            auto byte = 'x';
            for (int i = 1; i < n; ++i) on.send(byte, i);
        } else {
            const auto sent = words(on.rank(), 0, length(on.rank()));
            on.send(sent, 0, 4);
            const auto message = on.probe(0);
            EXPECT_EQ(message.from, 0);
            EXPECT_EQ(
                text_of<UsageError>([&] { static_cast<void>(message.count<double>()); }),
                "the message of group rank 0 has 1 bytes, which are no whole elements of 8 bytes; ask for "
                "its type, or receive bytes");
            auto byte = ' ';
            on.recv(byte, 0);
            EXPECT_EQ(byte, 'x');
        }
        on.barrier();
    });
}

TEST(Conformance, AnyRank_WhenLengthsDiffer_BothAreNamed) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        if (on.size() == 1 || on.rank() > 1) return;
        auto x = std::vector<float>(3);
        try {
            on.rank() == 1 ? on.send(x, 0) : static_cast<void>(on.recv(x[0], any_rank));
            if (on.rank() == 1) on.recv(x[0], 0);  // a send may return at once
            if (on.rank() == 0 || world.engine() != "mpi") ADD_FAILURE() << "the lengths agreed";
        } catch (const Disagreement& error) {
            const auto text = std::string(error.what());
            // MPICH does not say how long a message was that was too long.
            const auto more = world.engine() == "mpi" && !is_checked() &&
                              text.find("has sent more to rank ") != std::string::npos;
            EXPECT_TRUE(more || text.find("3 f32 to rank ") != std::string::npos) << text;
            EXPECT_NE(text.find("which receives 1 f32"), std::string::npos) << text;
            EXPECT_EQ(error.ranks, (std::vector{0, 1}));
        }
        if (world.engine() == "mpi" && on.rank() == 0 && !is_checked()) on.send(x[0], 1);
    });
}

TEST(Conformance, AnyRank_WhereItCannotBe_IsRefused) {
    on_every_rank([](World& world) {
        auto me = world.join({{"dp", rest}});
        auto on = me.on("dp");
        auto x = 1.0F;
        auto alone = me.split(world.rank());
        EXPECT_EQ(text_of<UsageError>([&] { alone->recv(x, any_rank); }),
                  "recv on " + alone->label() +
                      " from any other rank would wait for ever: group rank 0 is the only one");
        EXPECT_EQ(text_of<UsageError>([&] { alone->probe(any_rank); }),
                  "probe on " + alone->label() +
                      " from any other rank would wait for ever: group rank 0 is the only one");
        EXPECT_EQ(text_of<UsageError>([&] { on.batch([&] { on.recv(x, any_rank); }); }),
                  "recv from any rank on " + on.label() +
                      " in a batch, which cannot say whose message it is; call it before or after");
        EXPECT_EQ(text_of<UsageError>([&] { on.probe(on.size()); }),
                  detail::cat("probe on ", on.label(), " from group rank ", on.size(),
                              "; group ranks are 0..", on.size() - 1));
        EXPECT_EQ(text_of<UsageError>([&] { static_cast<void>(Pending().sender()); }),
                  "the sender of an operation that is no complete receive from any rank; wait for it first");
    });
}
