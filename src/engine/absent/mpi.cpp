// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/mpi.hpp>

namespace rankmesh::detail {

std::string mpi_library() { return {}; }

}  // namespace rankmesh::detail

namespace rankmesh::mpi {

bool is_built() { return false; }

World::World(int, char**, const WorldOptions&) : rankmesh::World(nullptr) {
    throw NotBuilt(
        "this program's rankmesh has no MPI; link rankmesh::rankmesh, not rankmesh::threads, of a rankmesh "
        "that "
        "was configured with -DRANKMESH_MPI=ON where an MPI is installed");
}

}  // namespace rankmesh::mpi
