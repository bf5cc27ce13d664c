// SPDX-License-Identifier: Apache-2.0
// In checked mode ranks whose calls differ all throw, with each rank's call, before data moves; and ranks
// whose calls match do not.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <complex>
#include <functional>
#include <latch>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/threads.hpp>

#include "checked.hpp"
#include "support/text_of.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;

namespace {

/// Something that every member of a group of n may call; those of equal text match.
struct Kind {
    std::string text;
    std::function<void(Communicator&)> call;
};

std::vector<Kind> kinds(std::size_t n) {
    auto kinds = std::vector<Kind>{};
    const auto add = [&](std::string text, std::function<void(Communicator&)> call) {
        kinds.push_back({std::move(text), std::move(call)});
    };
    add("barrier", [](Communicator& on) { on.barrier(); });
    add("all_reduce of 3 f32 by sum", [](Communicator& on) {
        auto x = ones<float>(3);
        on.all_reduce(x);
    });
    add("all_reduce of 4 f32 by sum", [](Communicator& on) {
        auto x = ones<float>(4);
        on.start().all_reduce(x).wait();
    });
    add("all_reduce of 3 i32 by sum", [](Communicator& on) {
        auto x = ones<int>(3);
        on.all_reduce(x);
    });
    add("all_reduce of 3 f32 by max", [](Communicator& on) {
        auto x = ones<float>(3);
        on.start().all_reduce(x, rankmesh::max).wait();
    });
    for (auto root : {0, 1}) {
        add(detail::cat("reduce of 3 f32 by sum to ", root), [=](Communicator& on) {
            auto x = ones<float>(3);
            on.reduce(x, rankmesh::sum, root);
        });
        add(detail::cat("broadcast of 3 f32 from ", root), [=](Communicator& on) {
            auto x = ones<float>(3);
            on.broadcast(x, root);
        });
        add(detail::cat("gather of 3 f32 to ", root), [=](Communicator& on) {
            const auto x = ones<float>(3);
            auto all = ones<float>(3 * n);
            on.gather(x, all, root);
        });
        add(detail::cat("scatter of 3 f32 from ", root), [=](Communicator& on) {
            auto x = ones<float>(3);
            const auto all = ones<float>(3 * n);
            on.scatter(all, x, root);
        });
        add(detail::cat("gather_v of f32 to ", root), [=](Communicator& on) {
            const auto counts = std::vector<std::size_t>(n, 3);
            const auto x = ones<float>(3);
            auto all = ones<float>(3 * n);
            on.gather_v(x, all, counts, root);
        });
        add(detail::cat("scatter_v of f32 from ", root), [=](Communicator& on) {
            const auto counts = std::vector<std::size_t>(n, 3);
            const auto all = ones<float>(3 * n);
            auto x = ones<float>(3);
            on.scatter_v(all, counts, x, root);
        });
    }
    add("broadcast of 4 f32 from 0", [](Communicator& on) {
        auto x = ones<float>(4);
        on.broadcast(x, 0);
    });
    add("scan of 3 f32 by sum", [](Communicator& on) {
        auto x = ones<float>(3);
        on.scan(x);
    });
    add(detail::cat("reduce_scatter of ", 3 * n, " f32 by sum"), [=](Communicator& on) {
        const auto all = ones<float>(3 * n);
        auto x = ones<float>(3);
        on.reduce_scatter(all, x);
    });
    for (auto count : {3U, 5U})
        add(detail::cat("all_gather of ", count, " f32"), [=](Communicator& on) {
            const auto x = ones<float>(count);
            auto all = ones<float>(count * n);
            on.all_gather(x, all);
        });
    add(detail::cat("all_to_all of ", 3 * n, " f32"), [=](Communicator& on) {
        auto x = ones<float>(3 * n);
        on.all_to_all(x);
    });
    for (auto by : {1, -1})
        add(detail::cat("shift of 3 f32 by ", by), [=](Communicator& on) {
            auto x = ones<float>(3);
            on.shift(x, by);
        });
    add("shift of 3 f32 by 1 with open edges", [=](Communicator& on) {
        auto x = ones<float>(3);
        on.shift(x, 1, Edge::open);
    });
    add("all_gather_v of f32", [=](Communicator& on) {
        const auto counts = std::vector<std::size_t>(n, 3);
        const auto x = ones<float>(3);
        auto all = ones<float>(3 * n);
        on.all_gather_v(x, all, counts);
    });
    add("all_to_all_v of f32", [=](Communicator& on) {
        const auto counts = std::vector<std::size_t>(n, 3);
        const auto x = ones<float>(3 * n);
        auto all = ones<float>(3 * n);
        on.all_to_all_v(x, counts, all, counts);
    });
    return kinds;
}

}  // namespace

