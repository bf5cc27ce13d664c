// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/mpi.hpp>

#include <rankmesh/engine/launcher.hpp>

#include "engine/mpi/world.hpp"

namespace rankmesh::mpi {
namespace {

std::shared_ptr<detail::WorldState> whole_world(int argc, char** argv, const WorldOptions& options) {
    auto runtime = detail::Runtime::acquire(argc, argv, options.multithreaded, options.timeout);
    auto size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check_announced("mpi", size);
    return detail::MpiWorld::over(std::move(runtime), MPI_COMM_WORLD, options);
}

}  // namespace

bool is_built() { return true; }

World::World(int argc, char** argv, const WorldOptions& options)
    : rankmesh::World(whole_world(argc, argv, options)) {}

}  // namespace rankmesh::mpi
