// SPDX-License-Identifier: Apache-2.0
// Reductions that no engine has of its own: reproducible sums, locations, and functions of the caller.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/function.hpp>
#include <rankmesh/engine/location.hpp>

#include "conformance.hpp"
#include "engine/arithmetic.hpp"
#include "engine/exact_sum.hpp"
#include "operations.hpp"

using namespace rankmesh;

namespace {

constexpr auto counts = std::array<std::size_t, 4>{0, 1, 7, 9001};  // the last takes an engine several steps

/// Any finite value of T, of about `span` binary orders of magnitude.
template <class T>
T wild(std::mt19937_64& random, int span) {
    const auto fraction = static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;
    const auto value =
        std::ldexp(fraction, static_cast<int>(random() % static_cast<unsigned>(span)) - span / 2);
    if constexpr (detail::Half<T>)
        return T(static_cast<float>(value));
    else
        return static_cast<T>(value);
}
/// What rank `rank` contributes.
template <class T>
std::vector<T> wild_values(int rank, std::size_t count) {
    auto random = std::mt19937_64(static_cast<unsigned>(rank) + 1);
    auto values = std::vector<T>(count);
    for (auto& value : values) value = wild<T>(random, detail::Half<T> ? 20 : 200);
    return values;
}
template <class T>
T as(double value) {
    if constexpr (detail::Half<T>)
        return T(static_cast<float>(value));
    else
        return static_cast<T>(value);
}
template <class T>
void expect_same_bits(const std::vector<T>& given, const std::vector<T>& wanted, const std::string& what) {
    ASSERT_EQ(given.size(), wanted.size()) << what;
    for (std::size_t i = 0; i < given.size(); ++i)
        ASSERT_EQ(std::memcmp(&given[i], &wanted[i], sizeof(T)), 0) << what << ", element " << i;
}
/// The exact sums of elements `begin..begin+count` of the first `members` ranks.
template <class T>
std::vector<T> wanted_sums(const std::vector<int>& ranks, std::size_t members, std::size_t length,
                           std::size_t begin, std::size_t count) {
    auto sums = std::vector<detail::ExactSum>(count);
    for (std::size_t p = members; p-- > 0;) {
        const auto values = wild_values<T>(ranks[p], length);
        for (std::size_t i = 0; i < count; ++i) sums[i].add(dtype_of<T>::value, &values[begin + i], 1);
    }
    auto wanted = std::vector<T>{};
    for (auto& sum : sums) wanted.push_back(as<T>(sum.rounded(dtype_of<T>::value)));
    return wanted;
}

/// Runs every reduction of buffers, blocking or started, in place or not, and compares with `want(members,
/// length, begin, count)`, the reduction of those elements of the first members. `blank` fills what an
/// exclusive_scan leaves unchanged on rank 0.
template <class T, class R, class Values, class Want>
void check_all(Communicator& on, R by, Values&& values, Want&& want, bool keeps_first) {
    const auto n = static_cast<std::size_t>(on.size());
    const auto r = static_cast<std::size_t>(on.rank());
    const auto rank = on.world_rank(on.rank());
    for (auto count : counts) {
        const auto whole = want(n, count, 0, count);
        const auto of_part = want(n, count * n, r * count, count);
        const auto up_to_here = want(r + 1, count, 0, count);
        const auto before = r > 0 ? want(r, count, 0, count) : std::vector<T>(count);
        for (auto start : {false, true}) {
            const auto what = [&](const char* operation) {
                return detail::cat(operation, " of ", count, start ? ", started" : ", blocking");
            };
            const auto own = values(rank, count);
            auto out = std::vector<T>(count);
            start ? on.start().all_reduce(own, out, by).wait() : on.all_reduce(own, out, by);
            expect_same_bits(out, whole, what("all_reduce"));
            auto place = own;
            start ? on.start().all_reduce(place, by).wait() : on.all_reduce(place, by);
            expect_same_bits(place, out, what("all_reduce in place"));

            const auto root = static_cast<int>(count % n);
            auto at_root = std::vector<T>(on.rank() == root ? count : 0);
            start ? on.start().reduce(own, at_root, by, root).wait() : on.reduce(own, at_root, by, root);
            if (on.rank() == root) expect_same_bits(at_root, out, what("reduce"));
            place = own;
            start ? on.start().reduce(place, by, root).wait() : on.reduce(place, by, root);
            expect_same_bits(place, on.rank() == root ? out : own, what("reduce in place"));

            const auto all = values(rank, count * n);
            auto part = std::vector<T>(count);
            start ? on.start().reduce_scatter(all, part, by).wait() : on.reduce_scatter(all, part, by);
            expect_same_bits(part, of_part, what("reduce_scatter"));
            place = all;
            start ? on.start().reduce_scatter(place, by).wait() : on.reduce_scatter(place, by);
            expect_same_bits(std::vector(place.begin() + static_cast<std::ptrdiff_t>(r * count),
                                         place.begin() + static_cast<std::ptrdiff_t>((r + 1) * count)),
                             part, what("reduce_scatter in place"));

            start ? on.start().scan(own, out, by).wait() : on.scan(own, out, by);
            expect_same_bits(out, up_to_here, what("scan"));
            place = own;
            start ? on.start().scan(place, by).wait() : on.scan(place, by);
            expect_same_bits(place, out, what("scan in place"));

            const auto kept = values(rank + 100, count);
            out = kept;
            start ? on.start().exclusive_scan(own, out, by).wait() : on.exclusive_scan(own, out, by);
            if (r > 0)
                expect_same_bits(out, before, what("exclusive_scan"));
            else
                expect_same_bits(out, keeps_first ? kept : std::vector<T>(count), what("exclusive_scan"));
            place = own;
            start ? on.start().exclusive_scan(place, by).wait() : on.exclusive_scan(place, by);
            expect_same_bits(place, r == 0 && keeps_first ? own : out, what("exclusive_scan in place"));
        }
    }
}

template <class T>
void check_sums(Communicator& on) {
    const auto ranks = on.world_ranks();
    check_all<T>(
        on, reproducible_sum, wild_values<T>,
        [&](std::size_t members, std::size_t length, std::size_t begin, std::size_t count) {
            return wanted_sums<T>(ranks, members, length, begin, count);
        },
        false);
}

/// A matrix of the numbers modulo 2^16, whose products depend on their order.
struct Matrix {
    std::uint16_t a, b, c, d;
};
constexpr auto product = [](const Matrix& x, const Matrix& y) {
    const auto of = [](unsigned p, unsigned q, unsigned r, unsigned s) {
        return static_cast<std::uint16_t>(p * q + r * s);
    };
    return Matrix{of(x.a, y.a, x.b, y.c), of(x.a, y.b, x.b, y.d), of(x.c, y.a, x.d, y.c),
                  of(x.c, y.b, x.d, y.d)};
};
/// Of no size that an engine has.
struct Range {
    float least;
    float most;
    float seen;
};
constexpr auto united = [](const Range& x, const Range& y) {
    return Range{std::min(x.least, y.least), std::max(x.most, y.most), x.seen + y.seen};
};

template <class T, class F, class Of>
void check_function(Communicator& on, auto by, F f, Of of) {
    const auto ranks = on.world_ranks();
    const auto values = [&](int rank, std::size_t count) {
        auto made = std::vector<T>{};
        for (std::size_t i = 0; i < count; ++i) made.push_back(of(rank, i));
        return made;
    };
    check_all<T>(
        on, by, values,
        [&](std::size_t members, std::size_t, std::size_t begin, std::size_t count) {
            auto wanted = std::vector<T>{};
            for (std::size_t i = begin; i < begin + count; ++i) {
                auto all = of(ranks[0], i);
                for (std::size_t p = 1; p < members; ++p) all = f(all, of(ranks[p], i));
                wanted.push_back(all);
            }
            return wanted;
        },
        true);
}

/// Takes every rank's share of `values`, cut where `seed` says, with `sum(begin, end)` of this rank's.
std::pair<std::size_t, std::size_t> share(const Communicator& on, std::size_t length, unsigned seed) {
    auto random = std::mt19937(seed);
    auto cuts = std::vector<std::size_t>{0, length};
    for (int i = 1; i < on.size(); ++i) cuts.push_back(random() % (length + 1));
    std::ranges::sort(cuts);
    const auto r = static_cast<std::size_t>(on.rank());
    return {cuts[r], cuts[r + 1]};
}

template <class T>
void check_spread(Communicator& on, Communicator& alone) {
    for (auto length : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{5000}})
        for (unsigned seed = 0; seed < 3; ++seed) {
            const auto x = wild_values<T>(static_cast<int>(seed), length);
            const auto y = wild_values<T>(static_cast<int>(seed) + 50, length);
            const auto [begin, end] = share(on, length, seed);
            const auto mine = [&](const std::vector<T>& all) {
                return std::span(all).subspan(begin, end - begin);
            };
            const auto same = [&](T a, T b) { return std::memcmp(&a, &b, sizeof(T)) == 0; };
            EXPECT_TRUE(same(on.reproducible_sum(mine(x)), alone.reproducible_sum(x))) << length;
            EXPECT_TRUE(same(on.reproducible_dot(mine(x), mine(y)), alone.reproducible_dot(x, y))) << length;
        }
}

