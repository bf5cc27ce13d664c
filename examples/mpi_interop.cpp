// SPDX-License-Identifier: Apache-2.0
// Between MPI and rankmesh: a world over a communicator of the program's, and MPI calls on one of rankmesh's.
#include <cstdio>

#include <rankmesh/interop/mpi.hpp>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    auto rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    auto half = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    auto right = false;
    {
        auto world = rankmesh::mpi::adopt(half);  // called by all its members
        auto me = world.join({{"dp", rankmesh::rest}});
        auto dp = me.on("dp");

        auto sum = rank;
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, rankmesh::mpi::native(dp));

        auto same = rank;
        dp.all_reduce(same);
        right = sum == same && world.size() > rank / 2;
    }  // all that is rankmesh's goes before MPI does
    MPI_Comm_free(&half);
    MPI_Finalize();
    if (!right || rank == 0) std::puts(right ? "MPI and rankmesh agree" : "MPI and rankmesh differ");
    return right ? 0 : 1;
}
