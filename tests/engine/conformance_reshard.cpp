// SPDX-License-Identifier: Apache-2.0
// Arrays that go over from one split to another.
#include <gtest/gtest.h>

#include <complex>
#include <cstring>
#include <random>

#include <rankmesh/engine/reshard.hpp>

#include "conformance.hpp"

using namespace rankmesh;

namespace {

/// A mesh of at most `world` ranks, somewhere among them.
Mesh any_mesh(int world, std::mt19937& random) {
    const auto ranks = std::uniform_int_distribution(1, world)(random);
    const auto meshes = meshes_of(ranks);
    const auto which = std::uniform_int_distribution<std::size_t>(0, meshes.size() - 1)(random);
    return meshes[which].shifted(std::uniform_int_distribution(0, world - ranks)(random));
}

Sharding any_sharding(int world, const std::vector<std::int64_t>& shape, std::mt19937& random) {
    const auto mesh = any_mesh(world, random);
    auto split = Split{};
    split.dimensions.resize(shape.size());
    for (int a = 0; a < mesh.axis_count(); ++a) {
        const auto what = std::uniform_int_distribution<std::size_t>(0, shape.size() + 1)(random);
        const auto name = std::string(mesh.name(AxisId{a}));
        if (what < shape.size())
            split.dimensions[what].axes.push_back(name);
        else if (what == shape.size())
            split.sums.push_back(name);
    }
    return {mesh, shape, split};
}

/// The slice of `rank` of an array whose element number e is e + 1, times `factor`; of what a short type
/// counts exactly.
template <class T>
std::vector<T> slice_of(const Sharding& sharding, int rank, int factor) {
    constexpr auto most = sizeof(T) > 2 ? 1000 : 3;
    auto values = std::vector<T>{};
    if (!sharding.mesh().contains(rank)) return values;
    const auto slice = sharding.slice(rank);
    const auto shape = sharding.shape();
    for (std::int64_t i = 0; i < slice.elements(); ++i) {
        auto left = i;
        auto number = std::int64_t{0};
        auto stride = std::int64_t{1};
        for (auto d = shape.size(); d-- > 0;) {
            number += (slice.ranges[d].begin + left % slice.ranges[d].size()) * stride;
            left /= slice.ranges[d].size();
            stride *= shape[d];
        }
        values.push_back(static_cast<T>(static_cast<float>((number % most + 1) * factor)));
    }
    return values;
}

/// `how` is a Reshard, or the steps of one.
template <class T>
void expect_moved(Communicator& all, const Sharding& from, const Sharding& to, const auto& how, int host,
                  std::size_t staging) {
    const auto rank = all.world_rank(all.rank());
    const auto before = from.mesh().contains(rank) ? from.part(rank) : 0;
    const auto in = slice_of<T>(from, rank, before + 1);
    auto factor = 0;
    if (to.mesh().contains(rank))
        for (int part = to.part(rank); part < from.parts(); part += to.parts()) factor += part + 1;
    const auto expected = slice_of<T>(to, rank, factor);
    auto out = std::vector<T>(expected.size(), static_cast<T>(-1.0f));
    reshard(all, how, in, out, staging);
    for (std::size_t i = 0; i < out.size(); ++i)
        ASSERT_EQ(static_cast<float>(out[i]), static_cast<float>(expected[i]))
            << "element " << i << " of rank " << rank << ", " << to_string(from.mesh()) << " "
            << to_string(from.split()) << " to " << to_string(to.mesh()) << " " << to_string(to.split())
            << ", " << host << " a host, " << staging << " bytes";
}

/// Elements whose bytes begin with those of the numbers.
template <class T>
std::vector<T> beginning_with(const std::vector<std::int32_t>& numbers) {
    auto out = std::vector<T>(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i)
        std::memcpy(static_cast<void*>(&out[i]), &numbers[i], std::min(sizeof(T), sizeof numbers[i]));
    return out;
}

/// Moves elements that need not be numbers.
template <class T>
void expect_same_bytes(Communicator& all, const Sharding& from, const Sharding& to, const Reshard& plan) {
    const auto rank = all.world_rank(all.rank());
    const auto in = beginning_with<T>(slice_of<std::int32_t>(from, rank, 257));
    const auto expected = beginning_with<T>(slice_of<std::int32_t>(to, rank, 257));
    auto out = std::vector<T>(expected.size());
    reshard(all, plan, in, out, 64);
    for (std::size_t i = 0; i < out.size(); ++i)
        ASSERT_EQ(std::memcmp(&out[i], &expected[i], sizeof(T)), 0)
            << "element " << i << " of rank " << rank << " of " << sizeof(T) << " bytes each";
}

/// An element that no engine reduces.
struct Token {
    std::array<std::uint8_t, 3> bytes;
};

std::string error_of(const auto& call) {
    try {
        call();
    } catch (const UsageError& caught) {
        return caught.what();
    }
    return "no error";
}

}  // namespace

