// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include <rankmesh/engine/mpi.hpp>

#include "conformance.hpp"
#include "conformance_processes.hpp"
#include "engine/mpi/limits.hpp"
#include "operations.hpp"
#include "support/allocations.hpp"

namespace {

rankmesh::World* the_world = nullptr;

}  // namespace

void on_every_rank(const std::function<void(rankmesh::World&)>& program) { program(*the_world); }

TEST(MpiConformance, CountsBeyondTheLimitOfOneCallGoInPieces) {
    auto on = the_world->join({{"dp", rankmesh::rest}}).on("dp");
    for (auto limit : {std::size_t{1}, std::size_t{5}, std::size_t{12}}) {
        rankmesh::detail::mpi_count_limit = limit;
        for (auto count : {std::size_t{0}, std::size_t{5}, std::size_t{13}, std::size_t{24}}) {
            operations::check_all<float>(on, the_world->rank(), count);
            operations::check_all<std::int64_t>(on, the_world->rank(), count);
        }
    }
    rankmesh::detail::mpi_count_limit = std::numeric_limits<int>::max();
}

TEST(MpiConformance, OneMemberMayExceedTheLimitWhereOthersDoNot) {
    auto on = the_world->join({{"dp", rankmesh::rest}}).on("dp");
    const auto n = static_cast<std::size_t>(on.size());
    const auto r = static_cast<std::size_t>(on.rank());
    const auto length = [&](std::size_t from, std::size_t to) {
        return from == 0 && to == n - 1 ? std::size_t{30} : to % 3;
    };
    auto in_counts = std::vector<std::size_t>(n);
    auto out_counts = std::vector<std::size_t>(n);
    for (std::size_t i = 0; i < n; ++i) in_counts[i] = length(r, i), out_counts[i] = length(i, r);
    const auto in = std::vector<int>(std::accumulate(in_counts.begin(), in_counts.end(), std::size_t{0}),
                                     the_world->rank());
    auto wanted = std::vector<int>{};
    for (std::size_t i = 0; i < n; ++i) wanted.insert(wanted.end(), out_counts[i], static_cast<int>(i));
    rankmesh::detail::mpi_count_limit = 12;
    for (auto start : {false, true}) {
        auto out = std::vector<int>(wanted.size(), -1);
        if (start)
            on.start().all_to_all_v(in, in_counts, out, out_counts).wait();
        else
            on.all_to_all_v(in, in_counts, out, out_counts);
        EXPECT_EQ(out, wanted);
    }
    rankmesh::detail::mpi_count_limit = std::numeric_limits<int>::max();
}

TEST(MpiConformance, ACallAllocatesNothingOnceTheProgramRunsEvenly) {
    if (is_checked()) GTEST_SKIP() << "comparing calls allocates";
    auto on = the_world->join({{"dp", rankmesh::rest}}).on("dp");
    const auto n = on.size();
    const auto next = (on.rank() + 1) % n;
    const auto before = (on.rank() + n - 1) % n;
    auto in = std::vector<float>(8);
    auto other = std::vector<float>(8);
    auto out = std::vector<float>(8 * static_cast<std::size_t>(n));
    auto across = out;
    const auto counts = std::vector<std::size_t>(static_cast<std::size_t>(n), 8);
    const auto step = [&] {
        on.all_reduce(in);
        on.all_gather(in, out);
        on.all_gather_v(in, out, counts);
        on.reduce_scatter(out, in);
        on.reduce(in, other);
        on.scan(in, other);
        on.gather(in, out);
        on.scatter(out, in);
        on.send_recv(in, next, other, before);
        on.all_to_all(out, across);
        on.all_to_all_v(out, counts, across, counts);
        on.shift(in, 1);
        on.barrier();
        auto first = on.start().all_reduce(in);
        auto second = on.start().all_gather(std::span(out).first(1), std::span(out).last(out.size() / 8));
        auto third = on.start().all_to_all_v(across, counts, out, counts);
        second.wait();
        first.wait();
        third.wait();
        on.start().send_recv(in, next, other, before).wait();
        on.start().scan(in, other).wait();
        if (n == 1) return;  // what goes from a member to itself is paired up first
        on.batch([&] {
            on.send(in, next);
            on.recv(other, before);
        });
    };
    step();
    step();  // the second finds what the first has made
    const auto made = support::allocations();
    for (int i = 0; i < 10; ++i) step();
    EXPECT_EQ(support::allocations(), made);
}

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    auto world = rankmesh::mpi::World(argc, argv, {.timeout = std::chrono::minutes(2)});
    the_world = &world;
    print_as(world.rank());
    return RUN_ALL_TESTS();
}
