// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters of parts of different lengths, and counts of any integer type.
#include <gtest/gtest.h>

#include <cstdint>
#include <list>

#include <rankmesh/core/text.hpp>

#include "conformance.hpp"

using namespace rankmesh;

namespace {

struct Pair {
    std::int32_t a;
    float b;
    friend bool operator==(const Pair&, const Pair&) = default;
};

template <class T>
T element(int rank, int i) {
    if constexpr (std::is_same_v<T, Pair>)
        return {rank, static_cast<float>(i)};
    else
        return static_cast<T>(rank * 10 + i % 10);
}

/// Every length pattern, root and way to call.
template <class T>
void check_parts(Communicator& on) {
    const auto n = on.size();
    for (auto pattern : {0, 1, 2, 3})
        for (int root = 0; root < n; ++root)
            for (auto start : {false, true}) {
                auto counts = std::vector<int>{};
                for (int i = 0; i < n; ++i)
                    counts.push_back(pattern == 3 ? 20'000 + i : (i + pattern) * pattern % 5);
                const auto mine = counts[static_cast<std::size_t>(on.rank())];
                auto own = std::vector<T>{};
                for (int i = 0; i < mine; ++i) own.push_back(element<T>(on.rank(), i));
                auto wanted = std::vector<T>{};
                for (int r = 0; r < n; ++r)
                    for (int i = 0; i < counts[static_cast<std::size_t>(r)]; ++i)
                        wanted.push_back(element<T>(r, i));
                const auto is_root = on.rank() == root;
                auto all = std::vector<T>(is_root ? wanted.size() : 0);
                const auto given = is_root ? counts : std::vector<int>{};
                if (start)
                    on.start().gather_v(own, all, given, root).wait();
                else
                    on.gather_v(own, all, given, root);
                EXPECT_TRUE(!is_root || all == wanted) << "gather_v, pattern " << pattern << " to " << root;
                auto part = std::vector<T>(own.size());
                if (start)
                    on.start().scatter_v(all, given, part, root).wait();
                else
                    on.scatter_v(all, given, part, root);
                EXPECT_EQ(part == own, true) << "scatter_v, pattern " << pattern << " from " << root;
            }
}

}  // namespace

TEST(Conformance, PartsOfARoot_WhenLengthsDiffer_AreGatheredAndScattered) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        check_parts<float>(on);
        check_parts<std::uint8_t>(on);
        check_parts<Pair>(on);
    });
}

TEST(Conformance, PartsOfARoot_WhenLengthsDisagree_AreTold) {
    on_every_rank([](World& world) {
        const auto compares = world.engine() == "threads" || world.engine() == "gloo" || is_checked();
        if (world.size() == 1 || !compares) return;
        const auto differ = [&](const std::string& name, auto&& call) {
            auto on = world.join({{name, rest}}).on(name);
            const auto text = text_of<Disagreement>([&] { call(on); });
            if (world.rank() > 1) return;  // on Gloo only the two hear of it
            EXPECT_NE(text.find("rank "), std::string::npos) << name << ": " << text;
        };
        const auto counts = std::vector<int>(static_cast<std::size_t>(world.size()), 2);
        auto all = std::vector<int>(counts.size() * 2);
        // Rank 1 has one element more than the root counts.
        auto own = std::vector<int>(world.rank() == 1 ? 3 : 2);
        differ("gather", [&](auto& on) { on.gather_v(own, all, counts, 0); });
        differ("scatter", [&](auto& on) { on.scatter_v(all, counts, own, 0); });
    });
}

TEST(Conformance, Counts_OfAnyIntegerType_AreTaken) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto n = static_cast<std::size_t>(on.size());
        auto own = std::vector<int>{on.rank(), on.rank()};
        auto wanted = std::vector<int>{};
        for (int i = 0; i < on.size(); ++i) wanted.insert(wanted.end(), 2, i);
        const auto check = [&](const auto& counts) {
            auto all = std::vector<int>(2 * n);
            on.all_gather_v(own, all, counts);
            EXPECT_EQ(all, wanted);
            on.start().all_gather_v(own, all, counts).wait();
            auto across = std::vector<int>(2 * n);
            on.all_to_all_v(all, counts, across, std::vector<std::size_t>(n, 2));
            on.start().all_to_all_v(all, std::vector<std::size_t>(n, 2), across, counts).wait();
            for (std::size_t i = 0; i < across.size(); ++i) EXPECT_EQ(across[i], on.rank());
        };
        check(std::vector<int>(n, 2));
        check(std::vector<std::uint8_t>(n, 2));
        check(std::vector<long long>(n, 2));
        check(std::list<short>(n, 2));
        auto all = std::vector<int>(2 * n);
        auto negative = std::vector<int>(n, 2);
        negative.back() = -1;
        const auto told = detail::cat("the count of group rank ", n - 1, " is -1; counts are 0 or more");
        EXPECT_EQ(text_of<UsageError>([&] { on.all_gather_v(own, all, negative); }), told);
        EXPECT_EQ(text_of<UsageError>([&] { on.gather_v(own, all, negative); }), told);
        EXPECT_EQ(text_of<UsageError>([&] { on.start().scatter_v(all, negative, own).wait(); }), told);
        EXPECT_EQ(text_of<UsageError>([&] { on.all_gather_v(own, all, std::vector<int>(n + 1, 2)); }),
                  detail::cat("all_gather_v on ", on.label(), " was given ", n + 1,
                              " counts; it takes one a member, ", n));
        if (on.rank() == 0) {
            EXPECT_EQ(text_of<UsageError>([&] { on.gather_v(own, all, std::vector<int>(n + 1, 2)); }),
                      detail::cat("gather_v on ", on.label(), " was given ", n + 1,
                                  " counts; it takes one a member, ", n));
            auto wrong = std::vector<int>(3);
            EXPECT_EQ(text_of<UsageError>([&] {
                          on.gather_v(wrong, all, std::vector<int>(n, 2));
                      }).find("gather_v on"),
                      0U);
            EXPECT_EQ(text_of<UsageError>([&] {
                          on.scatter_v(all, std::vector<int>(n, 2), wrong);
                      }).find("scatter_v on"),
                      0U);
        }
        on.barrier();
    });
}
