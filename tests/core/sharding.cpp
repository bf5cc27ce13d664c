// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/sharding.hpp>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "core/shardings.hpp"

namespace rankmesh::tests {
namespace {

using Numbers = std::vector<std::int64_t>;

/// The list in pieces of `each`, the last ones shorter or empty.
std::vector<Numbers> in_pieces(const Numbers& list, int count, std::size_t each) {
    auto pieces = std::vector<Numbers>(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < list.size(); ++i) pieces[i / each].push_back(list[i]);
    return pieces;
}

std::size_t rounded_up(std::size_t size, std::size_t to) { return (size + to - 1) / to; }

/// What `rank` holds of a dimension, by cutting lists.
Numbers held(const Mesh& mesh, const Split::Dimension& cut, std::int64_t size, int rank) {
    auto list = Numbers(static_cast<std::size_t>(size));
    std::iota(list.begin(), list.end(), 0);
    if (cut.padded == 0) {
        for (const auto& axis : cut.axes) {
            const auto count = mesh.size(axis);
            const auto each = rounded_up(list.size(), static_cast<std::size_t>(count));
            list = in_pieces(list, count, each)[static_cast<std::size_t>(mesh.index(rank, axis))];
        }
        return list;
    }
    auto count = 1;
    auto index = 0;
    for (const auto& axis : cut.axes) {
        count *= mesh.size(axis);
        index = index * mesh.size(axis) + mesh.index(rank, axis);
    }
    const auto multiple = static_cast<std::size_t>(cut.padded);
    const auto padded = rounded_up(list.size(), multiple * static_cast<std::size_t>(count)) * multiple *
                        static_cast<std::size_t>(count);
    return in_pieces(list, count, padded / static_cast<std::size_t>(count))[static_cast<std::size_t>(index)];
}

RC_GTEST_PROP(Sharding, GivesEachRankWhatCuttingListsGivesIt, ()) {
    const auto mesh = any_mesh(5, any_in(0, 7), true);
    const auto shape = any_shape();
    const auto split = any_split(mesh, shape.size());
    const auto sharding = Sharding(mesh, shape, split);
    for (auto rank : ranks_of(mesh)) {
        const auto slice = sharding.slice(rank);
        for (std::size_t d = 0; d < shape.size(); ++d) {
            const auto cut = d < split.dimensions.size() ? split.dimensions[d] : Split::Dimension{};
            const auto expected = held(mesh, cut, shape[d], rank);
            auto listed = Numbers{};
            for (auto i = slice.ranges[d].begin; i < slice.ranges[d].end; ++i) listed.push_back(i);
            RC_ASSERT(listed == expected);
        }
    }
}

RC_GTEST_PROP(Sharding, SaysWhoHoldsEachElementOfEachPart, ()) {
    const auto mesh = any_mesh(4, any_in(0, 7), true);
    const auto shape = any_shape();
    const auto sharding = Sharding(mesh, shape, any_split(mesh, shape.size()));
    auto holders = std::map<std::pair<std::int64_t, int>, std::set<int>>{};
    for (auto rank : ranks_of(mesh))
        for (auto element : elements_of(sharding.slice(rank), shape))
            holders[{element, sharding.part(rank)}].insert(rank);
    auto all = std::int64_t{1};
    for (auto size : shape) all *= size;
    RC_ASSERT(static_cast<std::int64_t>(holders.size()) == all * sharding.parts());
    for (const auto& [what, expected] : holders) {
        auto at = Numbers(shape.size());
        auto rest_of = what.first;
        for (auto d = shape.size(); d-- > 0; rest_of /= shape[d]) at[d] = rest_of % shape[d];
        const auto found = detail::holders_of(sharding, at, what.second);
        RC_ASSERT(found.size() == static_cast<int>(expected.size()));
        auto listed = std::set<int>{};
        for (int i = 0; i < found.size(); ++i) {
            listed.insert(found.at(i));
            RC_ASSERT(found.below(found.at(i)) == i);
            RC_ASSERT(sharding.slice(found.at(i)) == sharding.slice_at(at));
        }
        RC_ASSERT(listed == expected);
    }
}

RC_GTEST_PROP(RankSet, CountsIntersectsAndFindsHostsAsListsDo, ()) {
    const auto set = [] {
        const auto mesh = any_mesh(4, any_in(0, 9), true);
        auto axes = AxisSet{};
        for (int a = 0; a < mesh.axis_count(); ++a)
            if (*rc::gen::arbitrary<bool>()) axes.insert({a});
        const auto group = mesh.group(*rc::gen::elementOf(ranks_of(mesh)), axes);
        auto digits = std::vector<Digit>{};
        for (int a = 0; a < mesh.axis_count(); ++a)
            if (axes.contains({a}) && mesh.size(AxisId{a}) > 1)
                digits.push_back(mesh.layout(AxisId{a}).digit(0));
        return std::pair(detail::RankSet(group[0], digits), std::set<int>(group.begin(), group.end()));
    };
    const auto [a, in_a] = set();
    const auto [b, in_b] = set();
    const auto host = any_in(1, 9);
    auto in_both = std::set<int>{};
    auto on_hosts = std::set<int>{};
    for (int rank = 0; rank < 256; ++rank) {
        RC_ASSERT(a.contains(rank) == in_a.contains(rank));
        RC_ASSERT(a.below(rank) == std::distance(in_a.begin(), in_a.lower_bound(rank)));
        if (in_a.contains(rank) && in_b.contains(rank)) in_both.insert(rank);
        if (in_a.contains(rank)) on_hosts.insert(rank - rank % host);
    }
    const auto same = [](const detail::RankSet& found, const std::set<int>& expected) {
        auto listed = std::set<int>{};
        for (int i = 0; i < found.size(); ++i) listed.insert(found.at(i));
        return listed == expected && found.size() == static_cast<int>(expected.size());
    };
    const auto both = common(a, b);
    const auto hosts = hosts_of(a, host);
    if (both) RC_ASSERT(same(*both, in_both));
    if (hosts) RC_ASSERT(same(*hosts, on_hosts));
    RC_TAG(std::string(both ? "both" : "-") + (hosts ? " hosts" : " -"));
}

TEST(RankSet, SaysWhichRanksAreInBothWhereStridesDivide) {
    const auto a = detail::RankSet(64, {{4, 1}, {8, 8}});
    const auto b = detail::RankSet(64, {{2, 2}, {2, 16}, {3, 192}});
    const auto both = common(a, b);
    ASSERT_TRUE(both);
    EXPECT_EQ(both->size(), 4);
    EXPECT_EQ(both->last(), 82);
    ASSERT_TRUE(hosts_of(a, 16));
    EXPECT_EQ(hosts_of(a, 16)->size(), 4);
    EXPECT_FALSE(hosts_of(a, 12));
    EXPECT_FALSE(common(a, detail::RankSet(64, {{5, 3}})));
}

RC_GTEST_PROP(Split, ParsesBack, ()) {
    const auto mesh = any_mesh(4, 0);
    const auto split = any_split(mesh, any_in<std::size_t>(0, 4));
    RC_ASSERT(Split::parse(to_string(split)) == split);
}

std::string error_of(const auto& call) {
    try {
        call();
    } catch (const UsageError& error) {
        return error.what();
    }
    return "no error";
}

TEST(Split, SaysWhatItCannotRead) {
    const auto error = [](std::string_view text) { return error_of([&] { Split::parse(text); }); };
    EXPECT_EQ(
        error("dp=0"),
        "the split 'dp=0' cannot be read: expected a dimension such as '0=dp,tp', or 'sum=pp', found 'd' at "
        "character 1");
    EXPECT_EQ(
        error("0=dp 0=tp"),
        "the split '0=dp 0=tp' says twice what splits dimension 0; list its axes together, as in 0=dp,tp");
    EXPECT_EQ(
        error("0=dp:torch"),
        "the split '0=dp:torch' cannot be read: expected 'megatron' after '0=dp:', found 't' at character 6");
    EXPECT_EQ(error("0="), "the split '0=' cannot be read: expected a name after '0=', found the end");
    EXPECT_EQ(error("99=dp"), "the split '99=dp' names dimension 99; an array has at most 16");
    EXPECT_EQ(to_string(Split::parse(" ")), "replicated");
    EXPECT_EQ(Split::parse("replicated"), Split{});
    EXPECT_EQ(to_string(Split::parse("sum=pp 1=cp:megatron 0=dp,tp")), "0=dp,tp 1=cp:megatron sum=pp");
}

TEST(Sharding, SaysWhatDoesNotFit) {
    const auto mesh = Mesh{{"dp", 2}, {"tp", 4}};
    const auto error = [&](std::vector<std::int64_t> shape, std::string_view split) {
        return error_of([&] { Sharding(mesh, shape, Split::parse(split)); });
    };
    EXPECT_EQ(error({8}, "0=tpp"), "mesh dp=2 tp=4 has no axis 'tpp'; did you mean 'tp'?");
    EXPECT_EQ(error({8, 8}, "0=tp 1=tp"),
              "the split '0=tp 1=tp' names axis 'tp' twice; an axis splits one dimension, or into sums");
    EXPECT_EQ(error({8}, "1=tp"), "the split '1=tp' splits dimension 1 of an array of 1 dimension");
    EXPECT_EQ(error({8, -1}, "0=tp"),
              "an array of shape 8x-1 has a dimension of size -1; sizes are 0 or more");
    EXPECT_EQ(error({std::int64_t{1} << 61, 2}, "0=tp"),
              "an array of shape 2305843009213693952x2 has 2^62 elements or more; fewer can be counted");
    const auto most = (std::int64_t{1} << 62) - 1;  // 3 * 715827883 * 2147483647
    for (const auto& shape :
         std::vector<Numbers>{{most}, {3, most / 3}, {715827883, 3, 2147483647}, {most, 0, 1}})
        EXPECT_EQ(Sharding(mesh, shape, Split::parse("0=tp")).slice(7).ranges.front().end, shape.front());
    for (const auto& shape :
         std::vector<Numbers>{{most + 1}, {3, most / 3 + 1}, {2, most / 2 + 1}, {0, most + 1}})
        EXPECT_NE(error(shape, "0=tp").find("has 2^62 elements or more"), std::string::npos) << shape.back();
    EXPECT_EQ(
        error(std::vector<std::int64_t>(17, 1), "0=tp"),
        "an array of shape 1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1 has 17 dimensions; at most 16 can be split");
    EXPECT_EQ(error_of([&] { Sharding(mesh, {8}, Split{}).slice(8); }),
              "rank 8 is outside mesh dp=2 tp=4, which covers ranks 0..7");
    EXPECT_EQ(error_of([&] {
                  Sharding(mesh, {8}, Split{{{{"tp"}, -1}}, {}});
              }),
              "dimension 0 is padded to a multiple of -1; multiples are 1 or more, and 0 is torch's chunks");
}

TEST(Sharding, SplitsWhatDoesNotDivideByName) {
    const auto mesh = Mesh{{"dp", 2}, {"tp", 4}};
    const auto of = [&](std::int64_t size, std::string_view split) {
        auto out = std::string{};
        const auto sharding = Sharding(mesh, {size}, Split::parse(split));
        for (int rank = 0; rank < 4; ++rank) out += to_string(sharding.slice(rank));
        return out;
    };
    EXPECT_EQ(of(10, "0=tp"), "[0:3][3:6][6:9][9:10]");
    EXPECT_EQ(of(5, "0=tp"), "[0:2][2:4][4:5][5:5]");
    EXPECT_EQ(of(1000, "0=tp:megatron"), "[0:256][256:512][512:768][768:1000]");
    EXPECT_EQ(of(1100, "0=tp:megatron"), "[0:384][384:768][768:1100][1100:1100]");
    EXPECT_EQ(of(1100, "0=tp:megatron64"), "[0:320][320:640][640:960][960:1100]");
}

}  // namespace
}  // namespace rankmesh::tests
