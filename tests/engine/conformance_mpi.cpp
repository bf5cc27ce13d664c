// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include <rankmesh/engine/mpi.hpp>

#include "conformance.hpp"
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

TEST(MpiConformance, ACallAllocatesNothingOnceTheProgramRunsEvenly) {
    auto on = the_world->join({{"dp", rankmesh::rest}}).on("dp");
    auto in = std::vector<float>(8);
    auto out = std::vector<float>(8 * static_cast<std::size_t>(the_world->size()));
    const auto step = [&] {
        on.all_reduce(in);
        on.all_gather(in, out);
        on.reduce_scatter(out, in);
        on.barrier();
        auto first = on.start_all_reduce(in);
        auto second = on.start_all_gather(std::span(out).first(1), std::span(out).last(out.size() / 8));
        second.wait();
        first.wait();
    };
    step();
    const auto before = support::allocations();
    for (int i = 0; i < 10; ++i) step();
    EXPECT_EQ(support::allocations(), before);
}

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    auto world = rankmesh::mpi::World(argc, argv, {.deadline = std::chrono::minutes(2)});
    the_world = &world;
    // One rank prints the passing tests, all print what fails.
    if (world.rank() != 0) {
        auto& listeners = testing::UnitTest::GetInstance()->listeners();
        delete listeners.Release(listeners.default_result_printer());
        class Failures : public testing::EmptyTestEventListener {
            void OnTestPartResult(const testing::TestPartResult& result) override {
                if (result.failed())
                    std::fprintf(stderr, "rank %d: %s:%d: %s\n", the_world->rank(), result.file_name(),
                                 result.line_number(), result.message());
            }
        };
        listeners.Append(new Failures);
    }
    return RUN_ALL_TESTS();
}
