// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/reshard.hpp>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "core/shardings.hpp"
#include "support/fewer.hpp"

namespace rankmesh::tests {
namespace {

/// What a rank holds, by rank: its slice and part; none of those outside the mesh.
struct Held {
    std::vector<std::int64_t> elements;
    int part = 0;
    bool has(const std::vector<std::int64_t>& asked, int of_part) const {
        return part == of_part && std::ranges::includes(elements, asked);
    }
};

std::map<int, Held> held_in(const Sharding& sharding) {
    auto held = std::map<int, Held>{};
    for (auto rank : ranks_of(sharding.mesh())) {
        auto& here = held[rank] = {elements_of(sharding.slice(rank), sharding.shape()), sharding.part(rank)};
        std::ranges::sort(here.elements);
    }
    return held;
}

/// The first law that does not hold, found by counting elements.
std::string broken_law(const Reshard& plan) {
    const auto shape = plan.from().shape();
    const auto before = held_in(plan.from());
    const auto after = held_in(plan.to());
    const auto sorted = [&](const Slice& slice) {
        auto elements = elements_of(slice, shape);
        std::ranges::sort(elements);
        return elements;
    };
    using Pair = std::pair<int, int>;
    auto sent = std::map<Pair, std::vector<Transfer>>{};
    auto received = sent;
    auto came = std::map<std::tuple<int, std::int64_t, int>, int>{};  // to a host from outside
    for (int rank = 0; rank < plan.extent(); ++rank) {
        for (auto transfer : plan.sends(rank)) {
            const auto to = std::exchange(transfer.peer, -1);
            sent[{rank, to}].push_back(transfer);
        }
        const auto receives = plan.receives(rank);
        const auto keeps = plan.keeps(rank);
        const auto own = before.find(rank);
        auto got = std::map<std::pair<std::int64_t, int>, int>{};
        for (const auto& [part, slice] : keeps) {
            const auto elements = sorted(slice);
            if (elements.empty()) return "nothing is kept by name";
            if (own == before.end() || !own->second.has(elements, part)) return "what is kept was not there";
            for (auto element : elements) ++got[{element, part}];
        }
        for (auto transfer : receives) {
            const auto elements = sorted(transfer.slice);
            const auto peer = transfer.peer;
            if (elements.empty()) return "a message is empty";
            if (peer == rank) return "a rank sends to itself";
            const auto far = peer / plan.host() != rank / plan.host();
            if (transfer.stage == 0) {
                if (!before.contains(peer) || !before.at(peer).has(elements, transfer.part))
                    return "the sender does not hold what it sends";
            } else {
                if (far) return "a slice is passed on to another host";
                auto passed = transfer;
                passed.stage = 0;
                const auto of_peer = plan.receives(peer);
                if (std::ranges::none_of(of_peer, [&](const Transfer& first) {
                        return first.stage == 0 && first.part == transfer.part &&
                               first.slice == transfer.slice &&
                               first.peer / plan.host() != peer / plan.host();
                    }))
                    return "what is passed on did not come from outside";
            }
            for (auto element : elements) {
                ++got[{element, transfer.part}];
                if (own != before.end() && own->second.has({element}, transfer.part))
                    return "a rank receives what it had";
                if (far) ++came[{rank / plan.host(), element, transfer.part}];
            }
            transfer.peer = -1;
            received[{peer, rank}].push_back(transfer);
        }
        auto wanted = std::map<std::pair<std::int64_t, int>, int>{};
        if (const auto here = after.find(rank); here != after.end())
            for (auto element : here->second.elements)
                for (int part = 0; part < plan.from().parts(); ++part)
                    if (part % plan.to().parts() == here->second.part) wanted[{element, part}] = 1;
        if (got != wanted) return detail::cat("rank ", rank, " does not get each element once");
    }
    if (sent != received) return "sends and receives differ";
    auto must_come = came;
    must_come.clear();
    for (const auto& [rank, here] : after)
        for (auto element : here.elements)
            for (int part = here.part; part < plan.from().parts(); part += plan.to().parts()) {
                auto there = false;
                for (int r = rank - rank % plan.host(); r < rank - rank % plan.host() + plan.host(); ++r)
                    there = there || (before.contains(r) && before.at(r).has({element}, part));
                if (!there) must_come[{rank / plan.host(), element, part}] = 1;
            }
    if (came != must_come) return "an element comes to a host more than once, or where it was";
    return {};
}

std::string text_of(const Reshard& plan) {
    return detail::cat(to_string(plan.from().mesh()), " ", to_string(plan.from().split()), " -> ",
                       to_string(plan.to().mesh()), " ", to_string(plan.to().split()), " host ", plan.host());
}

/// A reshard between any two meshes and splits, on hosts of one of these sizes.
Reshard any_reshard(const auto&... hosts) {
    const auto shape = any_shape();
    const auto from = any_mesh(4, *rc::gen::element(0, 0, 2, 4, 5, 8), true);
    const auto to = any_mesh(4, *rc::gen::element(0, 0, 4, 7, 64), true);
    return Reshard(Sharding(from, shape, any_split(from, shape.size())),
                   Sharding(to, shape, any_split(to, shape.size())), *rc::gen::element(hosts...));
}

RC_GTEST_PROP(Reshard, KeepsItsLawsForAnyMeshesSplitsAndHosts, ()) {
    auto stages = std::set<int>{};
    for (int i = 0; i < support::fewer_if_sanitized(30); ++i) {
        const auto plan = any_reshard(1, 1, 2, 3, 4, 8);
        RC_LOG() << text_of(plan) << '\n';
        RC_ASSERT(broken_law(plan) == "");
        for (int rank = 0; rank < plan.extent(); ++rank)
            for (const auto& transfer : plan.receives(rank)) stages.insert(transfer.stage);
    }
    RC_TAG(stages.contains(1) ? "passed on" : stages.empty() ? "no message" : "direct");
}

RC_GTEST_PROP(Reshard, KeepsItsLawsOnPowersOfTwo, ()) {
    const auto mesh = [] {
        auto axes = std::vector<Axis>{};
        for (const auto* name : {"a", "b", "c"}) axes.push_back({name, *rc::gen::element(1, 2, 4)});
        return Mesh(axes).permuted({"b", "c", "a"}).shifted(*rc::gen::element(0, 0, 64));
    };
    const auto shape = any_shape();
    const auto from = mesh();
    const auto to = mesh();
    const auto plan =
        Reshard(Sharding(from, shape, any_split(from, shape.size())),
                Sharding(to, shape, any_split(to, shape.size())), *rc::gen::element(1, 2, 4, 8));
    RC_LOG() << text_of(plan) << '\n';
    RC_ASSERT(broken_law(plan) == "");
}

RC_GTEST_PROP(Reshard, SendsNothingWhereNothingChanges, ()) {
    const auto shape = any_shape();
    const auto mesh = any_mesh(4, any_in(0, 5));
    const auto sharding = Sharding(mesh, shape, any_split(mesh, shape.size()));
    const auto plan = Reshard(sharding, sharding, any_in(1, 9));
    for (auto rank : ranks_of(mesh)) {
        RC_ASSERT(plan.sends(rank).empty());
        RC_ASSERT(plan.receives(rank).empty());
        const auto empty = sharding.slice(rank).elements() == 0;
        RC_ASSERT(plan.keeps(rank).size() == (empty ? 0U : 1U));
        if (!empty) RC_ASSERT(plan.keeps(rank).front().slice == sharding.slice(rank));
    }
}

/// The elements that come to another host than theirs.
std::int64_t between_hosts(const Reshard& plan) {
    auto elements = std::int64_t{0};
    for (int rank = 0; rank < plan.extent(); ++rank)
        for (const auto& transfer : plan.receives(rank))
            if (transfer.peer / plan.host() != rank / plan.host()) elements += transfer.slice.elements();
    return elements;
}

/// True if both are equal but for the order of their sums.
bool same(const Sharding& a, const Sharding& b) {
    auto [of_a, of_b] = std::pair(a.split(), b.split());
    for (auto* split : {&of_a, &of_b}) {
        std::ranges::sort(split->sums);
        split->dimensions.resize(a.shape().size());
    }
    return a.mesh() == b.mesh() && of_a == of_b && std::ranges::equal(a.shape(), b.shape());
}

RC_GTEST_PROP(Reshard, AddsPartialSumsOfAHostBeforeTheyGoToOthers, ()) {
    auto longer = 0;
    for (int i = 0; i < 30; ++i) {
        const auto direct = any_reshard(1, 2, 4, 6, 8, 12);
        const auto steps = Reshard::steps(direct.from(), direct.to(), direct.host());
        RC_LOG() << text_of(direct) << '\n';
        RC_ASSERT(same(steps.front().from(), direct.from()));
        RC_ASSERT(same(steps.back().to(), direct.to()));
        if (steps.size() == 1U) continue;
        ++longer;
        RC_ASSERT(steps.size() == 2U);
        RC_ASSERT(same(steps[0].to(), steps[1].from()));
        for (const auto& step : steps) RC_ASSERT(broken_law(step) == "");
        const auto added = direct.from().parts() / steps[1].from().parts();
        RC_ASSERT(added > 1);
        RC_ASSERT(between_hosts(steps[0]) == 0);
        RC_ASSERT(between_hosts(steps[1]) * added == between_hosts(direct));
    }
    RC_TAG(longer > 0 ? "two steps" : "one step");
}

TEST(Reshard, TakesAStepMoreExactlyWhereAHostHasSumsToAdd) {
    const auto steps = [](const Mesh& mesh, std::string_view split, std::string_view into, int host) {
        const auto to = Mesh{{"tp", 4}}.shifted(32);
        return Reshard::steps(Sharding(mesh, {100, 300}, Split::parse(split)),
                              Sharding(to, {100, 300}, Split::parse(into)), host);
    };
    const auto between = [&](const Mesh& mesh, std::string_view split, int host) {
        const auto made = steps(mesh, split, "0=tp", host);
        return made.size() == 2 ? to_string(made[1].from().split()) : "none";
    };
    const auto mesh = Mesh{{"dp", 4}, {"tp", 4}};
    EXPECT_EQ(between(mesh, "0=dp sum=tp", 4), "0=dp 1=tp");
    EXPECT_EQ(between(mesh, "1=dp sum=tp", 4), "0=tp 1=dp");
    EXPECT_EQ(between(mesh, "sum=dp,tp", 4), "1=tp sum=dp");
    EXPECT_EQ(between(mesh, "sum=dp,tp", 16), "1=dp,tp");
    EXPECT_EQ(between(mesh, "1=dp:megatron sum=tp", 8), "0=tp 1=dp:megatron");
    EXPECT_EQ(between(mesh, "sum=dp", 4), "none");
    EXPECT_EQ(between(mesh, "sum=tp", 2), "none");
    EXPECT_EQ(between(mesh, "0=dp 1=tp", 4), "none");
    EXPECT_EQ(between(mesh.shifted(2), "sum=tp", 4), "none");
    EXPECT_EQ(between(Mesh::parse("dp=2:6 tp=4:1"), "sum=tp", 8), "none");
    EXPECT_EQ(between(Mesh::parse("dp=2:8 cp=2:4 tp=2:1"), "sum=tp", 8), "1=tp");
    EXPECT_EQ(steps(mesh, "sum=tp", "sum=tp", 4).size(), 1U);
}

/// The ranks that hold the same slice and part before, each with the elements that it sends to other hosts.
std::map<std::pair<Slice, int>, std::vector<std::int64_t>> loads(const Reshard& plan, std::int64_t& largest) {
    auto loads = std::map<std::pair<Slice, int>, std::vector<std::int64_t>>{};
    largest = 0;
    for (auto rank : ranks_of(plan.from().mesh())) {
        auto load = std::int64_t{0};
        for (const auto& transfer : plan.sends(rank)) {
            if (transfer.stage == 1) continue;
            load += transfer.slice.elements();
            largest = std::max(largest, transfer.slice.elements());
        }
        loads[{plan.from().slice(rank), plan.from().part(rank)}].push_back(load);
    }
    return loads;
}

RC_GTEST_PROP(Reshard, SharesTheLoadOfAReplicaToWithinOneSlice, ()) {
    const auto shape = any_shape();
    const auto from = any_mesh(4, 0);
    const auto hosts = *rc::gen::arbitrary<bool>();
    const auto to =
        hosts ? Mesh{{"a", *rc::gen::element(2, 4)}, {"b", 2}, {"c", 4}}.shifted(64) : any_mesh(6, 64);
    const auto plan = Reshard(Sharding(from, shape, any_split(from, shape.size())),
                              Sharding(to, shape, any_split(to, shape.size())), hosts ? 4 : 1);
    auto largest = std::int64_t{0};
    RC_LOG() << text_of(plan) << '\n';
    for (const auto& [what, each] : loads(plan, largest)) {
        const auto total = std::accumulate(each.begin(), each.end(), std::int64_t{0});
        const auto senders = static_cast<std::int64_t>(each.size());
        for (auto load : each) RC_ASSERT(std::abs(load * senders - total) <= largest * senders);
    }
}

RC_GTEST_PROP(Reshard, SharesEachSliceInWholeRoundsAlsoAmongRanksThatKeepSome, ()) {
    const auto mesh = [] {
        return Mesh{{"a", *rc::gen::element(1, 2, 4)}, {"b", *rc::gen::element(1, 2, 4)}, {"c", 4}};
    };
    const auto shape = any_shape();
    const auto from = mesh();
    const auto to = mesh();
    const auto plan = Reshard(Sharding(from, shape, any_split(from, shape.size())),
                              Sharding(to, shape, any_split(to, shape.size())));
    auto sent = std::map<std::pair<Slice, int>, std::map<int, int>>{};
    for (auto rank : ranks_of(from))
        for (const auto& transfer : plan.sends(rank)) ++sent[{transfer.slice, transfer.part}][rank];
    for (const auto& [what, senders] : sent) {
        auto total = 0;
        for (const auto& [rank, count] : senders) total += count;
        auto first = std::vector<std::int64_t>{};
        for (const auto& range : what.first.ranges) first.push_back(range.begin);
        const auto holders = detail::holders_of(plan.from(), first, what.second);
        for (int i = 0; i < holders.size(); ++i) {
            const auto found = senders.find(holders.at(i));
            RC_ASSERT((found == senders.end() ? 0 : found->second) >= total / holders.size());
        }
    }
}

TEST(Reshard, AnswersForOneRankOfABillion) {
    const auto train = Mesh{{"pp", 16}, {"dp", 1 << 20}, {"tp", 32}};
    const auto rollout = Mesh{{"dp", 1 << 22}, {"tp", 64}}.shifted(train.size());
    const auto plan = Reshard(Sharding(train, {1 << 16, 1 << 16}, Split::parse("0=tp 1=pp")),
                              Sharding(rollout, {1 << 16, 1 << 16}, Split::parse("0=tp")), 8);
    const auto rank = train.size() + 123456789;
    const auto receives = plan.receives(rank);
    ASSERT_EQ(receives.size(), 16U);
    for (const auto& received : receives) {
        const auto sends = plan.sends(received.peer);
        EXPECT_TRUE(std::ranges::count(sends, Transfer{0, rank, 0, received.slice}) == 1);
        EXPECT_LE(sends.size(), 8U);  // 2^22 replicas of two halves, from 2^20 senders
    }
}

TEST(Reshard, BringsOneCopyToAHostAndPassesItOnInside) {
    const auto from = Sharding(Mesh{{"tp", 4}}, {8}, Split::parse("0=tp"));
    const auto to = Sharding(Mesh{{"dp", 8}}.shifted(8), {8}, Split{});
    const auto crossing = [&](int host) {
        const auto plan = Reshard(from, to, host);
        auto elements = std::int64_t{0};
        for (int rank = 8; rank < 16; ++rank)
            for (const auto& transfer : plan.receives(rank))
                if (transfer.stage == 0) elements += transfer.slice.elements();
        return elements;
    };
    EXPECT_EQ(crossing(1), 64);
    EXPECT_EQ(crossing(4), 16);
    EXPECT_EQ(crossing(8), 8);
    // Each of the four pieces is fetched by another rank of the host.
    const auto plan = Reshard(from, to, 4);
    for (int rank = 8; rank < 12; ++rank)
        EXPECT_EQ(std::ranges::count(plan.receives(rank), 0, &Transfer::stage), 1) << rank;
}

TEST(Reshard, RefusesAnotherShapeAndEmptyHosts) {
    const auto mesh = Mesh{{"tp", 2}};
    const auto error = [&](std::vector<std::int64_t> from, std::vector<std::int64_t> to, int host) {
        try {
            Reshard(Sharding(mesh, std::move(from), {}), Sharding(mesh, std::move(to), {}), host);
        } catch (const UsageError& caught) {
            return std::string(caught.what());
        }
        return std::string("no error");
    };
    EXPECT_EQ(error({4, 8}, {8, 4}, 1),
              "an array of shape 4x8 cannot become one of shape 8x4; give both shardings the same shape");
    EXPECT_EQ(error({4}, {}, 1),
              "an array of shape 4 cannot become one of shape (); give both shardings the same shape");
    EXPECT_EQ(error({4}, {4}, 0), "a host has 0 ranks; give 1 or more");
}

}  // namespace
}  // namespace rankmesh::tests
