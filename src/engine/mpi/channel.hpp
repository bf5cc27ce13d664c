// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <vector>

#include "engine/mpi/limits.hpp"
#include "engine/mpi/runtime.hpp"

namespace rankmesh::detail {

/// One MPI communicator.
class MpiChannel final : public Channel {
public:
    /// Takes over `comm`, in which this process has the position of its rank.
    MpiChannel(std::shared_ptr<Runtime> runtime, MPI_Comm comm);
    ~MpiChannel() override;

    void run(const Call& call, const Label& label, Duration deadline) override;
    std::uint64_t start(const Call& call, const Label& label) override;
    void wait(std::uint64_t ticket, const Label& label, Duration deadline) override;
    bool done(std::uint64_t ticket) override;
    void leave(std::uint64_t ticket, const Label& label) noexcept override;
    void leave() noexcept override;

private:
    /// One started operation; slots are used again, so that nothing is allocated once a program runs evenly.
    struct Slot {
        std::vector<MPI_Request> requests;
        Call call;
        bool taken = false;
    };

    void run_large(const Call& call);
    int source_of(const Call& call) const;
    int target_of(const Call& call) const;
    void finish(const Call& call) const;

    std::shared_ptr<Runtime> runtime_;
    MPI_Comm comm_;
    int rank_ = 0;
    int size_ = 1;
    Flight flight_;
    std::vector<Slot> slots_;
};

}  // namespace rankmesh::detail
