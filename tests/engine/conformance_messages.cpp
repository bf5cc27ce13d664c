// SPDX-License-Identifier: Apache-2.0
// Messages between two members, batches of them, objects of unknown length, and barriers that name who is
// missing.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <stdexcept>

#include <rankmesh/core/text.hpp>

#include "conformance.hpp"
#include "operations.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;
using operations::check_all;

TEST(Conformance, MessagesOfOnePairArriveInTheOrderInWhichTheyWereSent) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto last = world.size() - 1;
        if (last == 0) return;
        constexpr auto many = 20;
        const auto length = [](int k) { return static_cast<std::size_t>(k * k % 7); };
        auto sent = std::vector<std::vector<int>>{};
        auto got = std::vector<std::vector<int>>{};
        for (int k = 0; k < many; ++k) {
            sent.push_back(words(world.rank(), k, length(k)));
            got.emplace_back(length(k), -1);
        }
        for (auto start : {false, true}) {
            auto pending = std::vector<Pending>{};
            for (std::size_t k = 0; k < many; ++k) {
                if (world.rank() == 0 && start) pending.push_back(on.start().send(sent[k], last));
                if (world.rank() == 0 && !start) on.send(sent[k], last);
                if (world.rank() == last && start) pending.push_back(on.start().recv(got[k], 0));
                if (world.rank() == last && !start) on.recv(got[k], 0);
            }
            // In an order that no group has: 0, 7, 14, 1, ...
            for (std::size_t i = 0; i < pending.size(); ++i) pending[i * 7 % many].wait();
            for (int k = 0; k < many && world.rank() == last; ++k)
                EXPECT_EQ(got[static_cast<std::size_t>(k)], words(0, k, length(k))) << "message " << k;
            for (auto& message : got) std::ranges::fill(message, -1);
        }
        on.barrier();
    });
}

TEST(Conformance, StartedMessagesCrossOthersAndCollectivesOfTheirChannel) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto n = world.size();
        const auto next = (world.rank() + 1) % n;
        const auto before = (world.rank() + n - 1) % n;
        if (n == 1) return;
        auto first = words(world.rank(), 1);
        auto second = words(world.rank(), 2);
        auto a = std::vector<int>(5);
        auto b = std::vector<int>(5);
        auto sum = world.rank();
        auto early = on.start().recv(a, before);
        auto reducing = on.start().all_reduce(sum);
        auto late = on.start().recv(b, before);
        on.barrier();
        auto one = on.start().send(first, next);
        on.send(second, next);
        late.wait();
        EXPECT_EQ(b, words(before, 2));
        reducing.wait();
        EXPECT_EQ(sum, n * (n - 1) / 2);
        early.wait();
        EXPECT_EQ(a, words(before, 1));
        one.wait();
    });
}

TEST(Conformance, ThroughAPipelineBothWaysGoAsOneBatch) {
    on_every_rank([](World& world) {
        auto on = world.join({{"pp", rest}}).on("pp");
        const auto first = on.rank() == 0;
        const auto last = on.rank() == on.size() - 1;
        for (int step = 0; step < 4; ++step) {
            // Longer than what an engine sends without asking the receiver.
            const auto length = step == 3 ? std::size_t{100'000} : std::size_t{10};
            const auto forward = words(world.rank(), step, length);
            const auto backward = words(world.rank(), step + 50, length);
            auto activations = std::vector<int>(length);
            auto gradients = std::vector<int>(length);
            const auto exchange = [&] {
                if (!last) on.send(forward, on.rank() + 1);
                if (!last) on.recv(gradients, on.rank() + 1);
                if (!first) on.send(backward, on.rank() - 1);
                if (!first) on.recv(activations, on.rank() - 1);
            };
            if (step % 2 == 0)
                on.batch(exchange);
            else
                on.start().batch(exchange).wait();
            const auto nothing = std::vector<int>(length);
            EXPECT_EQ(activations, first ? nothing : words(world.rank() - 1, step, length));
            EXPECT_EQ(gradients, last ? nothing : words(world.rank() + 1, step + 50, length));
        }
    });
}

TEST(Conformance, ABatchHoldsSendRecvsAndSeveralMayBeInFlight) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto n = world.size();
        const auto next = (world.rank() + 1) % n;
        const auto before = (world.rank() + n - 1) % n;
        const auto right = words(world.rank(), 1);
        const auto left = words(world.rank(), 2);
        auto from_left = std::vector<int>(5);
        auto from_right = std::vector<int>(5);
        auto to_myself = std::vector<int>(5);
        auto both = on.start().batch([&] {
            on.send_recv(right, next, from_left, before);
            on.send_recv(left, before, from_right, next);
        });
        auto own = on.start().batch([&] {
            on.send(right, on.rank());
            on.recv(to_myself, on.rank());
        });
        auto nothing = on.start().batch([] {});
        own.wait();
        nothing.wait();
        both.wait();
        EXPECT_EQ(from_left, words(before, 1));
        EXPECT_EQ(from_right, words(next, 2));
        EXPECT_EQ(to_myself, words(world.rank(), 1));
        on.send_recv(left, on.rank(), to_myself, on.rank());
        EXPECT_EQ(to_myself, words(world.rank(), 2));
    });
}

