// SPDX-License-Identifier: Apache-2.0
// Strided buffers in every operation, and what is refused of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <numeric>
#include <random>
#include <set>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/strided.hpp>

#include "conformance.hpp"
#include "operations.hpp"

using namespace rankmesh;
using operations::check_all;
using operations::Scattered;

namespace {

/// A view of random extents and strides in memory of random numbers, with the addresses of its elements in
/// row-major order, found one by one.
struct DrawnView {
    explicit DrawnView(std::mt19937& random) {
        const auto draw = [&](int least, int most) {
            return std::uniform_int_distribution(least, most)(random);
        };
        auto order = std::array{0, 1, 2};
        std::ranges::shuffle(order, random);
        auto reach = std::ptrdiff_t{1};
        for (auto dimension : order) {  // from the innermost out, so that no elements meet
            const auto at = static_cast<std::size_t>(dimension);
            extents[at] = draw(1, 4);
            strides[at] = reach * draw(1, 2) * (draw(0, 1) == 0 ? 1 : -1);
            reach = std::abs(strides[at]) * extents[at] + draw(0, 1);
        }
        memory.resize(static_cast<std::size_t>(reach) + 2);
        for (auto& each : memory) each = draw(0, 1'000'000);
        first = 1;
        for (std::size_t d = 0; d < 3; ++d)
            first += std::max<std::ptrdiff_t>(0, -strides[d] * (extents[d] - 1));
        for (std::ptrdiff_t i = 0; i < extents[0]; ++i)
            for (std::ptrdiff_t j = 0; j < extents[1]; ++j)
                for (std::ptrdiff_t k = 0; k < extents[2]; ++k)
                    elements.push_back(
                        static_cast<std::size_t>(first + i * strides[0] + j * strides[1] + k * strides[2]));
    }
    Strided<int, 3> view() { return {memory.data() + first, extents, strides}; }

    std::array<std::ptrdiff_t, 3> extents;
    std::array<std::ptrdiff_t, 3> strides;
    std::ptrdiff_t first;
    std::vector<int> memory;
    std::vector<std::size_t> elements;
};

/// Like std::mdspan with strides.
template <class T>
struct Span2d {
    using extents_type = std::array<int, 2>;
    using layout_type = void;
    T* data_handle() const { return data; }
    static constexpr std::size_t rank() { return 2; }
    int extent(std::size_t i) const { return extents[i]; }
    int stride(std::size_t i) const { return strides[i]; }

    T* data;
    extents_type extents;
    extents_type strides;
};

}  // namespace

TEST(Strided, EveryOperation_OnStridedBuffers_GivesWhatTheMeshSays) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        check_all<float, Scattered<float>>(on, world.rank(), 13);
        check_all<float, Scattered<float>>(on, world.rank(), 6);
        check_all<std::int32_t, Scattered<std::int32_t>>(on, world.rank(), 0);
        check_all<std::int32_t, Scattered<std::int32_t>>(on, world.rank(), 1);
        check_all<double, Scattered<double>>(on, world.rank(), 1500);
        check_all<std::complex<double>, Scattered<std::complex<double>>>(on, world.rank(), 5);
        check_all<std::int8_t, Scattered<std::int8_t>>(on, world.rank(), 8);
        check_all<operations::Token, Scattered<operations::Token>>(on, world.rank(), 4);
    });
}

TEST(Strided, AnyView_SentByAShift_ArrivesInOrder) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        for (unsigned seed = 0; seed < 200; ++seed) {
            SCOPED_TRACE(seed);
            auto random = std::mt19937(seed);  // the same views on all ranks
            auto in = DrawnView(random);
            auto out = DrawnView(random);
            if (in.elements.size() != out.elements.size()) out = in;
            for (auto& each : in.memory) each += world.rank();
            auto wanted = out.memory;
            const auto from = (world.rank() + world.size() - 1) % world.size();
            for (std::size_t i = 0; i < in.elements.size(); ++i)
                wanted[out.elements[i]] = in.memory[in.elements[i]] - world.rank() + from;
            if (seed % 2 == 0)
                on.shift(in.view(), out.view());
            else
                on.start().shift(in.view(), out.view()).wait();
            EXPECT_EQ(out.memory, wanted);
        }
    });
}

TEST(Strided, AViewLikeMdspan_IsABuffer) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto matrix = std::vector<int>(12);  // 3 rows of 4
        std::iota(matrix.begin(), matrix.end(), 0);
        auto wanted = matrix;
        for (auto i : {1, 2, 5, 6, 9, 10}) wanted[static_cast<std::size_t>(i)] *= world.size();
        on.all_reduce(Span2d<int>{matrix.data() + 1, {3, 2}, {4, 1}});
        EXPECT_EQ(matrix, wanted);
        auto transposed = std::vector<int>(static_cast<std::size_t>(12 * world.size()));
        const auto columns = Span2d<const int>{matrix.data(), {4, 3}, {1, 4}};
        on.all_gather(columns, transposed);
        EXPECT_EQ(transposed[1], matrix[4]);
        EXPECT_EQ(transposed[3], matrix[1]);
    });
}