TEST(Conformance, ReshardMovesElementsThatCannotBeAddedWhereNothingIsToBeAdded) {
    on_every_rank([](World& world) {
        auto all = world.join({{"world", rest}}).on("world");
        auto random = std::mt19937(8);  // the same on all ranks
        for (int i = 0; i < 20; ++i) {
            const auto shape = std::vector<std::int64_t>{i % 5, 6};
            const auto from = any_sharding(world.size(), shape, random);
            const auto to = any_sharding(world.size(), shape, random);
            const auto plan = Reshard(from, to, 2);
            if (from.parts() == 1 && to.parts() == 1) {
                expect_same_bytes<f8e4m3>(all, from, to, plan);
                expect_same_bytes<std::byte>(all, from, to, plan);
                expect_same_bytes<Token>(all, from, to, plan);
                expect_same_bytes<std::complex<double>>(all, from, to, plan);
            }
            if (from.parts() <= to.parts()) continue;
            const auto slice = [&](const Sharding& sharding) {
                return slice_of<std::int32_t>(sharding, world.rank(), 1).size();
            };
            const auto in = std::vector<Token>(slice(from));
            auto out = std::vector<Token>(slice(to));
            EXPECT_EQ(
                error_of([&] { reshard(all, plan, in, out); }),
                detail::cat("reshard on ", all.label(), " would add ", from.parts(), " partial sums up to ",
                            to.parts(), ", and elements of this type cannot be added; add numbers"));
        }
    });
}

TEST(Conformance, ReshardRefusesBuffersThatOverlap) {
    on_every_rank([](World& world) {
        auto all = world.join({{"a", rest}}).on("a");
        const auto whole = Sharding(Mesh{{"a", world.size()}}, {4}, Split{});
        const auto plan = Reshard(whole, whole);
        auto memory = std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8};
        for (std::size_t at = 0; at <= 4; ++at) {
            const auto in = std::span(memory).subspan(4 - at, 4);
            const auto out = std::span(memory).subspan(4, 4);
            const auto before = memory;
            if (at == 4) {
                reshard(all, plan, in, out);
                EXPECT_EQ(memory, (std::vector<float>{1, 2, 3, 4, 1, 2, 3, 4}));
            } else {
                const auto text =
                    detail::cat("reshard on ", all.label(), " was given buffers that overlap; use two");
                EXPECT_EQ(error_of([&] { reshard(all, plan, in, out); }), text);
                EXPECT_EQ(error_of([&] { reshard(all, plan, out, in); }), text);
                EXPECT_EQ(memory, before);
            }
        }
    });
}

TEST(Conformance, ReshardBringsEachRankItsNewSliceAndAddsPartialSums) {
    on_every_rank([](World& world) {
        auto all = world.join({{"world", rest}}).on("world");
        auto random = std::mt19937(7);  // the same on all ranks
        for (int i = 0; i < 40; ++i) {
            auto shape = std::vector<std::int64_t>{};
            for (int d = i % 4; d > 0; --d) shape.push_back(std::uniform_int_distribution(0, 7)(random));
            const auto from = any_sharding(world.size(), shape, random);
            const auto to = any_sharding(world.size(), shape, random);
            const auto host = std::uniform_int_distribution(1, 4)(random);
            const auto plan = Reshard(from, to, host);
            for (auto staging : {std::size_t{1}, std::size_t{40}, std::size_t{1} << 20})
                expect_moved<float>(all, from, to, plan, host, staging);
            expect_moved<bf16>(all, from, to, plan, host, 64);
            expect_moved<float>(all, from, to, Reshard::steps(from, to, host), host, 64);
        }
    });
}

TEST(Conformance, ReshardRefusesBuffersOfOtherLengthsAndRanksThatAreNotThere) {
    on_every_rank([](World& world) {
        if (world.size() < 2) return;
        auto me = world.join({{"a", rest}});
        auto all = me.on("a");
        const auto mesh = Mesh{{"a", world.size()}};
        const auto whole = Sharding(mesh, {4}, Split{});
        auto in = std::vector<float>(4);
        auto out = std::vector<float>(3);
        EXPECT_EQ(error_of([&] { reshard(all, Reshard(whole, whole), in, out); }),
                  detail::cat("reshard was given 3 elements as `out`; rank ", world.rank(),
                              " holds 4 in a=", world.size(), " (replicated)"));
        EXPECT_EQ(
            error_of([&] { reshard(all, std::vector<Reshard>{}, in, out); }),
            detail::cat("reshard on ", all.label(), " was given no steps; pass what Reshard::steps returns"));
        out.resize(4);
        const auto beyond = Sharding(mesh.shifted(world.size()), {4}, Split{});
        if (world.rank() != 0) return;
        EXPECT_EQ(error_of([&] { reshard(all, Reshard(whole, beyond), in, std::vector<float>{}); }),
                  detail::cat("reshard of a=", world.size(), " to a=", world.size(), " @", world.size(),
                              " needs rank ", world.size(), ", which is not in ", all.label(),
                              "; call it on a communicator over both meshes"));
    });
}

TEST(Conformance, ReshardHandsWeightsFromTrainersToRollout) {
    on_every_rank([](World& world) {
        if (world.size() != 8) return;
        auto all = world.join({{"world", rest}}).on("world");
        const auto rank = all.rank();
        // clang-format off
        const auto split = [](auto text) { return rankmesh::Split::parse(text); };
        const auto train = rankmesh::Sharding(rankmesh::Mesh{{"dp", 2}, {"tp", 2}}, {1000, 64}, split("0=tp"));
        const auto rollout = rankmesh::Sharding(rankmesh::Mesh{{"tp", 4}}.shifted(4), {1000, 64}, split("1=tp"));
        const auto steps = rankmesh::Reshard::steps(train, rollout, 4);  // four ranks a host

        auto own = std::vector<float>(train.mesh().contains(rank) ? 500 * 64 : 0, 1.0f);
        auto wanted = std::vector<float>(rollout.mesh().contains(rank) ? 1000 * 16 : 0);
        rankmesh::reshard(all, steps, own, wanted);
        // clang-format on
        EXPECT_EQ(std::ranges::count(wanted, 1.0f), rank < 4 ? 0 : 16000);
    });
}