TEST(Conformance, AnyMessagesAmongTheMembersMayBeOneBatch) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        for (unsigned seed = 1; seed <= 3; ++seed)
            for (auto start : {false, true}) {
                auto random = std::mt19937(seed);
                auto list = std::vector<operations::Message>{};
                for (int k = 0; k < 4 * world.size(); ++k)
                    list.push_back({static_cast<int>(random() % static_cast<unsigned>(world.size())),
                                    static_cast<int>(random() % static_cast<unsigned>(world.size()))});
                for (auto count : {std::size_t{0}, std::size_t{3}, std::size_t{1500}})
                    for (auto tagged : {false, true})
                        operations::Suite<float>(on, world.rank(), count)
                            .messages(list, start, tagged)
                            .finish();
            }
    });
}

TEST(Conformance, TheHaloOfAPeriodicAxisComesFromTheRightSideWhateverItsSize) {
    on_every_rank([](World& world) {
        auto me = world.join({{"dp", rest}});
        for (int size = 1; size <= 3; ++size) {
            auto ring = me.split(world.rank() / size);
            const auto n = ring->size();
            const auto before = (ring->rank() + n - 1) % n;
            const auto after = (ring->rank() + 1) % n;
            const auto low = words(ring->rank(), 1);
            const auto high = words(ring->rank(), 2);
            auto below = std::vector<int>(5);
            auto above = std::vector<int>(5);
            const auto expect_halo = [&] {
                EXPECT_EQ(below, words(before, 2)) << "an axis of " << n;
                EXPECT_EQ(above, words(after, 1)) << "an axis of " << n;
                std::ranges::fill(below, 0);
                std::ranges::fill(above, 0);
            };
            enum { down, up };
            const auto exchange = [&] {
                ring->send(low, before, down);
                ring->send(high, after, up);
                ring->recv(below, before, up);
                ring->recv(above, after, down);
            };
            ring->batch(exchange);
            expect_halo();
            ring->start().batch(exchange).wait();
            expect_halo();
            ring->batch([&] {
                ring->send_recv(high, after, below, before, up);
                ring->send_recv(low, before, above, after, down);
            });
            expect_halo();
            ring->send_recv(low, before, above, after, down);
            ring->send_recv(high, after, below, before, up);
            expect_halo();
        }
    });
}

TEST(Conformance, StartedMessagesCrossInARingOfTwoByTheirTags) {
    on_every_rank([](World& world) {
        auto me = world.join({{"dp", rest}});
        for (int size = 2; size <= 3; ++size) {
            auto ring = me.split(world.rank() / size);
            const auto n = ring->size();
            if (n == 1) continue;
            const auto before = (ring->rank() + n - 1) % n;
            const auto after = (ring->rank() + 1) % n;
            const auto low = words(ring->rank(), 1);
            const auto high = words(ring->rank(), 2);
            auto below = std::vector<int>(5);
            auto above = std::vector<int>(5);
            enum { down, up };
            auto sends = std::vector<Pending>{};
            auto recvs = std::vector<Pending>{};
            sends.push_back(ring->start().send(low, before, down));
            recvs.push_back(ring->start().recv(above, after, down));
            sends.push_back(ring->start().send(high, after, up));
            recvs.push_back(ring->start().recv(below, before, up));
            for (auto* all : {&recvs, &sends})
                for (auto& each : *all) each.wait();
            EXPECT_EQ(below, words(before, 2)) << "an axis of " << n;
            EXPECT_EQ(above, words(after, 1)) << "an axis of " << n;
        }
    });
}