TEST(Checked, EveryPairOfDifferentCallsReachesAllAndTheChannelGoesOn) {
    for (auto size : {2, 3, 8}) {
        auto heard = std::atomic<int>{0};
        const auto all = kinds(static_cast<std::size_t>(size));
        threads::run(
            size,
            [&](World& world) {
                auto on = world.join({{"dp", rest}}).on("dp");
                auto number = 0;
                for (std::size_t i = 0; i < all.size(); ++i)
                    for (std::size_t j = 0; j < all.size(); ++j) {
                        const auto odd = static_cast<int>((i + j) % static_cast<std::size_t>(size));
                        const auto& mine = all[world.rank() == odd ? j : i];
                        ++number;
                        try {
                            mine.call(on);
                            EXPECT_EQ(i, j) << all[i].text << " matched " << all[j].text;
                        } catch (const Disagreement& error) {
                            const auto text = std::string(error.what());
                            EXPECT_NE(i, j) << text;
                            const auto begin =
                                detail::cat("call number ", number, " on 'dp' of mesh dp=", size, ", group ",
                                            to_string(Mesh{{"dp", size}}.group(0, "dp")),
                                            ", is not the same on all its ranks; nothing was sent:\n  ");
                            EXPECT_EQ(text.substr(0, begin.size()), begin);
                            EXPECT_NE(text.find(detail::cat("rank ", odd, " [dp=", odd, "]: ", all[j].text)),
                                      std::string::npos)
                                << text;
                            EXPECT_NE(text.find("]: " + all[i].text), std::string::npos) << text;
                            // Of two, either is the odd one: the first class is that of the first rank.
                            EXPECT_EQ(error.ranks, std::vector{size == 2 ? 1 : odd});
                            ++heard;
                        }
                        if (number % 7 != 0) continue;
                        expect_works(on);
                        ++number;
                    }
            },
            checked);
        EXPECT_EQ(heard, size * static_cast<int>(all.size() * (all.size() - 1)));
    }
}

TEST(Checked, ManyDifferentCallsAreToldInBoundedText) {
    threads::run(
        12,
        [](World& world) {
            auto me = world.join({{"pp", 2}, {"dp", 6}}, {.over = {{"pp", "dp"}}});
            auto on = me.on("pp", "dp");
            auto x = ones<float>(world.rank() < 3 ? 100 : static_cast<std::size_t>(world.rank()));
            try {
                on.all_reduce(x);
                ADD_FAILURE() << "different lengths were reduced";
            } catch (const Disagreement& error) {
                EXPECT_STREQ(
                    error.what(),
                    "call number 1 on 'pp,dp' of mesh pp=2 dp=6, group {0..11}, is not the same on all its "
                    "ranks; nothing was sent:\n"
                    "  ranks 0 [pp=0 dp=0], 1 [pp=0 dp=1], 2 [pp=0 dp=2]: all_reduce of 100 f32 by sum\n"
                    "  rank 3 [pp=0 dp=3]: all_reduce of 3 f32 by sum\n"
                    "  rank 4 [pp=0 dp=4]: all_reduce of 4 f32 by sum\n"
                    "  rank 5 [pp=0 dp=5]: all_reduce of 5 f32 by sum\n"
                    "  rank 6 [pp=1 dp=0]: all_reduce of 6 f32 by sum\n"
                    "  rank 7 [pp=1 dp=1]: all_reduce of 7 f32 by sum\n"
                    "  rank 8 [pp=1 dp=2]: all_reduce of 8 f32 by sum\n"
                    "  rank 9 [pp=1 dp=3]: all_reduce of 9 f32 by sum\n"
                    "  and 2 more");
                EXPECT_EQ(error.ranks, (std::vector{3, 4, 5, 6, 7, 8, 9, 10, 11}));
            }
            expect_works(on);
        },
        checked);
}

