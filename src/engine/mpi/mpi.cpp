// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/mpi.hpp>

#include <algorithm>

#include <rankmesh/engine/launcher.hpp>

#include "engine/mpi/world.hpp"

namespace rankmesh::detail {

std::string mpi_library() {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    auto length = 0;
    MPI_Get_library_version(text, &length);
    // `Open MPI v4.1.4, package: ...`, or `MPICH Version:\t4.0.2` and more lines.
    auto name = std::string(text, static_cast<std::size_t>(length));
    name.resize(std::min(name.find_first_of(",\n"), name.size()));
    std::ranges::replace(name, '\t', ' ');
    return name;
}

}  // namespace rankmesh::detail

namespace rankmesh::mpi {
namespace {

std::shared_ptr<detail::WorldState> whole_world(int argc, char** argv, const WorldOptions& options) {
    auto runtime = detail::Runtime::acquire(argc, argv, options.multithreaded, options.timeout);
    runtime->agree_on_end();
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