TEST(Conformance, EndsOfAMessageWhoseTagsDifferAreTold) {
    on_every_rank([](World& world) {
        if (world.size() == 1) return;
        if (world.engine() == "mpi" && !is_checked()) return;  // where they wait until the timeout
        auto on = world.join({{"dp", rest}}).on("dp");
        if (world.rank() > 1) return;
        auto x = 7.0F;
        try {
            world.rank() == 0 ? on.send(x, 1, 3) : on.recv(x, 0, 4);
            if (world.rank() == 0) on.recv(x, 1);  // a send may return at once
            ADD_FAILURE() << "the tags agreed";
        } catch (const Disagreement& error) {
            const auto text = std::string(error.what());
            EXPECT_NE(text.find("sends 1 f32 with tag 3 to rank "), std::string::npos) << text;
            EXPECT_NE(text.find("which receives 1 f32 with tag 4"), std::string::npos) << text;
            EXPECT_EQ(error.ranks, (std::vector{0, 1}));
        }
    });
}

TEST(Conformance, ANumberThatIsNoIntOrNoTagIsRefusedWithItsValue) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        constexpr auto large = std::size_t{1} << 32;
        auto x = std::vector<int>(static_cast<std::size_t>(on.size()), 7);
        auto y = x;
        const auto part = std::vector<int>(1);
        const auto no_int = [](const std::function<void()>& call, const std::string& value) {
            EXPECT_EQ(text_of<UsageError>(call), value +
                                                     " was given as a rank, a root, a distance or a tag; "
                                                     "those are from -2147483648 to 2147483647");
        };
        no_int([&] { on.broadcast(x, large); }, "4294967296");
        no_int([&] { on.start().broadcast(x, large).wait(); }, "4294967296");
        no_int([&] { on.broadcast(Buffers(x), large); }, "4294967296");
        no_int([&] { on.broadcast_object(x, large); }, "4294967296");
        no_int([&] { on.reduce(x, large); }, "4294967296");
        no_int([&] { on.reduce(x, sum, large); }, "4294967296");
        no_int([&] { on.reduce(x, y, large); }, "4294967296");
        no_int([&] { on.gather(part, x, large); }, "4294967296");
        no_int([&] { on.scatter(x, y, -(std::int64_t{1} << 40)); }, "-1099511627776");
        no_int([&] { on.shift(x, large); }, "4294967296");
        no_int([&] { on.shift(x, y, ~std::uint64_t{0}); }, "18446744073709551615");
        no_int([&] { on.send(x, large); }, "4294967296");
        no_int([&] { on.recv(x, large); }, "4294967296");
        no_int([&] { on.send_recv(x, 0, y, large); }, "4294967296");
        no_int([&] { on.send(x, 0, large); }, "4294967296");
        no_int([&] { static_cast<void>(on.world_rank(large)); }, "4294967296");
        no_int([&] { static_cast<void>(on.group_rank_of(large)); }, "4294967296");
        for (auto tag : {-1, Tag::most + 1})
            EXPECT_EQ(text_of<UsageError>([&] { on.send(x, 0, tag); }),
                      detail::cat("a message was given tag ", tag, "; tags are 0..16383"));
        on.broadcast(x, std::uint8_t{0});
        on.broadcast(x, std::size_t{0});
        on.send_recv(x, on.rank(), y, on.rank(), Tag::most);
        EXPECT_EQ(y, std::vector<int>(x.size(), 7));
    });
}