/// Sums of one element a rank: what that rank's number gives.
template <class Of>
double sum_of(Communicator& on, Of of) {
    auto value = of(on.rank());
    on.all_reduce(value, reproducible_sum);
    const auto whole = on.reproducible_sum(of(on.rank()));
    EXPECT_EQ(std::bit_cast<std::uint64_t>(value), std::bit_cast<std::uint64_t>(whole));
    return value;
}

}  // namespace

TEST(Conformance, ReproducibleSumsOfBuffersAreExactUntilRounded) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp").host();
        check_sums<double>(on);
        check_sums<float>(on);
        check_sums<f16>(on);
        check_sums<bf16>(on);
    });
}

TEST(Conformance, ReproducibleSumsAreTheSameHoweverSpread) {
    on_every_rank([](World& world) {
        auto here = world.join({{"dp", rest}, {"one", 1}});
        auto on = here.on("dp").host();
        auto alone = here.on("one").host();
        check_spread<double>(on, alone);
        check_spread<float>(on, alone);
        check_spread<f16>(on, alone);
        check_spread<bf16>(on, alone);
    });
}

TEST(Conformance, ReproducibleSumsKeepNaNInfinityAndMinusZero) {
    constexpr auto infinity = std::numeric_limits<double>::infinity();
    constexpr auto greatest = std::numeric_limits<double>::max();
    on_every_rank([&](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp").host();
        const auto last = on.size() - 1;
        const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
        EXPECT_EQ(bits(sum_of(on, [](int) { return -0.0; })), bits(-0.0));
        EXPECT_EQ(bits(sum_of(on, [&](int r) { return r == last ? 0.0 : -0.0; })), bits(0.0));
        EXPECT_EQ(bits(sum_of(on, [&](int r) { return r == last ? -std::nan("7") : infinity; })),
                  bits(std::numeric_limits<double>::quiet_NaN()));
        EXPECT_EQ(sum_of(on, [&](int r) { return r == 0 ? infinity : -greatest; }), infinity);
        EXPECT_EQ(sum_of(on, [&](int r) { return r == 0 ? -infinity : 1.0; }), -infinity);
        EXPECT_EQ(on.reproducible_sum(std::vector<double>{}), 0.0);
        if (last == 0) return;
        EXPECT_EQ(bits(sum_of(on, [&](int r) { return r == 0 ? infinity : -infinity; })),
                  bits(std::numeric_limits<double>::quiet_NaN()));
        // No partial sum overflows.
        auto mine = std::vector<double>{};
        if (on.rank() == 0) mine = {greatest, greatest, 1};
        if (on.rank() == last) mine = {-greatest, -greatest};
        EXPECT_EQ(on.reproducible_sum(mine), 1);
        EXPECT_EQ(sum_of(on, [&](int) { return greatest; }), infinity);
    });
}

