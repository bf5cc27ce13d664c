// SPDX-License-Identifier: Apache-2.0
// Exchanges with neighbours along axes of a mesh, compared with one array of the whole mesh.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <random>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/halo.hpp>

#include "conformance.hpp"

using namespace rankmesh;

namespace {

using Index = std::array<std::ptrdiff_t, 3>;

constexpr auto untouched = -1.0;

/// A block of a 3-D field on each rank of a mesh x, y, z, whose cells hold their global index.
struct Blocks {
    Index own = {};    // the block's own cells
    Index split = {};  // 1 where an axis splits the dimension
    Index ranks;       // the mesh's sizes
    Index at;          // this rank's coordinate
    std::ptrdiff_t width = 1;

    Index extents() const {
        auto all = own;
        for (std::size_t d = 0; d < 3; ++d) all[d] += 2 * width * split[d];
        return all;
    }
    std::size_t offset(const Index& cell) const {
        const auto all = extents();
        return static_cast<std::size_t>((cell[0] * all[1] + cell[1]) * all[2] + cell[2]);
    }
    template <class Body>
    void each(const Body& body) const {
        const auto all = extents();
        for (auto i = std::ptrdiff_t{0}; i < all[0]; ++i)
            for (auto j = std::ptrdiff_t{0}; j < all[1]; ++j)
                for (auto k = std::ptrdiff_t{0}; k < all[2]; ++k) body(Index{i, j, k});
    }
    /// The number of dimensions in which a cell is a ghost cell.
    int ghost(const Index& cell) const {
        auto count = 0;
        for (std::size_t d = 0; d < 3; ++d) {
            const auto from_own = cell[d] - width * split[d];
            count += from_own < 0 || from_own >= own[d] ? 1 : 0;
        }
        return count;
    }
    /// What the mesh says that a cell holds; nullopt past an open edge.
    std::optional<double> whole(const Index& cell, Edge edge) const {
        auto number = 0.0;
        for (std::size_t d = 0; d < 3; ++d) {
            auto global = at[d] * own[d] + cell[d] - width * split[d];
            const auto size = ranks[d] * own[d];
            if (edge == Edge::open && (global < 0 || global >= size)) return std::nullopt;
            global = (global + size) % size;
            number = number * 1000 + static_cast<double>(global);
        }
        return number;
    }
    std::vector<double> filled() const {
        const auto all = extents();
        auto field = std::vector<double>(static_cast<std::size_t>(all[0] * all[1] * all[2]), untouched);
        each([&](const Index& cell) {
            if (ghost(cell) == 0) field[offset(cell)] = *whole(cell, Edge::wrap);
        });
        return field;
    }
    std::vector<double> wanted(const HaloOptions& options) const {
        auto field = filled();
        each([&](const Index& cell) {
            const auto ghosts = ghost(cell);
            if (ghosts == 0 || (ghosts > 1 && !options.corners)) return;
            if (const auto value = whole(cell, options.edge)) field[offset(cell)] = *value;
        });
        return field;
    }
};

std::vector<Index> shapes_of(int n) {
    auto shapes = std::vector<Index>{};
    for (int x = 1; x <= n; ++x)
        for (int y = 1; n % x == 0 && y <= n / x; ++y)
            if (n / x % y == 0) shapes.push_back({x, y, n / x / y});
    return shapes;
}

}  // namespace

TEST(Halo, GhostCells_OfAnyMesh_AreTheNeighboursCells) {
    on_every_rank([](World& world) {
        auto random = std::mt19937(static_cast<unsigned>(world.size()));
        for (const auto& shape : shapes_of(world.size())) {
            auto me = world.join(Mesh{{"x", static_cast<int>(shape[0])},
                                      {"y", static_cast<int>(shape[1])},
                                      {"z", static_cast<int>(shape[2])}});
            for (int round = 0; round < 16; ++round) {
                auto options = HaloOptions{.width = 1 + random() % 2,
                                           .edge = round % 2 == 0 ? Edge::wrap : Edge::open,
                                           .corners = round % 4 >= 2};
                auto blocks = Blocks{.ranks = shape, .at = {me.at("x"), me.at("y"), me.at("z")}};
                blocks.width = static_cast<std::ptrdiff_t>(options.width);
                auto axes = std::array<std::string_view, 3>{"x", "y", "z"};
                for (std::size_t d = 0; d < 3; ++d) {
                    blocks.split[d] = round < 8 || random() % 3 > 0 ? 1 : 0;
                    blocks.own[d] = blocks.width + static_cast<std::ptrdiff_t>(random() % 3);
                    if (blocks.split[d] == 1) continue;
                    axes[d] = "";
                    blocks.ranks[d] = 1;  // each rank has the dimension to itself
                    blocks.at[d] = 0;
                }
                SCOPED_TRACE(detail::cat(to_string(me.mesh()), ", round ", round));
                auto field = blocks.filled();
                const auto all = blocks.extents();
                const auto view = strided(field.data(), {all[0], all[1], all[2]});
                if (round % 4 == 1 && !options.corners)
                    start_halo(me, view, axes, options).wait();
                else
                    halo(me, view, axes, options);
                EXPECT_EQ(field, blocks.wanted(options));
            }
        }
    });
}