TEST(Conformance, ABatchThatThrowsSendsNothingAndTheChannelGoesOn) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto n = world.size();
        const auto next = (world.rank() + 1) % n;
        const auto before = (world.rank() + n - 1) % n;
        const auto wrong = words(world.rank(), 1);
        const auto right = words(world.rank(), 2);
        auto got = std::vector<int>(5, -1);
        const auto throwing = [&] {
            on.send(wrong, next);
            on.recv(got, before);
            throw std::runtime_error("boom");
        };
        EXPECT_EQ(text_of<std::runtime_error>([&] { on.batch(throwing); }), "boom");
        EXPECT_EQ(text_of<std::runtime_error>([&] { on.start().batch(throwing).wait(); }), "boom");
        EXPECT_EQ(got, std::vector<int>(5, -1));
        on.send_recv(right, next, got, before);
        EXPECT_EQ(got, words(before, 2));
        check_all<float>(on, world.rank(), 3);
    });
}

TEST(Conformance, ABatchOutlivesTheHandleThatItWasBegunOn) {
    on_every_rank([](World& world) {
        const auto me = world.join({{"dp", rest}});
        auto on = me.on("dp");
        const auto next = (on.rank() + 1) % on.size();
        const auto before = (on.rank() + on.size() - 1) % on.size();
        auto mine = on.rank();
        auto theirs = -1;
        auto first = me.on("dp");
        first.batch([&] {
            on.send(mine, next);
            on.recv(theirs, before);
            const auto moved = std::move(first);
        });
        EXPECT_EQ(theirs, before);
        auto second = me.on("dp");
        EXPECT_THROW(second.batch([&] {
            const auto moved = std::move(second);
            throw std::runtime_error("boom");
        }),
                     std::runtime_error);
        on.barrier();
    });
}

TEST(Conformance, WhatAMemberSendsItselfIsWhatItReceivesFromItself) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto n = static_cast<std::size_t>(on.size());
        const auto r = static_cast<std::size_t>(on.rank());
        auto in_counts = std::vector<std::size_t>(n, 1);
        const auto out_counts = in_counts;
        in_counts[r] = 3;
        const auto in = std::vector<int>(n + 2);
        auto out = std::vector<int>(n, 7);
        EXPECT_EQ(text_of<UsageError>([&] { on.all_to_all_v(in, in_counts, out, out_counts); }),
                  detail::cat("all_to_all_v on 'dp' of mesh dp=", n, " was given 3 elements from group rank ",
                              r, " to itself and 1 from itself; both must be equal"));
        auto numbers = std::vector<int>{1, 2, 3};
        EXPECT_EQ(
            text_of<UsageError>([&] {
                on.batch([&] {
                    on.send(std::span(numbers).first(2), on.rank());
                    on.recv(std::span(numbers).last(2), on.rank());
                });
            }),
            detail::cat("send_recv on 'dp' of mesh dp=", n, " was given buffers that overlap; use two"));
        EXPECT_EQ(out, std::vector<int>(n, 7));
        on.barrier();
    });
}

TEST(Conformance, WhatIsNoMessageIsRefusedInABatchAndTheChannelGoesOn) {
    on_every_rank([](World& world) {
        auto me = world.join({{"dp", rest}}, {.over = {Axes("dp").separate("other")}});
        auto on = me.on("dp");
        auto other = me.on("other");
        auto x = 1.0f;
        auto y = 2.0f;
        auto word = std::string("a");
        auto earlier = on.start().barrier();
        const auto where = detail::cat("a batch on 'dp' of mesh dp=", world.size(),
                                       " is being collected; inside it call send, recv and send_recv, and "
                                       "nothing else on its channel");
        EXPECT_EQ(text_of<UsageError>([&] { on.batch([&] { on.all_reduce(x); }); }), where);
        EXPECT_EQ(text_of<UsageError>([&] { on.batch([&] { on.barrier(); }); }), where);
        EXPECT_EQ(text_of<UsageError>([&] { on.batch([&] { on.monitored_barrier(); }); }), where);
        EXPECT_EQ(text_of<UsageError>([&] { on.batch([&] { on.start().all_reduce(x).wait(); }); }), where);
        EXPECT_EQ(text_of<UsageError>(
                      [&] { on.batch([&] { on.start().send_recv(x, on.rank(), y, on.rank()).wait(); }); }),
                  where);
        EXPECT_EQ(text_of<UsageError>([&] { on.batch([&] { on.all_reduce(Buffers(x)); }); }), where);
        EXPECT_EQ(text_of<UsageError>([&] { on.batch([&] { on.start().all_reduce(Buffers(x)).wait(); }); }),
                  where);
        EXPECT_EQ(text_of<UsageError>([&] { on.batch([&] { on.broadcast_object(word); }); }), where);
        EXPECT_EQ(text_of<UsageError>([&] { on.batch([&] { on.batch([] {}); }); }), where);
        EXPECT_EQ(text_of<UsageError>([&] { on.batch([&] { earlier.wait(); }); }), where);
        EXPECT_EQ(text_of<UsageError>([&] { on.start().batch([&] { on.all_reduce(x); }).wait(); }), where);
        on.batch([&] {
            // Refused and caught inside, it leaves the batch as it was; other channels are free.
            EXPECT_EQ(text_of<UsageError>([&] { on.all_reduce(x); }), where);
            other.all_reduce(x, rankmesh::max);
        });
        EXPECT_EQ(x, 1.0f);
        earlier.wait();
        check_all<float>(on, world.rank(), 3);
    });
}