TEST(Checked, CountsThatDifferBetweenGiverAndTakerAreHeardByAll) {
    auto heard = std::atomic<int>{0};
    threads::run(
        3,
        [&](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp");
            const auto hears = [&](const std::function<void()>& call, const std::string& line) {
                try {
                    call();
                    ADD_FAILURE() << "the counts agreed";
                } catch (const Disagreement& error) {
                    const auto text = std::string(error.what());
                    EXPECT_EQ(text.substr(text.find('\n')), line);
                    EXPECT_EQ(error.ranks, (std::vector{1, 2}));
                    ++heard;
                }
            };
            // Rank 2 believes that rank 1 gives one more.
            const auto r = static_cast<std::size_t>(world.rank());
            auto counts = std::vector<std::size_t>{1, 2, 3};
            if (world.rank() == 2) counts[1] = 3;
            const auto in = ones<float>(counts[r]);
            auto out = ones<float>(counts[0] + counts[1] + counts[2]);
            hears([&] { on.all_gather_v(in, out, counts); },
                  "\n  rank 1 [dp=1] sends 2 f32 to rank 2 [dp=2], which expects 3");
            const auto given = std::vector<std::size_t>{1, 1, 1};
            auto taken = given;
            if (world.rank() == 2) taken[1] = 3;
            const auto three = ones<float>(3);
            auto some = ones<float>(world.rank() == 2 ? 5 : 3);
            hears([&] { on.start().all_to_all_v(three, given, some, taken).wait(); },
                  "\n  rank 1 [dp=1] sends 1 f32 to rank 2 [dp=2], which expects 3");
            expect_works(on);
        },
        checked);
    EXPECT_EQ(heard, 6);
}

TEST(Checked, ListsAreComparedByTheTypesAndLengthsOfTheirBuffers) {
    threads::run(
        2,
        [](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp");
            const auto first = world.rank() == 0;
            auto two = ones<float>(2), three = ones<float>(3);
            auto four = ones<float>(4), six = ones<float>(6);
            auto doubles = ones<double>(2);
            auto large = ones<float>(1 << 16);
            const auto differ = [&](const std::function<void()>& call) {
                EXPECT_THROW(call(), Disagreement);
                expect_works(on);
            };
            const auto either = [&](auto& a, auto& b) { return first ? Buffers(a, b) : Buffers(b, a); };
            differ([&] { on.all_reduce(either(two, three)); });
            differ([&] { on.start().all_reduce(either(two, three)).wait(); });
            differ([&] { on.broadcast(either(two, three)); });
            differ([&] { on.broadcast(either(four, doubles)); });
            differ([&] { on.all_gather(either(two, three), either(four, six)); });
            differ([&] { on.reduce_scatter(either(four, six), either(two, three)); });
            // Each bucket fits by itself, the lists do not.
            differ(
                [&] { on.all_reduce(first ? Buffers(two, doubles, three) : Buffers(two, three, doubles)); });
            differ([&] { on.broadcast(first ? Buffers(large, two) : Buffers(large, three)); });
            // One buffer is what it is without a list.
            auto again = ones<float>(5);
            first ? on.all_reduce(again) : on.all_reduce(Buffers(again));
            EXPECT_EQ(again, std::vector<float>(5, 2));
            on.all_reduce(Buffers(two, doubles, large));
        },
        checked);
}

