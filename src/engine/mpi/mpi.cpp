// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/mpi.hpp>

#include <mpi.h>

#include <rankmesh/engine/launcher.hpp>
#include "engine/mpi/channel.hpp"
#include "engine/world_state.hpp"

namespace rankmesh {

namespace detail {
namespace {

/// One rank of MPI_COMM_WORLD, on a communicator of its own.
class MpiWorld final : public WorldState, private Exchange {
public:
    MpiWorld(int argc, char** argv, const WorldOptions& options)
        : WorldState(options),
          runtime_(Runtime::acquire(argc, argv, options.multithreaded, options.deadline)) {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
        MPI_Comm_size(MPI_COMM_WORLD, &size_);
        check_announced("mpi", size_);
        runtime_->watchdog().add(flight_);
        const auto watched = InFlight(flight_, "the start of the world", label_, options.deadline);
        MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
        // A host program may have asked for return codes; a mismatch under those corrupts the heap.
        MPI_Comm_set_errhandler(comm_, MPI_ERRORS_ARE_FATAL);
        MPI_Comm_group(comm_, &group_);
    }
    ~MpiWorld() override {
        runtime_->watchdog().remove(flight_);
        if (comm_ == MPI_COMM_NULL || !runtime_->is_usable()) return;
        MPI_Group_free(&group_);
        MPI_Comm_free(&comm_);
    }

    std::string engine() const override { return "mpi"; }
    Exchange& exchange() override { return *this; }
    void leave(const std::string& what) noexcept override { runtime_->leave(what); }

private:
    int rank() const override { return rank_; }
    int size() const override { return size_; }

    void max(std::array<std::int64_t, 4>& values) override {
        runtime_->check_thread();
        const auto watched =
            InFlight(flight_, "join, comparing the plans of all ranks", label_, options.deadline);
        MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_INT64_T, MPI_MAX,
                      comm_);
    }
    void send(int to, const std::string& bytes) override {
        const auto watched = InFlight(flight_, "join, telling how plans differ", label_, options.deadline);
        MPI_Send(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, 0, comm_);
    }
    std::string receive(int from) override {
        const auto watched = InFlight(flight_, "join, hearing how plans differ", label_, options.deadline);
        auto status = MPI_Status{};
        MPI_Probe(from, 0, comm_, &status);
        auto count = 0;
        MPI_Get_count(&status, MPI_BYTE, &count);
        auto bytes = std::string(static_cast<std::size_t>(count), '\0');
        MPI_Recv(bytes.data(), count, MPI_BYTE, from, 0, comm_, MPI_STATUS_IGNORE);
        return bytes;
    }
    std::shared_ptr<Channel> create(const ChannelRequest& request) override {
        runtime_->check_thread();
        const auto watched =
            InFlight(flight_, "join, making a communicator", *request.label, options.deadline);
        const auto ranks = request.label->ranks.list();
        auto group = MPI_Group{};
        auto made = MPI_COMM_NULL;
        MPI_Group_incl(group_, static_cast<int>(ranks.size()), ranks.data(), &group);
        // Members only: the tag keeps apart groups that are made at the same time.
        MPI_Comm_create_group(comm_, group, request.item, &made);
        MPI_Group_free(&group);
        MPI_Comm_set_errhandler(made, MPI_ERRORS_ARE_FATAL);
        return std::make_shared<MpiChannel>(runtime_, made);
    }

    std::shared_ptr<Runtime> runtime_;
    MPI_Comm comm_ = MPI_COMM_NULL;
    MPI_Group group_ = MPI_GROUP_NULL;
    int rank_ = 0;
    int size_ = 1;
    Flight flight_;
    Label label_;
};

}  // namespace
}  // namespace detail

namespace mpi {

bool is_built() { return true; }

World::World(int argc, char** argv, const WorldOptions& options)
    : rankmesh::World(std::make_shared<detail::MpiWorld>(argc, argv, options)) {}

}  // namespace mpi
}  // namespace rankmesh