TEST(Conformance, MessagesToOneselfMeetAsOneOrAreRefused) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto r = world.rank();
        const auto n = world.size();
        const auto where = detail::cat("'dp' of mesh dp=", n);
        auto one = std::vector<float>(1);
        auto two = std::vector<float>(2);
        auto whole = std::vector<int>(1);
        const auto refused = [&](std::string_view operation) {
            return detail::cat(operation, " on ", where, " between group rank ", r,
                               " and itself would wait for ever; call both sides as one, by send_recv or in "
                               "a batch");
        };
        EXPECT_EQ(text_of<UsageError>([&] { on.send(one, r); }), refused("send"));
        EXPECT_EQ(text_of<UsageError>([&] { on.recv(one, r); }), refused("recv"));
        EXPECT_EQ(text_of<UsageError>([&] { on.start().send(one, r).wait(); }), refused("send"));
        EXPECT_EQ(text_of<UsageError>([&] { on.start().recv(one, r).wait(); }), refused("recv"));
        if (n > 1) {
            EXPECT_EQ(text_of<UsageError>([&] { on.send_recv(one, r, two, (r + 1) % n); }),
                      refused("send_recv"));
            EXPECT_EQ(text_of<UsageError>([&] { on.batch([&] { on.send_recv(one, (r + 1) % n, two, r); }); }),
                      refused("send_recv"));
        }
        EXPECT_EQ(text_of<UsageError>([&] { on.batch([&] { on.send(one, r); }); }),
                  detail::cat("a batch on ", where, " has 1 sends to group rank ", r,
                              " itself and 0 recvs from it; they must match"));
        EXPECT_EQ(text_of<UsageError>([&] {
                      on.batch([&] {
                          on.recv(one, r);
                          on.send(two, r);
                          on.recv(two, r);
                      });
                  }),
                  detail::cat("a batch on ", where, " has 1 sends to group rank ", r,
                              " itself and 2 recvs from it; they must match"));
        EXPECT_EQ(text_of<UsageError>([&] {
                      on.batch([&] {
                          on.send(one, r);
                          on.recv(two, r);
                      });
                  }),
                  detail::cat("a batch on ", where, " sends 1 f32 to itself and receives 2 f32"));
        EXPECT_EQ(text_of<UsageError>([&] {
                      on.batch([&] {
                          on.send(whole, r);
                          on.recv(one, r);
                      });
                  }),
                  detail::cat("a batch on ", where, " sends 1 i32 to itself and receives 1 f32"));
        check_all<float>(on, r, 3);
    });
}