TEST(Conformance, ReproducibleSumsOfLongBuffersTakeSeveralPieces) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp").host();
        const auto n = static_cast<double>(on.size());
        auto x = std::vector<double>(600'001);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i) + 0x1p-20 * on.rank();
        on.all_reduce(x, reproducible_sum);
        for (std::size_t i = 0; i < x.size(); ++i)
            ASSERT_EQ(x[i], n * static_cast<double>(i) + 0x1p-21 * n * (n - 1)) << i;
    });
}

TEST(Conformance, FunctionsCombineTheRanksInTheirOrder) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp").host();
        check_function<Matrix>(on, ordered(product), product, [](int rank, std::size_t i) {
            const auto at = static_cast<std::uint16_t>(static_cast<std::size_t>(rank) * 31 + i * 7 + 1);
            return Matrix{at, 1, static_cast<std::uint16_t>(at * 3), 2};
        });
        check_function<Range>(on, commutative(united), united, [](int rank, std::size_t i) {
            const auto at = static_cast<float>((rank * 7 + static_cast<int>(i)) % 101);
            return Range{at, at, 1};
        });
    });
}

TEST(Conformance, LocationsAreThoseOfTheLowestIndexOfEqualValues) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp").host();
        const auto check = [&]<class T>(T) {
            const auto of = [](int rank, std::size_t i) {
                auto located = Located<T>{};
                const auto number = (rank * 5 + static_cast<int>(i) * 3) % 4;
                located.value = operations::make<T>(number);
                if constexpr (std::floating_point<T>)
                    if (i % 6 == 5 && number == 3) located.value = std::numeric_limits<T>::quiet_NaN();
                located.index = 1000 - rank;
                return located;
            };
            const auto nan_first = [](const auto& x) { return x.value != x.value; };
            const auto less = [&](const Located<T>& x, const Located<T>& y) {
                if constexpr (std::floating_point<T>)
                    if (nan_first(x) || nan_first(y)) return nan_first(x) && !nan_first(y);
                return x.value < y.value;
            };
            const auto greater = [&](const Located<T>& x, const Located<T>& y) {
                if constexpr (std::floating_point<T>)
                    if (nan_first(x) || nan_first(y)) return nan_first(x) && !nan_first(y);
                return x.value > y.value;
            };
            const auto by = [](auto before) {
                return [before](const Located<T>& x, const Located<T>& y) {
                    if (before(x, y)) return x;
                    if (before(y, x)) return y;
                    return x.index < y.index ? x : y;
                };
            };
            check_function<Located<T>>(on, min_location, by(less), of);
            check_function<Located<T>>(on, max_location, by(greater), of);
        };
        check(double{});
        check(std::int64_t{});
    });
}
