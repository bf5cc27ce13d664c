// SPDX-License-Identifier: Apache-2.0
// In checked mode a rank that waits for a message meets the collective in which the others wait: all throw,
// with each rank's call, and the group goes on.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include <rankmesh/engine/threads.hpp>

#include "checked.hpp"
#include "support/text_of.hpp"

using namespace rankmesh;

namespace {

struct Case {
    std::string text;  // of the call in the error; "" where the peers decide it
    std::function<void(Communicator&)> call;
};

/// What one rank calls while the others call a collective: messages with the next rank, whoever that is.
std::vector<Case> messages() {
    const auto next = [](Communicator& on) { return (on.rank() + 1) % on.size(); };
    const auto before = [](Communicator& on) { return (on.rank() + on.size() - 1) % on.size(); };
    const auto of_three = [](auto&& call) {
        return [call](Communicator& on) {
            auto in = ones<float>(3), out = ones<float>(3);
            call(on, in, out);
        };
    };
    using Values = std::vector<float>;
    return {
        {"send of 3 f32 to ", of_three([=](auto& on, Values& in, Values&) { on.send(in, next(on)); })},
        {"recv of 3 f32 from ", of_three([=](auto& on, Values&, Values& out) { on.recv(out, before(on)); })},
        {"recv of 3 f32 from any rank",
         of_three([](auto& on, Values&, Values& out) { on.recv(out, any_rank, 7); })},
        {"send of 3 f32 to ",
         of_three([=](auto& on, Values& in, Values&) { on.start().send(in, next(on)).wait(); })},
        {"recv of 3 f32 from ",
         of_three([=](auto& on, Values&, Values& out) { on.start().recv(out, before(on)).wait(); })},
        {"recv of 3 f32 from any rank",
         of_three([](auto& on, Values&, Values& out) { on.start().recv(out, any_rank).wait(); })},
        {"recv of 3 f32 from ",
         of_three([=](auto& on, Values& in, Values& out) { on.send_recv(in, next(on), out, before(on)); })},
        {"send of 3 f32 to ", of_three([=](auto& on, Values& in, Values& out) {
             on.batch([&] {
                 on.send(in, before(on), 1);
                 on.send(in, next(on), 2);
                 on.recv(out, before(on), 2);
             });
         })},
        {"probe from ", [=](auto& on) { static_cast<void>(on.probe(before(on))); }},
    };
}

std::vector<Case> collectives() {
    const auto of_length = [](std::size_t n, auto&& call) {
        return [n, call](Communicator& on) {
            auto x = ones<float>(n);
            call(on, x);
        };
    };
    using Values = std::vector<float>;
    return {
        {"barrier", [](Communicator& on) { on.barrier(); }},
        {"all_reduce of 3 f32 by sum", of_length(3, [](auto& on, Values& x) { on.all_reduce(x); })},
        {"all_reduce of 9000 f32 by sum",
         of_length(9000, [](auto& on, Values& x) { on.start().all_reduce(x).wait(); })},
        {"broadcast of 3 f32 from 0", of_length(3, [](auto& on, Values& x) { on.broadcast(x, 0); })},
        {"all_gather_v of f32",
         [](Communicator& on) {
             const auto n = static_cast<std::size_t>(on.size());
             auto all = ones<float>(n);
             on.all_gather_v(ones<float>(1), all, std::vector<std::size_t>(n, 1));
         }},
    };
}

}  // namespace

TEST(Checked, AMessageMeetsTheCollectiveInWhichTheOthersWait) {
    for (auto size : {2, 3, 9}) {  // the last one compares hashes
        auto heard = std::atomic<int>{0};
        const auto ours = messages(), theirs = collectives();
        threads::run(
            size,
            [&](World& world) {
                auto on = world.join({{"dp", rest}}).on("dp");
                for (std::size_t i = 0; i < ours.size(); ++i)
                    for (std::size_t j = 0; j < theirs.size(); ++j) {
                        if (size == 9 && j > 1) continue;
                        const auto odd = static_cast<int>((i + j) % static_cast<std::size_t>(size));
                        const auto text = text_of<Disagreement>(
                            [&] { (world.rank() == odd ? ours[i] : theirs[j]).call(on); });
                        EXPECT_NE(text.find(detail::cat("rank ", odd, " [dp=", odd, "]: ", ours[i].text)),
                                  std::string::npos)
                            << text;
                        EXPECT_NE(text.find("]: " + theirs[j].text), std::string::npos) << text;
                        ++heard;
                        expect_works(on);
                    }
            },
            checked);
        EXPECT_EQ(heard, size * static_cast<int>(ours.size() * (size == 9 ? 2 : theirs.size())));
    }
}

TEST(Checked, AMessageWhosePeerWaitsInAnotherMessageMeetsTheCollective) {
    for (auto size : {3, 5}) {
        threads::run(
            size,
            [&](World& world) {
                auto on = world.join({{"dp", rest}}).on("dp");
                // Rank 0 waits for rank 1, which waits for rank 2, and so on to the last one.
                for (int turn = 0; turn < 3; ++turn) {
                    auto x = ones<int>(2);
                    const auto text = text_of<Disagreement>([&] {
                        if (world.rank() == size - 1)
                            on.barrier();
                        else
                            on.recv(x, world.rank() + 1);
                    });
                    for (int rank = 0; rank + 1 < size; ++rank)
                        EXPECT_NE(text.find(detail::cat("rank ", rank, " [dp=", rank,
                                                        "]: recv of 2 i32 from ", rank + 1)),
                                  std::string::npos)
                            << text;
                    expect_works(on);
                }
            },
            checked);
    }
}

TEST(Checked, MessagesThatAreOnlyStartedPassACollective) {
    threads::run(
        3,
        [](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp");
            for (int turn = 0; turn < 20; ++turn) {
                auto in = std::vector{world.rank(), turn}, out = std::vector{0, 0};
                // Each rank is late in turn, so that the others refuse its message for a while.
                auto sent = on.start().send(in, (on.rank() + 1) % 3);
                if (turn % 3 == on.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(70));
                expect_works(on);
                auto received = turn % 2 == 0 ? on.start().recv(out, (on.rank() + 2) % 3)
                                              : on.start().recv(out, any_rank);
                if (turn % 3 == on.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(70));
                auto x = ones<int>(5000);
                if (turn % 4 == 0) on.start().all_reduce(x).wait();
                received.wait();
                sent.wait();
                EXPECT_EQ(out, (std::vector{(on.rank() + 2) % 3, turn}));
            }
        },
        checked);
}

TEST(Checked, AMessageThatWasStartedBeforeIsNotGivenUpWithAnother) {
    threads::run(
        2,
        [](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp");
            auto first = ones<int>(1), second = ones<int>(2), third = std::vector{5, 6, 7};
            if (world.rank() == 0) {
                auto kept = on.start().send(third, 1, 3);
                EXPECT_THROW(on.send(second, 1), Disagreement);
                expect_works(on);
                kept.wait();
            } else {
                EXPECT_THROW(on.barrier(), Disagreement);
                expect_works(on);
                auto out = ones<int>(3);
                on.recv(out, 0, 3);
                EXPECT_EQ(out, third);
            }
            expect_works(on);
        },
        checked);
}