TEST(Checked, CountsOfStructElementsAreComparedByTheirBytes) {
    struct Pair {
        int values[2];
    };
    struct Four {
        int values[4];
    };
    threads::run(
        2,
        [](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp");
            const auto counts = std::vector<std::size_t>{1, 2};
            const auto in =
                std::vector<Pair>(counts[static_cast<std::size_t>(world.rank())], {{world.rank(), 7}});
            auto out = std::vector<Pair>(3);
            on.all_gather_v(in, out, counts);
            for (std::size_t i = 0; i < 3; ++i) {
                EXPECT_EQ(out[i].values[0], i == 0 ? 0 : 1);
                EXPECT_EQ(out[i].values[1], 7);
            }
            // Two of eight bytes are one of sixteen, and not two of them.
            const auto exchange = [&]<class T>(T, std::size_t count) {
                const auto each = std::vector<std::size_t>(2, count);
                const auto given = std::vector<T>(2 * count);
                auto taken = given;
                on.all_to_all_v(given, each, taken, each);
            };
            const auto exchange_fours = [&](std::size_t count) {
                world.rank() == 0 ? exchange(Pair{}, 2) : exchange(Four{}, count);
            };
            exchange_fours(1);
            const auto text = text_of<Disagreement>([&] { exchange_fours(2); });
            EXPECT_EQ(text.substr(text.find('\n')),
                      "\n  rank 1 [dp=1] sends 4 elements of 8 bytes to rank 0 [dp=0], which expects 2"
                      "\n  rank 0 [dp=0] sends 1 element of 16 bytes to rank 1 [dp=1], which expects 2");
            expect_works(on);
        },
        checked);
}

TEST(Checked, LengthsAndTypesAreNamedAsTheCallerGaveThem) {
    struct Pair {
        int values[2];
    };
    threads::run(
        2,
        [](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp");
            const auto differ = [&]<class T>(T, const std::string& name) {
                for (auto n : {std::size_t{2}, std::size_t{5}}) {
                    auto x = std::vector<T>(world.rank() == 0 ? n : n + 1);
                    const auto both = text_of<Disagreement>([&] { on.broadcast(x); });
                    for (auto length : {n, n + 1})
                        EXPECT_NE(both.find(detail::cat("]: broadcast of ", length, " ", name, " from 0")),
                                  std::string::npos)
                            << both;
                    const auto message =
                        text_of<Disagreement>([&] { world.rank() == 0 ? on.send(x, 1) : on.recv(x, 0); });
                    EXPECT_NE(message.find(detail::cat(" sends ", n, " ", name, " to rank 1")),
                              std::string::npos)
                        << message;
                    EXPECT_NE(message.find(detail::cat(" receives ", n + 1, " ", name, ",")),
                              std::string::npos)
                        << message;
                }
            };
            differ(float{}, "f32");
            differ(std::complex<float>{}, "complex f32");
            differ(std::complex<double>{}, "complex f64");
            differ(Pair{}, "elements of 8 bytes");
            // Twelve bytes are no whole number of elements of eight.
            struct Triple {
                int values[3];
            };
            const auto exchange = [&]<class T>(T) {
                const auto each = std::vector<std::size_t>(2, 1);
                const auto given = std::vector<T>(2);
                auto taken = given;
                on.all_to_all_v(given, each, taken, each);
            };
            const auto text =
                text_of<Disagreement>([&] { world.rank() == 0 ? exchange(Pair{}) : exchange(Triple{}); });
            EXPECT_EQ(text.substr(text.find('\n')),
                      "\n  rank 1 [dp=1] sends 12 byte to rank 0 [dp=0], which expects 8"
                      "\n  rank 0 [dp=0] sends 8 byte to rank 1 [dp=1], which expects 12");
            expect_works(on);
        },
        checked);
}

