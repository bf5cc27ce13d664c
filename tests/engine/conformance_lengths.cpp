// SPDX-License-Identifier: Apache-2.0
// Lengths at which engines change their ways, or cut what they send.
#include <array>

#include "conformance.hpp"
#include "operations.hpp"

using operations::Values;
using rankmesh::Communicator;
using rankmesh::rest;
using rankmesh::World;

namespace {

/// Compares sums of parts of `count` elements, in place or not.
template <class T>
void check_sums(Communicator& on, int me, std::size_t count, bool in_place) {
    SCOPED_TRACE(rankmesh::detail::cat(count, " elements of ", sizeof(T), in_place ? " in place" : ""));
    const auto ranks = on.world_ranks();
    const auto n = ranks.size();
    const auto begin = static_cast<std::size_t>(on.rank()) * count;
    // Element i and element i + period are equal, and so are their sums.
    constexpr auto period = std::size_t{11};
    auto own = std::array<T, period>{};
    auto sum = std::array<T, period>{};
    for (std::size_t i = 0; i < period; ++i) {
        ASSERT_EQ(operations::value<T>(me, i), operations::value<T>(me, i + period));
        own[i] = operations::value<T>(me, i);
        sum[i] = operations::reduced<T>(ranks, i, rankmesh::Reduction::sum);
    }
    const auto whole = Values<T>(n * count, [&](std::size_t i) { return own[i % period]; });
    const auto sums = [&](std::size_t first) {
        return Values<T>(count, [&](std::size_t i) { return sum[(first + i) % period]; });
    };

    auto reduced = Values<T>(count, [&](std::size_t i) { return whole[i]; });
    if (in_place) {
        on.all_reduce(reduced);
    } else {
        const auto given = reduced;
        on.all_reduce(given, reduced);
        operations::expect_same(given, Values<T>(count, [&](std::size_t i) { return whole[i]; }),
                                "the input");
    }
    operations::expect_same(reduced, sums(0), "all_reduce");

    if (in_place) {
        auto held = whole;
        on.reduce_scatter(held);
        const auto wanted = sums(begin);
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(held[begin + i], wanted[i]) << "element " << i;
    } else {
        auto part = operations::blank<Values<T>>(count);
        on.reduce_scatter(whole, part);
        operations::expect_same(part, sums(begin), "reduce_scatter");
    }
}

}  // namespace

TEST(Conformance, SumsAreRightWhateverTheirLength) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        for (auto count : {16'385UL, 300'001UL})
            for (auto in_place : {false, true}) {
                check_sums<rankmesh::f16>(on, world.rank(), count, in_place);
                check_sums<float>(on, world.rank(), count, in_place);
            }
    });
}

// Checked mode moves up to 4096 bytes of a rank beside the comparison.
TEST(Conformance, Operations_AroundTheLengthsOfOneStep_AreRight) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto most = std::size_t{4096} / sizeof(double);
        const auto n = static_cast<std::size_t>(on.size());
        for (auto start : {false, true})
            for (auto count : {most - 1, most, most + 1, most / n, most / n + 1})
                for (auto& each : operations::Suite<double>(on, world.rank(), count).all(start))
                    each.finish();
    });
}
