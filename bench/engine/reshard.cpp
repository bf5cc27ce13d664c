// SPDX-License-Identifier: Apache-2.0
// Handing an array from trainers to rollout ranks: reshard beside what one would write by hand, which gathers
// it on one rank, broadcasts it, and takes each rank's slice. Start with mpirun on an even number of ranks:
// the first half has rows, the second shall have columns. Rank 0 reports.
#include <cstdio>
#include <cstring>

#include <rankmesh/engine/mpi.hpp>
#include <rankmesh/engine/reshard.hpp>

#include "measure.hpp"

int main(int argc, char** argv) {
    using namespace rankmesh;
    auto world = mpi::World(argc, argv);
    auto all = world.join({{"world", rest}}).on("world");
    const auto half = world.size() / 2;
    const auto trains = world.rank() < half;
    const auto mesh = Mesh{{"tp", half}};
    auto trainers = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, trains ? 0 : 1, world.rank(), &trainers);
    if (world.rank() == 0)
        std::printf(
            "rows of %d ranks become columns of %d others\n"
            "         array   gather + broadcast   reshard   of it   with 1 MiB staged\n",
            half, half);
    for (std::int64_t side : {256, 1024, 4096}) {
        side = side / half * half;
        const auto from = Sharding(mesh, {side, side}, Split::parse("0=tp"));
        const auto to = Sharding(mesh.shifted(half), {side, side}, Split::parse("1=tp"));
        const auto plan = Reshard(from, to, world.size());
        const auto count = static_cast<std::size_t>(side * side / half);
        const auto own = std::vector<float>(trains ? count : 0, 1.0f);
        auto wanted = std::vector<float>(trains ? 0 : count);
        auto whole = std::vector<float>(static_cast<std::size_t>(side * side));
        const auto by_hand = [&] {
            if (trains)
                MPI_Gather(own.data(), static_cast<int>(count), MPI_FLOAT, whole.data(),
                           static_cast<int>(count), MPI_FLOAT, 0, trainers);
            MPI_Bcast(whole.data(), static_cast<int>(whole.size()), MPI_FLOAT, 0, MPI_COMM_WORLD);
            if (trains) return;
            const auto columns = static_cast<std::size_t>(side / half);
            const auto* first = whole.data() + static_cast<std::size_t>(world.rank() - half) * columns;
            for (std::size_t row = 0; row < static_cast<std::size_t>(side); ++row)
                std::memcpy(wanted.data() + row * columns, first + row * static_cast<std::size_t>(side),
                            columns * sizeof(float));
        };
        const auto times = bench::medians({{by_hand}, {[&] { reshard(all, plan, own, wanted); }}, {[&] {
                                               reshard(all, plan, own, wanted, std::size_t{1} << 20);
                                           }}},
                                          side > 2048 ? 9 : 31);
        if (world.rank() == 0)
            std::printf("%4lld x %-4lld   %15.2f ms   %7.2f   %5.2f   %17.2f\n", static_cast<long long>(side),
                        static_cast<long long>(side), times[0], times[1], times[1] / times[0], times[2]);
    }
    MPI_Comm_free(&trainers);
    return 0;
}