TEST(Checked, AMessageThatDoesNotFitIsHeardAtBothEndsAndTheOthersArrive) {
    auto heard = std::atomic<int>{0};
    threads::run(
        3,
        [&](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp");
            const auto three = ones<float>(3);
            auto two = std::vector<float>(2, 7);
            auto whole = std::vector<int>(3, 7);
            auto got = std::vector<float>(3, 7);
            const auto hears = [&](const std::function<void()>& call, const std::string& what, int number) {
                try {
                    call();
                    ADD_FAILURE() << "it fitted";
                } catch (const Disagreement& error) {
                    EXPECT_EQ(
                        error.what(),
                        detail::cat("on 'dp' of mesh dp=3, group {0..2}, rank 0 [dp=0] sends 3 f32 to rank 2 "
                                    "[dp=2], which receives ",
                                    what, ", message number ", number,
                                    " from rank 0 to rank 2; nothing was sent"));
                    EXPECT_EQ(error.ranks, (std::vector{0, 2}));
                    ++heard;
                }
            };
            if (world.rank() == 0) {
                hears([&] { on.send(three, 2); }, "2 f32", 1);
                hears([&] { on.start().send(three, 2).wait(); }, "3 i32", 2);
                hears([&] { on.batch([&] { on.send(three, 1), on.send(three, 2), on.recv(got, 1); }); },
                      "2 f32", 3);
                EXPECT_EQ(got, three);
                hears([&] { on.send_recv(three, 2, got, 1); }, "2 f32", 4);
            } else if (world.rank() == 2) {
                hears([&] { on.recv(two, 0); }, "2 f32", 1);
                hears([&] { on.start().recv(whole, 0).wait(); }, "3 i32", 2);
                hears([&] { on.recv(two, 0); }, "2 f32", 3);
                hears([&] { on.send_recv(three, 1, two, 0); }, "2 f32", 4);
            } else {
                on.recv(got, 0);
                EXPECT_EQ(got, three);
                on.send(three, 0);
                on.send_recv(three, 0, got, 2);
            }
            EXPECT_EQ(two, std::vector<float>(2, 7));
            EXPECT_EQ(whole, std::vector<int>(3, 7));
            expect_works(on);
        },
        checked);
    EXPECT_EQ(heard, 8);
}

TEST(Checked, ATimeoutNamesItsOwnCallOnTheRankThatWaitedAndNoneOfOthers) {
    auto texts = std::array<std::string, 3>{};
    auto done = std::latch(2);
    const auto late = [&](World& world) {
        auto on = world.join({{"pp", rest}}).on("pp");
        auto x = ones<float>(4);
        if (world.rank() == 1) return done.wait();
        try {
            if (world.rank() == 0) on.within(300ms).recv(x, 1);
            if (world.rank() == 2) on.within(10s).barrier();
        } catch (const Timeout& error) {
            EXPECT_EQ(error.missing, std::vector{1});
            texts[static_cast<std::size_t>(world.rank())] = error.what();
        }
        done.count_down();
    };
    threads::run(3, late, {.timeout = 20s, .checked = true});
    for (const auto& [rank, begin] :
         {std::pair(0U,
                    "the timeout of 300 ms expired on rank 0 in recv of 4 f32 from 1, message number 1 on "
                    "'pp' of mesh pp=3, group {0..2}: arrived rank 0, missing rank 1 [pp=1]; "),
          std::pair(2U,
                    "a timeout expired on rank 0, on 'pp' of mesh pp=3, group {0..2}: arrived rank 0, "
                    "missing rank 1 "
                    "[pp=1]; ")})
        EXPECT_TRUE(texts[rank].starts_with(begin)) << texts[rank];
}