TEST(Strided, ReproducibleSums_OfAnyView_AreThoseOfItsElements) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto memory = std::vector<double>(40);
        for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<double>(i + 1) / 7;
        const auto every_third = strided(memory.data() + 30, {11}, {-3});
        const auto column = strided(memory.data() + 1, {11}, {2});
        auto x = std::vector<double>(11);
        auto y = x;
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = memory[30 - 3 * i], y[i] = memory[1 + 2 * i];
        EXPECT_EQ(on.reproducible_sum(every_third), on.reproducible_sum(x));
        EXPECT_EQ(on.reproducible_dot(every_third, column), on.reproducible_dot(x, y));
        EXPECT_EQ(on.reproducible_dot(x, column), on.reproducible_dot(x, y));
    });
}

TEST(Strided, AnyRank_IntoAView_ArrivesInOrder) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto mine = std::vector{on.rank(), 7, 8};
        if (on.rank() > 0) return on.send(mine, 0);
        for (int turn = 1; turn < on.size(); ++turn) {
            auto memory = std::vector<int>(6, -1);
            const auto out = strided(memory.data(), {3}, {2});
            auto from = -1;
            if (turn % 2 == 1) {
                from = on.recv(out, any_rank);
            } else {
                auto pending = on.start().recv(out, any_rank);
                pending.wait();
                from = pending.sender();
            }
            EXPECT_EQ(memory, (std::vector{from, -1, 7, -1, 8, -1}));
        }
    });
}

TEST(Strided, AContiguousView_IsNotCopied) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto field = std::vector<int>(24, 1);
        auto half = strided(field.data(), {2, 3, 4}).slice(0, 1, 1);
        auto pending = on.start().all_reduce(half);
        pending.wait();
        EXPECT_EQ(std::accumulate(field.begin(), field.end(), 0), 12 + 12 * world.size());
        on.all_gather(strided(field.data(), {24 / world.size(), world.size()}));  // in place
    });
}

TEST(Strided, AWrongView_IsRefusedInWords) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto n = world.size();
        const auto where = detail::cat("'dp' of mesh dp=", n);
        auto field = std::vector<int>(64, 1);
        auto* data = field.data();
        const auto all_reduce = [&](const auto& in, const auto& out) {
            return text_of<UsageError>([&] { on.all_reduce(in, out); });
        };
        auto four = std::vector<int>(4);
        EXPECT_EQ(all_reduce(four, strided(data, {2, 2}, {0, 1})),
                  detail::cat("all_reduce on ", where,
                              " was given a strided output in which elements overlap; give each element an "
                              "address of its own"));
        EXPECT_EQ(all_reduce(four, strided(data, {2, 2}, {1, 1})),
                  all_reduce(four, strided(data, {2, 2}, {0, 1})));
        const auto overlapping = detail::cat("all_reduce on ", where,
                                             " was given strided buffers that overlap; use two that share no "
                                             "element, or pass one, to use it in place");
        EXPECT_EQ(all_reduce(strided(data, {3, 2}, {2, 8}), strided(data, {2, 3}, {8, 2})), overlapping);
        EXPECT_EQ(all_reduce(strided(data, {8, 2}, {8, 1}), strided(data + 1, {8, 2}, {8, 1})), overlapping);
        EXPECT_EQ(
            text_of<UsageError>([&] { on.all_gather(strided(data, {2}, {2}), strided(data, {2 * n}, {2})); }),
            detail::cat("all_gather on ", where,
                        " was given strided buffers that overlap; use two that share no element, or "
                        "pass one, to use it in place"));
        EXPECT_EQ(all_reduce(four, strided(data, {5}, {2})),
                  detail::cat("all_reduce on ", where, " (", n,
                              " ranks) was given 4 elements in and 5 out; both must be equal"));
        EXPECT_EQ(text_of<UsageError>([&] { on.send_recv(four, n, strided(data, {4}, {2}), 0); }),
                  detail::cat("send_recv on ", where, " to group rank ", n, "; group ranks are 0..", n - 1));
        if (n > 1) {
            EXPECT_EQ(text_of<UsageError>([&] { on.all_gather(strided(data, {n + 1}, {2})); }),
                      detail::cat("all_gather on ", where, " in place was given ", n + 1,
                                  " elements; it takes a multiple of ", n));
        }
        EXPECT_EQ(text_of<UsageError>([&] { on.broadcast(strided(data, {-1}, {2})); }),
                  "a strided buffer has an extent of -1; extents are 0 or more");
        EXPECT_EQ(text_of<UsageError>([&] {
                      on.broadcast(strided(data, {2, 2, 2, 2, 2, 2, 2, 2, 2}, {1, 3, 1, 3, 1, 3, 1, 3, 1}));
                  }),
                  "a strided buffer has more than 8 dimensions that do not lie like fewer; copy it to "
                  "contiguous memory");
        EXPECT_EQ(text_of<UsageError>([&] {
                      (void)strided(data, {4, 4}).slice(1, 3, 2);
                  }),
                  "slice of 2 indices from 3 on along dimension 1, which has 4");
        EXPECT_EQ(text_of<UsageError>([&] {
                      (void)strided(data, {4, 4}).slice(2, 0, 1);
                  }),
                  "slice along dimension 2 of a view of 2 dimensions, which are 0..1");
        // Rows that lie between each other share no element.
        on.shift(strided(data, {8, 1}, {8, 1}), strided(data + 1, {8, 1}, {8, 1}), 1);
        on.all_reduce(strided(data, {8}, {2}), strided(data + 1, {8}, {2}));
        on.all_reduce(strided(data, {2, 2}, {0, 0}), four);
        check_all<float, Scattered<float>>(on, world.rank(), 3);  // and all is well afterwards
    });
}