TEST(Conformance, APositionThatIsNotThereIsRefused) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto n = world.size();
        const auto r = world.rank();
        auto in = std::vector<float>(static_cast<std::size_t>(n));
        auto out = std::vector<float>(static_cast<std::size_t>(n * n));
        const auto refused = [&](std::string_view operation, std::string_view preposition, int group_rank) {
            return detail::cat(operation, " on 'dp' of mesh dp=", n, " ", preposition, " group rank ",
                               group_rank, "; group ranks are 0..", n - 1);
        };
        EXPECT_EQ(text_of<UsageError>([&] { on.send(in, n); }), refused("send", "to", n));
        EXPECT_EQ(text_of<UsageError>([&] { on.recv(out, -1); }), refused("recv", "from", -1));
        EXPECT_EQ(text_of<UsageError>([&] { on.send_recv(in, -2, out, r); }), refused("send_recv", "to", -2));
        EXPECT_EQ(text_of<UsageError>([&] { on.send_recv(in, r, out, n); }), refused("send_recv", "from", n));
        EXPECT_EQ(text_of<UsageError>([&] { on.start().send(in, n).wait(); }), refused("send", "to", n));
        EXPECT_EQ(text_of<UsageError>([&] { on.batch([&] { on.send(in, n); }); }), refused("send", "to", n));
        EXPECT_EQ(text_of<UsageError>([&] { on.reduce(in, sum, n); }), refused("reduce", "to", n));
        EXPECT_EQ(text_of<UsageError>([&] { on.gather(in, out, -1); }), refused("gather", "to", -1));
        EXPECT_EQ(text_of<UsageError>([&] { on.scatter(out, in, n); }), refused("scatter", "from", n));
        EXPECT_EQ(text_of<UsageError>([&] { on.broadcast_object(in, n); }), refused("broadcast", "from", n));
        EXPECT_EQ(text_of<UsageError>([&] { on.broadcast(Buffers(in), n); }),
                  detail::cat("buffer 0 of a list: ", refused("broadcast", "from", n)));
        check_all<float>(on, r, 3);
    });
}

TEST(Conformance, AnObjectsLengthIsKnownToItsRootAlone) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        for (int root = 0; root < world.size(); ++root)
            for (auto length : {std::size_t{0}, std::size_t{1}, std::size_t{10'000}}) {
                const auto is_root = world.rank() == root;
                const auto text = std::string(length, static_cast<char>('a' + root));
                // Shorter, longer, or of the same length before.
                auto got = is_root ? text : std::string(static_cast<std::size_t>(world.rank()) * length, '?');
                on.broadcast_object(got, root);
                EXPECT_EQ(got, text);
                const auto numbers = words(root, 1, length);
                auto vector = is_root ? numbers : std::vector<int>{1, 2, 3};
                auto pending = on.start().broadcast_object(vector, root);
                on.barrier();
                pending.wait();
                EXPECT_EQ(vector, numbers);
            }
    });
}

TEST(Conformance, AnObjectIsReceivedWhateverLengthTheReceiverHadBefore) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto n = world.size();
        for (int from = 0; from < n && n > 1; ++from) {
            const auto to = (from + 1) % n;
            for (auto length : {std::size_t{0}, std::size_t{1}, std::size_t{10'000}}) {
                const auto text = std::string(length, static_cast<char>('a' + from));
                const auto numbers = words(from, 1, length);
                const auto between = words(from, 2);
                if (world.rank() == from) {
                    on.send_object(text, to);
                    on.send(between, to);
                    on.send_object(numbers, to);
                }
                if (world.rank() == to) {
                    auto got = std::string(static_cast<std::size_t>(from) * length, '?');
                    auto got_between = std::vector<int>(5);
                    auto got_numbers = std::vector<int>{1, 2, 3};
                    on.recv_object(got, from);
                    on.recv(got_between, from);
                    on.recv_object(got_numbers, from);
                    EXPECT_EQ(got, text);
                    EXPECT_EQ(got_between, between);
                    EXPECT_EQ(got_numbers, numbers);
                }
            }
        }
        on.barrier();
    });
}