TEST(Halo, AFieldInAnyOrder_HasTheSameHalo) {
    on_every_rank([](World& world) {
        auto me = world.join(Mesh{{"x", world.size()}});
        auto field = std::vector<int>(6 * 4, -1);  // 4 cells along x, 6 of memory: column-major
        const auto own = world.rank() * 10;
        for (int i = 1; i < 3; ++i)
            for (int j = 0; j < 6; ++j) field[static_cast<std::size_t>(j + 6 * i)] = own + 100 * i + j;
        halo(me, strided(field.data(), {6, 4}, {1, 6}), {"", "x"});
        const auto lower = (world.rank() + world.size() - 1) % world.size() * 10;
        const auto upper = (world.rank() + 1) % world.size() * 10;
        for (int j = 0; j < 6; ++j) {
            EXPECT_EQ(field[static_cast<std::size_t>(j)], lower + 200 + j);
            EXPECT_EQ(field[static_cast<std::size_t>(j + 18)], upper + 100 + j);
        }
    });
}

TEST(Halo, FacesThatDiffer_RaiseOnTheirAxis_AndTheOtherGoesOn) {
    on_every_rank([](World& world) {
        if (world.size() != 4) return;
        auto me = world.join(Mesh{{"y", 2}, {"x", 2}});
        const auto differs = me.at("x") == 0;
        auto field = std::vector<double>(24, world.rank());
        const auto columns = std::ptrdiff_t{world.rank() == 2 ? 5 : 6};
        const auto exchange = [&] { halo(me, strided(field.data(), {4, columns}), {"y", "x"}); };
        if (differs)
            EXPECT_THROW(exchange(), Disagreement);
        else
            exchange();
        const auto left = world.rank() ^ 1;
        EXPECT_EQ(field[static_cast<std::size_t>(columns)], left);  // a ghost cell along x
        auto sum = 1;
        me.on("x").all_reduce(sum);
        EXPECT_EQ(sum, 2);
    });
}

TEST(Halo, WhatCannotBeExchanged_IsRefusedInWords) {
    on_every_rank([](World& world) {
        auto me = world.join(Mesh{{"x", world.size()}});
        auto field = std::vector<double>(20);
        const auto view = strided(field.data(), {5, 4});
        EXPECT_EQ(text_of<UsageError>([&] { halo(me, view, {"x"}, {.width = 2}); }),
                  "halo of width 2 over 'x': dimension 0 of the field has 5 cells; it takes 6 or more: 2 "
                  "ghost on each side, and 2 of its own");
        EXPECT_EQ(text_of<UsageError>([&] { halo(me, view, {"x"}, {.width = 0}); }),
                  "halo of width 0; ghost cells have one layer or more");
        EXPECT_EQ(text_of<UsageError>([&] { start_halo(me, view, {"x"}, {.corners = true}).wait(); }),
                  "a started halo with corners, which are exchanged axis after axis; call halo, or start it "
                  "without corners");
        EXPECT_EQ(text_of<UsageError>([&] {
                      halo(me, view, {"x", "x"});
                  }),
                  "halo over 'x' twice; name another axis for each dimension, \"\" where none splits it");
        EXPECT_EQ(text_of<UsageError>([&] {
                      halo(me, view, {"x", "w"});
                  }),
                  detail::cat(
                      "mesh x=", world.size(),
                      " has no axis, pick, separate communicator or set of local ranks named 'w'; it has x"));
        EXPECT_EQ(text_of<UsageError>([&] {
                      halo(me, strided(field.data(), {5, 4}, {4, 0}), {"x"});
                  }),
                  detail::cat("recv on 'x' of mesh x=", world.size(),
                              " was given a strided output in which elements overlap; give each element an "
                              "address of its own"));
        auto one = std::vector<int>(1);
        EXPECT_EQ(
            text_of<UsageError>([&] { neighbor_all_to_all(me, {"x"}, ConstBuffers(one), Buffers(one)); }),
            "neighbor_all_to_all over 1 axes was given 1 buffers in and 1 out; it takes two an axis, 2 "
            "in and 2 out");
        halo(me, view, {"x"});
    });
}

TEST(Halo, ABufferForEachNeighbour_ArrivesFromThere) {
    on_every_rank([](World& world) {
        for (const auto& shape : shapes_of(world.size())) {
            auto me = world.join(Mesh{{"x", static_cast<int>(shape[0])},
                                      {"y", static_cast<int>(shape[1])},
                                      {"z", static_cast<int>(shape[2])}});
            const auto axes = std::array{"x", "y", "z"};
            for (auto edge : {Edge::wrap, Edge::open}) {
                // Buffers of each direction have a length of their own.
                auto ins = std::vector<std::vector<int>>{};
                auto outs = std::vector<std::vector<int>>{};
                auto wanted = std::vector<std::vector<int>>{};
                for (std::size_t k = 0; k < 6; ++k) {
                    ins.emplace_back(k + 1, world.rank() * 10 + static_cast<int>(k));
                    const auto opposite = k ^ 1;
                    outs.emplace_back(opposite + 1, -1);
                    const auto from = me.neighbor(axes[k / 2], k % 2 == 0 ? -1 : 1, edge);
                    wanted.emplace_back(opposite + 1, from ? *from * 10 + static_cast<int>(opposite) : -1);
                }
                if (edge == Edge::wrap)
                    neighbor_all_to_all(me, {"x", "y", "z"}, ConstBuffers(ins), Buffers(outs), edge);
                else
                    start_neighbor_all_to_all(me, {"x", "y", "z"}, ConstBuffers(ins), Buffers(outs), edge)
                        .wait();
                EXPECT_EQ(outs, wanted);
            }
        }
    });
}
