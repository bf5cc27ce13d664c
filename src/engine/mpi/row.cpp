// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <rankmesh/core/error.hpp>
#include <rankmesh/engine/mpi.hpp>

#include "engine/engines.hpp"
#include "engine/environment.hpp"

namespace rankmesh::detail {

/// The MPI that this process works with; mpi.cpp has it, or absent/mpi.cpp.
std::string mpi_library();

Engine mpi_engine() {
    return {.name = "mpi",
            .library = mpi_library,
            .started =
                [] {
                    return mpi::is_built() && !is_of_torchrun() &&
                           (std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMI_SIZE"));
                },
            .create = [](int argc, char** argv, const WorldOptions& options) -> World {
                return mpi::World(argc, argv, options);
            },
            .need =
                [](const JoinCost& cost) {
                    return EngineNeed{
                        .engine = "mpi",
                        .text = counted(cost.communicators, "communicator") + "; no limit is known",
                        .amounts = {{.of = "communicators", .count = cost.communicators, .outside = 0}},
                        .by = JoinBy::messages};
                }};
}

}  // namespace rankmesh::detail
