// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/interop/mpi.hpp>

#include "engine/access.hpp"
#include "engine/mpi/channel.hpp"
#include "engine/mpi/world.hpp"

namespace rankmesh::mpi {
namespace {

void check_adoptable(MPI_Comm comm) {
    auto initialised = 0;
    auto finalised = 0;
    MPI_Initialized(&initialised);
    MPI_Finalized(&finalised);
    if (!initialised || finalised)
        throw UsageError(
            "a communicator was given to adopt, but MPI does not run; call MPI_Init before, and "
            "MPI_Finalize after the world has gone");
    if (comm == MPI_COMM_NULL)
        throw UsageError("MPI_COMM_NULL was given to adopt; only members of a communicator call it");
    auto between = 0;
    MPI_Comm_test_inter(comm, &between);
    if (between)
        throw UsageError(
            "an intercommunicator was given to adopt; give an intracommunicator, as MPI_Intercomm_merge "
            "makes");
}

}  // namespace

rankmesh::World adopt(MPI_Comm comm, const WorldOptions& options) {
    check_adoptable(comm);
    auto runtime = detail::Runtime::acquire(0, nullptr, options.multithreaded, options.timeout);
    return detail::Access::world(detail::MpiWorld::over(std::move(runtime), comm, options));
}

MPI_Comm native(const Communicator& communicator) {
    const auto on_host = communicator.host();
    const auto& state = detail::Access::state(on_host);
    if (const auto* channel = dynamic_cast<const detail::MpiChannel*>(&state.channel->engine_channel()))
        return channel->comm();
    if (state.world->engine() == "mpi") return MPI_COMM_SELF;
    throw UsageError(detail::cat(communicator.label(), " is made of ", state.world->engine(),
                                 ", which has no MPI communicator"));
}

}  // namespace rankmesh::mpi
