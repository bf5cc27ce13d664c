// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/mesh.hpp>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <sstream>

#include <rankmesh/core/placement.hpp>
#include <rankmesh/core/sharding.hpp>

#include "laws.hpp"
#include "support/text_of.hpp"

namespace rankmesh::tests {
namespace {

// A mesh is answered at compile time.
constexpr auto mesh = Mesh{{"pp", 4}, {"dp", 8}, {"tp", 8}};
static_assert(mesh.size() == 256);
static_assert(mesh.coord(67)["pp"] == 1);
static_assert(mesh.rank({{"pp", 1}, {"dp", 0}, {"tp", 3}}) == 67);
static_assert(mesh.rank({{"tp", 3}, {"pp", 1}, {"dp", 0}}) == 67);
static_assert(mesh.neighbor(67, "pp", +1) == 131);
static_assert(mesh.neighbor(195, "pp", +1) == std::nullopt);
static_assert(mesh.neighbor(195, "pp", +1, Edge::wrap) == 3);
static_assert(mesh.group(67, "pp", "tp") == mesh.group(67, "tp", "pp"));
static_assert(mesh.group_view(67, "tp", "pp").group() == mesh.group(67, "pp", "tp"));
static_assert(mesh.group_view(67, "tp").size() == 8 && mesh.group_view(67, "tp")[3] == 67);
static_assert(mesh.group_view(67, "dp").group_rank(75) == 1 && !mesh.group_view(67, "dp").contains(66));
static_assert(mesh.group(67, "pp").pick({0, -1})[1] == 195);
static_assert(mesh.partition("dp").size() == 32 && mesh.partition("dp")[1].front() == 1);
static_assert(mesh.slice({{"dp", 3}}) == Mesh::parse("pp=4:64 tp=8:1 @24"));
static_assert(mesh.flatten({"dp", "tp"}, "mp") == Mesh{{"pp", 4}, {"mp", 64}});
static_assert(mesh.split("tp", {{"ep", 2}, {"etp", rest}}) ==
              Mesh{{"pp", 4}, {"dp", 8}, {"ep", 2}, {"etp", 4}});
static_assert(mesh.permuted({"tp", "dp", "pp"}) == Mesh{{"tp", 8, 1}, {"dp", 8, 8}, {"pp", 4, 64}});
static_assert(mesh.axis("dp") == AxisId{1} && mesh.index(67, AxisId{2}) == 3);
static_assert(Mesh::parse("pp=4 dp=8 tp=8") == mesh && Mesh::parse("pp=4 dp=* tp=8", 256) == mesh);

// Numbers of any integer type are ranks and distances.
static_assert(mesh.coord(67U)["pp"] == 1 && mesh.contains(std::uint8_t{67}) && mesh.index(67L, "tp") == 3);
static_assert(mesh.neighbor(std::size_t{67}, "pp", std::int64_t{1}) == 131);

static_assert(sizeof(Mesh) <= 1024);
static_assert(max_axes >= 16 && max_name_length >= 31 && name_pool_size >= 192);

std::vector<Case> plain_cases() {
    auto sixteen = std::vector<Axis>{};
    for (auto name : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"})
        sixteen.push_back({name, sixteen.size() % 2 == 0 ? 1 : 2});
    return {
        plain({{"dp", 1}}),
        plain({{"dp", 7}}),
        plain({{"pp", 1}, {"dp", 1}, {"tp", 1}}),
        plain({{"pp", 1}, {"dp", 8}, {"tp", 1}}),
        plain({{"pp", 4}, {"dp", 2}, {"tp", 8}}),
        plain({{"pp", 3}, {"cp", 5}, {"dp", 7}}),
        plain({{"a", 2}, {"b", 3}, {"c", 2}, {"d", 5}, {"e", 3}}),
        plain(sixteen),
    };
}

std::vector<Case> strided_cases() {
    return {
        strided({{"pp", 2, 32}, {"dp", 4, 8}}),
        strided({{"dp", 4, 3}}),
        strided({{"tp", 8, 1}, {"pp", 4, 8}}),
        strided({{"a", 3, 1}, {"b", 2, 50}, {"c", 4, 5}}),
        strided({{"a", 3, 7}, {"b", 3, 2}, {"c", 2, 23}}),  // no stride divides the next
        strided({{"a", 1, 9}, {"b", 5, 2}}),
        shifted(plain({{"dp", 4}, {"tp", 3}}), 64),
        shifted(strided({{"pp", 2, 32}, {"dp", 4, 8}}), 5),
    };
}

std::vector<Case> rearranged_cases() {
    const auto dense = plain({{"pp", 4}, {"dp", 6}, {"tp", 8}});
    return {
        sliced(dense, 0, 3),
        sliced(dense, 1, 2),
        sliced(sliced(dense, 2, 5), 0, 1),
        flattened(dense, 0, 1, "m"),
        flattened(dense, 0, 2, "m"),
        flattened(flattened(dense, 0, 2, "m"), 0, 1, "n"),
        sliced(flattened(dense, 0, 2, "m"), 1, 4),
        split(dense, 1, 3, "ep", "edp"),
        split(flattened(dense, 0, 2, "m"), 0, 2, "x", "y"),
        split(flattened(dense, 0, 2, "m"), 0, 4, "x", "y"),
        split(flattened(dense, 0, 2, "m"), 0, 16, "x", "y"),
        reversed(dense),
        reversed(flattened(dense, 0, 2, "m")),
        shifted(sliced(reversed(flattened(split(dense, 2, 2, "x", "y"), 1, 3, "m")), 1, 1), 100),
    };
}

TEST(Mesh, KeepsEveryLawWithPlainStrides) {
    for (const auto& c : plain_cases()) EXPECT_EQ(broken_law(c), "");
}

TEST(Mesh, KeepsEveryLawWithStridesAndOffsets) {
    for (const auto& c : strided_cases()) EXPECT_EQ(broken_law(c), "");
}

TEST(Mesh, KeepsEveryLawHoweverItIsRearranged) {
    for (const auto& c : rearranged_cases()) EXPECT_EQ(broken_law(c), "");
}

/// A mesh of one to four axes and at most about 200 ranks, plain or with gaps between its strides.
Case some_case() {
    static const auto names = std::vector<std::string_view>{"pp", "cp", "dp", "tp"};
    auto axes = std::vector<Axis>{};
    const auto count = *rc::gen::inRange<std::size_t>(1, 5);
    for (std::size_t a = 0; a < count; ++a) axes.push_back({names[a], *rc::gen::inRange(1, 5)});
    if (*rc::gen::arbitrary<bool>()) return plain(axes);
    auto order = std::vector<std::size_t>(count);
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = count; i > 1; --i)
        std::swap(order[i - 1], order[*rc::gen::inRange<std::size_t>(0, i)]);
    auto reach = 0;
    for (auto a : order) {
        axes[a].stride = reach + *rc::gen::inRange(1, 4);
        reach += (axes[a].size.size() - 1) * axes[a].stride;
    }
    return strided(axes);
}

/// What a random rearrangement makes of it.
Case rearranged(const Case& c, int step) {
    const auto axes = c.mesh.axis_count();
    const auto axis = *rc::gen::inRange(0, axes);
    const auto size = c.mesh.size(AxisId{axis});
    const auto fresh = [&](const char* prefix) { return detail::cat(prefix, step); };
    switch (*rc::gen::inRange(0, 5)) {
        case 0:
            if (axes > 1) return sliced(c, axis, *rc::gen::inRange(0, size));
            break;
        case 1:
            if (axes > 1 && axis + 1 < axes)
                return flattened(c, axis, *rc::gen::inRange(axis + 1, axes), fresh("f"));
            break;
        case 2: {
            // A part ends between digits, or inside one that it divides.
            const auto outer =
                c.mesh.layout(AxisId{axis}).digit_count() > 0 ? c.mesh.layout(AxisId{axis}).digit(0).size : 1;
            if (axes < 6) return split(c, axis, outer, fresh("x"), fresh("y"));
            break;
        }
        case 3:
            return reversed(c);
        default:
            return shifted(c, *rc::gen::inRange(0, 50));
    }
    return c;
}

RC_GTEST_PROP(Mesh, KeepsEveryLawAfterAnyChainOfRearrangements, ()) {
    auto c = some_case();
    for (int step = *rc::gen::inRange(0, 5); step > 0; --step) c = rearranged(c, step);
    RC_ASSERT(broken_law(c) == "");
}

TEST(Mesh, IsUndoneBySplittingWhatWasFlattened) {
    for (const auto& c : plain_cases()) {
        if (c.mesh.axis_count() < 2 || c.mesh.axis_count() > 15) continue;
        const auto a = std::string(c.mesh.name({0}));
        const auto b = std::string(c.mesh.name({1}));
        const auto flat = c.mesh.flatten({a, b}, "both");
        EXPECT_EQ(flat.split("both", {{a, c.mesh.size(a)}, {b, rest}}), c.mesh);
    }
}

/// The slice of a mesh at index 0 of the axes first..end-1.
Mesh without(const Mesh& whole, int first, int end) {
    auto fixed = Coordinate{};
    for (int a = first; a < end; ++a) fixed.push_back(whole.name({a}), 0);
    return whole.slice(fixed);
}

TEST(Mesh, IsTheConcatenationOfItsFirstAndItsLastAxes) {
    for (const auto& cases : {plain_cases(), strided_cases(), rearranged_cases()})
        for (const auto& c : cases)
            for (int cut = 1; cut < c.mesh.axis_count(); ++cut) {
                const auto outer = without(c.mesh, cut, c.mesh.axis_count());
                const auto inner = without(c.mesh, 0, cut);
                EXPECT_EQ(outer.concatenate(inner), c.mesh);
                auto order = std::vector<std::string_view>{};
                for (int a = 0; a < c.mesh.axis_count(); ++a)
                    order.push_back(c.mesh.name({(a + cut) % c.mesh.axis_count()}));
                EXPECT_EQ(inner.concatenate(outer), c.mesh.permuted(order));
            }
}

TEST(Mesh, SplitsASizeOfOneIntoOnes) {
    EXPECT_EQ((Mesh{{"a", 1}, {"b", 2}}.split("a", {{"x", 1}, {"y", rest}})),
              (Mesh{{"x", 1}, {"y", 1}, {"b", 2}}));
}

TEST(Mesh, IsEqualWhereAxesAndRanksAreEqual) {
    EXPECT_EQ((Mesh{{"a", 4, 2}, {"b", 2, 1}}), (Mesh{{"a", 4}, {"b", 2}}));
    EXPECT_NE((Mesh{{"a", 4}, {"b", 2}}), (Mesh{{"a", 2}, {"b", 4}}));
    EXPECT_NE((Mesh{{"a", 4}, {"b", 2}}), (Mesh{{"a", 4}, {"c", 2}}));
    EXPECT_NE((Mesh{{"a", 4}}), (Mesh{{"a", 4}}.shifted(1)));
    EXPECT_NE((Mesh{{"a", 4, 2}}), (Mesh{{"a", 4}}));
}

TEST(Mesh, RefusesARankOrADistanceThatIsNoInt) {
    constexpr auto large = (std::size_t{1} << 32) + 67;
    const auto place = Placement(mesh, std::vector<int>(mesh.ranks().begin(), mesh.ranks().end()));
    const auto sharding = Sharding(mesh, {64}, {});
    for (const auto& call : std::initializer_list<std::function<void()>>{
             [&] { static_cast<void>(mesh.contains(large)); }, [&] { static_cast<void>(mesh.coord(large)); },
             [&] { static_cast<void>(mesh.index(large, "dp")); },
             [&] { static_cast<void>(mesh.group(large, "dp")); },
             [&] { static_cast<void>(mesh.group_view(large, "dp")); },
             [&] { static_cast<void>(mesh.neighbor(large, "dp", 1)); },
             [&] { static_cast<void>(mesh.neighbor(67, "dp", large)); },
             [&] { static_cast<void>(mesh.shifted(large)); },
             [&] { static_cast<void>(mesh.group(67, "dp").group_rank(large)); },
             [&] { static_cast<void>(mesh.group_view(67, "dp").contains(large)); },
             [&] { static_cast<void>(place.coord(large)); },
             [&] { static_cast<void>(place.neighbor(67, "dp", large)); },
             [&] { static_cast<void>(sharding.slice(large)); },
             [&] { static_cast<void>(sharding.part(large)); }})
        EXPECT_EQ(text_of<UsageError>(call),
                  "4294967363 was given as a rank, a root, a distance or a tag; "
                  "those are from -2147483648 to 2147483647");
}

TEST(Mesh, ServesTheLargestWorld) {
    const auto whole = Mesh{{"dp", Mesh::max_size}};
    const auto last = Mesh::max_size - 1;
    EXPECT_EQ(whole.extent(), Mesh::max_size);
    EXPECT_EQ(whole.rank(whole.coord(last)), last);
    EXPECT_EQ(whole.neighbor(last, "dp", +1), std::nullopt);
    EXPECT_EQ(whole.neighbor(last, "dp", +1, Edge::wrap), 0);
    EXPECT_EQ(whole.neighbor(0, "dp", std::numeric_limits<int>::min()), std::nullopt);
    EXPECT_EQ(to_string(whole.group(5, "dp")), "{0..2147483646}");
    EXPECT_FALSE(whole.contains(Mesh::max_size));
    EXPECT_FALSE(whole.shifted(0).contains(std::numeric_limits<int>::min()));
    EXPECT_FALSE((Mesh{{"dp", 2}}.shifted(7).contains(std::numeric_limits<int>::min())));
    EXPECT_FALSE((Mesh{{"dp", 2}}.shifted(7).ranks().contains(std::numeric_limits<int>::min())));
}

/// Sizes whose product is close to 2^31, in shapes that stress the multiplications by reciprocals.
TEST(Mesh, DecodesEveryKindOfRankOfWorldsNearTheLargest) {
    for (auto text : {"a=46340 b=46341", "a=2147483647", "a=1073741823 b=2", "a=2 b=1073741823",
                      "a=63 b=65 c=66 d=63 e=63", "a=1290 b=1290 c=1290", "a=3 b=715827882",
                      "a=2:1073741824 b=1073741823:1", "a=2:1 b=1073741823:2", "a=7:300000007 b=3:99999989",
                      "a=46341:46340 b=46339:1"}) {
        const auto large = Mesh::parse(text);
        auto indices = std::vector<int>(static_cast<std::size_t>(large.axis_count()));
        const auto ranks = large.ranks();
        for (std::int64_t i = 0; i < 20000; ++i) {
            // Multiples of a prime near 2^31 / golden ratio visit the whole range evenly.
            const auto position = static_cast<int>((i < 100 ? i : i * 1327217885 - i / 100) % large.size());
            const auto rank = ranks[position];
            large.indices(rank, indices);
            auto expected = position;
            for (int a = large.axis_count() - 1; a >= 0; --a) {
                ASSERT_EQ(indices[static_cast<std::size_t>(a)], expected % large.size(AxisId{a})) << text;
                expected /= large.size(AxisId{a});
            }
            ASSERT_EQ(large.rank_at(indices), rank) << text;
        }
    }
}

TEST(Mesh, PrintsOnAStreamWhatToStringSays) {
    auto out = std::ostringstream{};
    out << mesh << '|' << mesh.coord(67) << '|' << mesh.group(67, "tp");
    EXPECT_EQ(out.str(), "pp=4 dp=8 tp=8|pp=1 dp=0 tp=3|{64..71}");
}

}  // namespace
}  // namespace rankmesh::tests