TEST(Conformance, AnObjectIsNeitherPartOfABatchNorSentToOneself) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto n = world.size();
        const auto r = world.rank();
        const auto where = detail::cat("'dp' of mesh dp=", n);
        auto word = std::string("a");
        if (n > 1 && on.space() == Space::host) {
            const auto peer = (r + 1) % n;
            const auto refused = detail::cat("a batch on ", where,
                                             " is being collected; inside it call send, recv and send_recv, "
                                             "and nothing else on its channel");
            EXPECT_EQ(text_of<UsageError>([&] { on.batch([&] { on.send_object(word, peer); }); }), refused);
            EXPECT_EQ(text_of<UsageError>([&] { on.batch([&] { on.recv_object(word, peer); }); }), refused);
        }
        const auto itself = [&](std::string_view call) {
            return detail::cat(call, " on ", where, " between group rank ", r,
                               " and itself would wait for ever; copy the object");
        };
        EXPECT_EQ(text_of<UsageError>([&] { on.send_object(word, r); }), itself("send_object"));
        EXPECT_EQ(text_of<UsageError>([&] { on.recv_object(word, r); }), itself("recv_object"));
        EXPECT_EQ(text_of<UsageError>([&] { on.send_object(word, n); }),
                  detail::cat("send on ", where, " to group rank ", n, "; group ranks are 0..", n - 1));
        EXPECT_EQ(word, "a");
        check_all<float>(on, r, 3);
    });
}

TEST(Conformance, AMonitoredBarrierIsABarrierIfAllCome) {
    on_every_rank([](World& world) {
        auto me = world.join({{"dp", rest}}, {.over = {Axes("dp").separate("other")}});
        auto on = me.on("dp");
        auto other = me.on("other");
        // A value that rank 0 sets before it is seen by all after it.
        for (int step = 0; step < 20; ++step) {
            auto x = world.rank() == 0 ? step : -1;
            auto kind = other.start().broadcast(x, 0);
            if (step % 2 == 0)
                on.monitored_barrier();
            else
                on.start().monitored_barrier().wait();
            kind.wait();
            EXPECT_EQ(x, step);
        }
        auto first = on.start().monitored_barrier();
        auto sum = 1;
        on.all_reduce(sum);
        auto second = on.start().monitored_barrier();
        while (!first.done()) on.size();
        first.wait();
        second.wait();
        EXPECT_EQ(sum, world.size());
    });
}

TEST(Conformance, AMonitoredBarrierNamesWhoIsMissingAndOtherChannelsGoOn) {
    on_every_rank([](World& world) {
        const auto n = world.size();
        if (n == 1) return;
        // For the first and the last rank, which learn of it in different ways.
        for (auto missing : {0, n - 1}) {
            const auto start = missing == 0;
            auto me = world.join({{"dp", rest}}, {.over = {Axes("dp").separate("watched").within(500ms)}});
            auto on = me.on("dp");
            auto watched = me.on("watched");
            on.barrier();
            if (world.rank() == missing) {
                check_all<float>(on, world.rank(), 3);  // where it waits for the others
                continue;
            }
            auto said = std::string{};
            try {
                if (start)
                    watched.start().monitored_barrier().wait();
                else
                    watched.monitored_barrier();
                ADD_FAILURE() << "rank " << missing << " has not come";
            } catch (const Timeout& error) {
                said = error.what();
                EXPECT_EQ(error.missing, std::vector<int>{missing});
                // On MPI only group rank 0 receives messages from all.
                EXPECT_EQ(error.arrived.size() == static_cast<std::size_t>(n - 1),
                          missing > 0 || n == 2 || world.engine() != "mpi");
                for (const auto* part : {"the timeout of 500 ms expired on rank ", " in monitored_barrier",
                                         "on 'watched' of mesh dp=", ": arrived rank",
                                         "; 'watched' of mesh dp=", " cannot be used any more"})
                    EXPECT_NE(said.find(part), std::string::npos) << said;
                EXPECT_NE(said.find(detail::cat(", missing rank ", missing, " [dp=")), std::string::npos)
                    << said;
            }
            // It waits for the others in the first of its calls, and one that answers is never called gone.
            if (world.engine() != "mpi") {
                EXPECT_NE(said.find(detail::cat(" cannot be used any more; rank ", missing, " [dp=", missing,
                                                "] is in ")),
                          std::string::npos)
                    << said;
                EXPECT_EQ(said.find("gone"), std::string::npos) << said;
            }
            EXPECT_EQ(text_of<Timeout>([&] { watched.barrier(); }), said);
            EXPECT_EQ(text_of<Timeout>([&] { watched.start().barrier().wait(); }), said);
            check_all<float>(on, world.rank(), 3);
        }
    });
}
