// SPDX-License-Identifier: Apache-2.0
// Lengths and counts that do not fit are refused before anything moves, in elements of the caller's type.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/threads.hpp>

#include "engine/channel.hpp"
#include "support/text_of.hpp"

using namespace rankmesh;

namespace {

using Counts = std::vector<std::size_t>;

struct Three {
    int values[3];
};

template <class T>
void check(Communicator& on) {
    const auto where = detail::cat(" on 'dp' of mesh dp=", on.size(), " was given ");
    const auto gather = [&](std::size_t in, std::size_t out, const Counts& counts) {
        const auto own = std::vector<T>(in);
        auto all = std::vector<T>(out);
        return text_of<UsageError>([&] { on.all_gather_v(own, all, counts); });
    };
    EXPECT_EQ(gather(1, 4, {1, 2}), "all_gather_v" + where + "4 elements out; the counts {1, 2} sum to 3");
    EXPECT_EQ(gather(3, 2, {1, 1}),
              detail::cat("all_gather_v", where, "3 elements in; the counts {1, 1} ask group rank ",
                          on.rank(), " for 1"));
    constexpr auto most = std::numeric_limits<std::size_t>::max();
    EXPECT_EQ(gather(1, 0, {most, 1}), detail::cat("all_gather_v", where, "0 elements out; the counts {",
                                                   most, ", 1} sum to more than memory has"));

    const auto exchange = [&](std::size_t in, const Counts& in_counts, std::size_t out,
                              const Counts& out_counts) {
        const auto given = std::vector<T>(in);
        auto taken = std::vector<T>(out);
        return text_of<UsageError>([&] { on.all_to_all_v(given, in_counts, taken, out_counts); });
    };
    EXPECT_EQ(exchange(2, {1, 1}, 5, {1, 1}),
              "all_to_all_v" + where + "5 elements out; the counts {1, 1} sum to 2");
    EXPECT_EQ(exchange(5, {1, 1}, 2, {1, 1}),
              "all_to_all_v" + where + "5 elements in; the counts {1, 1} sum to 2");
    EXPECT_EQ(exchange(2, {1, 1}, 4, {2, 2}),
              detail::cat("all_to_all_v", where, "1 elements from group rank ", on.rank(),
                          " to itself and 2 from itself; both must be equal"));
}

}  // namespace

TEST(Check, CountsThatDoNotAddUpAreToldInElements) {
    threads::run(2, [](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        check<float>(on);
        check<Three>(on);
        on.barrier();
    });
}

TEST(Check, LengthsAreWhatTheOperationAsksFor) {
    constexpr auto ranks = 3;
    const auto mesh = Mesh{{"dp", ranks}};
    const auto label = detail::Label{.mesh = to_string(mesh),
                                     .name = "",
                                     .axes = "dp",
                                     .member = "",
                                     .ranks = {mesh.group(0, mesh.axes("dp"))}};
    const auto line = detail::CommunicatorState{.world = nullptr,
                                                .channel = nullptr,
                                                .label = std::make_shared<const detail::Label>(label),
                                                .timeout = detail::Duration::max(),
                                                .rank = 1,
                                                .size = ranks};
    using Op = detail::Operation;
    // What is asked of the lengths of both, and whether it is asked of the root alone.
    struct Rule {
        Op operation;
        bool of_the_root;
        bool (*holds)(std::size_t in, std::size_t out);
    };
    const auto equal = [](std::size_t in, std::size_t out) { return in == out; };
    const auto gathers = [](std::size_t in, std::size_t out) { return out == in * ranks; };
    const auto scatters = [](std::size_t in, std::size_t out) { return in == out * ranks; };
    const auto parts = [](std::size_t in, std::size_t out) { return in == out && in % ranks == 0; };
    const int in[16] = {};
    int out[16] = {};
    for (const auto& rule :
         {Rule{Op::all_reduce, false, equal}, Rule{Op::reduce, true, equal}, Rule{Op::scan, false, equal},
          Rule{Op::shift, false, equal}, Rule{Op::gather, true, gathers},
          Rule{Op::all_gather, false, gathers}, Rule{Op::scatter, true, scatters},
          Rule{Op::reduce_scatter, false, scatters}, Rule{Op::all_to_all, false, parts}})
        for (std::size_t i = 0; i < 16; ++i)
            for (std::size_t o = 0; o < 16; ++o)
                for (auto root : {0, 1}) {
                    const auto call = detail::Call{.operation = rule.operation,
                                                   .argument = root,
                                                   .in = in,
                                                   .out = out,
                                                   .in_count = i,
                                                   .out_count = o};
                    const auto text = text_of<UsageError>([&] { detail::check(call, line); });
                    const auto fits = (rule.of_the_root && root != line.rank) || rule.holds(i, o);
                    EXPECT_EQ(text.empty(), fits) << to_string(call) << ": " << i << ", " << o;
                    const auto told =
                        detail::cat(to_string(rule.operation), " on 'dp' of mesh dp=3 (3 ranks) was given ",
                                    i, " elements in and ", o, " out; ");
                    EXPECT_TRUE(fits || text.starts_with(told)) << text;
                }
}

TEST(Check, OfManyCountsTheFirstAreTold) {
    for (auto [ranks, told] : {std::pair{16, "{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}"},
                               std::pair{17, "{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ...}"}})
        threads::run(ranks, [&](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp");
            const auto counts = Counts(static_cast<std::size_t>(ranks), 1);
            const auto in = 1.0F;
            auto out = 0.0F;
            EXPECT_EQ(text_of<UsageError>([&] { on.all_gather_v(in, out, counts); }),
                      detail::cat("all_gather_v on 'dp' of mesh dp=", ranks,
                                  " was given 1 elements out; the counts ", told, " sum to ", ranks));
            on.barrier();
        });
}

TEST(Check, ARootOrDistanceOfAWiderTypeIsTakenWhereItIsAnInt) {
    threads::run(3, [](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto told = [](const std::string& n) {
            return n +
                   " was given as a rank, a root, a distance or a tag; those are from -2147483648 to "
                   "2147483647";
        };
        auto x = 1.0F;
        EXPECT_EQ(text_of<UsageError>([&] { on.reduce(x, std::int64_t{1} << 32); }), told("4294967296"));
        EXPECT_EQ(text_of<UsageError>([&] { on.start().reduce(x, ~std::uint64_t{0}).wait(); }),
                  told("18446744073709551615"));
        EXPECT_EQ(text_of<UsageError>([&] { on.shift(x, -(std::int64_t{1} << 31) - 1); }),
                  told("-2147483649"));
        on.reduce(x, std::size_t{2});
        EXPECT_EQ(x, on.rank() == 2 ? 3.0F : 1.0F);
        auto y = on.rank();
        on.shift(y, std::int64_t{-1});
        EXPECT_EQ(y, (on.rank() + 1) % 3);
    });
}
