// SPDX-License-Identifier: Apache-2.0
// A list of many arrays beside one call each, and beside what one would write by hand: copy into one buffer,
// one MPI call, copy back. Start with mpirun on any number of ranks; rank 0 reports.
#include <cstdio>
#include <cstring>
#include <string>

#include <rankmesh/engine/mpi.hpp>

#include "measure.hpp"

namespace {

using rankmesh::Communicator;
using Arrays = std::vector<std::vector<float>>;

constexpr auto arrays = std::size_t{200};

/// The arrays and the one buffer of who does it by hand, of `ranks` parts where each rank's part arrives.
struct Case {
    Case(std::size_t bytes, int ranks)
        : count(bytes / sizeof(float)),
          in(arrays, std::vector<float>(count)),
          out(arrays, std::vector<float>(count * static_cast<std::size_t>(ranks))),
          packed(arrays * count),
          gathered(packed.size() * static_cast<std::size_t>(ranks)) {}

    void pack() {
        for (std::size_t i = 0; i < arrays; ++i)
            std::memcpy(packed.data() + i * count, in[i].data(), count * sizeof(float));
    }
    void unpack() {
        for (std::size_t i = 0; i < arrays; ++i)
            std::memcpy(in[i].data(), packed.data() + i * count, count * sizeof(float));
    }
    void unpack_gathered() {
        const auto parts = gathered.size() / packed.size();
        for (std::size_t i = 0; i < arrays; ++i)
            for (std::size_t part = 0; part < parts; ++part)
                std::memcpy(out[i].data() + part * count, gathered.data() + part * packed.size() + i * count,
                            count * sizeof(float));
    }
    int total() const { return static_cast<int>(packed.size()); }

    std::size_t count;
    Arrays in, out;
    std::vector<float> packed, gathered;
};

/// One call each, the list, the list started and waited for, and by hand.
std::vector<rankmesh::bench::Way> ways(const std::string& operation, Communicator& on, MPI_Comm bare,
                                       Case& c) {
    using rankmesh::Buffers;
    using rankmesh::ConstBuffers;
    if (operation == "all_reduce")
        return {{[&] {
                    for (auto& array : c.in) on.all_reduce(array);
                }},
                {[&] { on.all_reduce(Buffers(c.in)); }},
                {[&] { on.start().all_reduce(Buffers(c.in)).wait(); }},
                {[&, bare] {
                    c.pack();
                    MPI_Allreduce(MPI_IN_PLACE, c.packed.data(), c.total(), MPI_FLOAT, MPI_SUM, bare);
                    c.unpack();
                }}};
    if (operation == "broadcast")
        return {{[&] {
                    for (auto& array : c.in) on.broadcast(array);
                }},
                {[&] { on.broadcast(Buffers(c.in)); }},
                {[&] { on.start().broadcast(Buffers(c.in)).wait(); }},
                {[&, bare] {
                    if (on.rank() == 0) c.pack();
                    MPI_Bcast(c.packed.data(), c.total(), MPI_FLOAT, 0, bare);
                    if (on.rank() != 0) c.unpack();
                }}};
    return {{[&] {
                for (std::size_t i = 0; i < arrays; ++i) on.all_gather(c.in[i], c.out[i]);
            }},
            {[&] { on.all_gather(ConstBuffers(c.in), Buffers(c.out)); }},
            {[&] { on.start().all_gather(ConstBuffers(c.in), Buffers(c.out)).wait(); }},
            {[&, bare] {
                c.pack();
                MPI_Allgather(c.packed.data(), c.total(), MPI_FLOAT, c.gathered.data(), c.total(), MPI_FLOAT,
                              bare);
                c.unpack_gathered();
            }}};
}

}  // namespace

int main(int argc, char** argv) {
    auto world = rankmesh::mpi::World(argc, argv);
    auto on = world.join({{"dp", rankmesh::rest}}).on("dp");
    auto bare = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &bare);
    const auto reports = world.rank() == 0;
    if (reports)
        std::printf(
            "%zu arrays on %d ranks: how many times faster than one call each\n"
            "operation    an array   one call each    list   started   by hand\n",
            arrays, world.size());
    // What is gathered grows with the ranks, so its larger parts are smaller.
    struct {
        const char* operation;
        std::size_t kib;
        int rounds;
    } const rows[] = {{"all_reduce", 4, 21}, {"broadcast", 4, 21}, {"all_gather", 4, 21},
                      {"all_reduce", 32, 9}, {"broadcast", 32, 9}, {"all_gather", 8, 9}};
    for (const auto& row : rows) {
        auto buffers = Case(row.kib << 10, row.operation == std::string("all_gather") ? world.size() : 1);
        const auto times = rankmesh::bench::medians(ways(row.operation, on, bare, buffers), row.rounds);
        if (reports)
            std::printf("%-12s %4zu KiB   %10.2f ms   %5.2f   %7.2f   %7.2f\n", row.operation, row.kib,
                        times[0], times[0] / times[1], times[0] / times[2], times[0] / times[3]);
    }
    MPI_Comm_free(&bare);
    return 0;
}
