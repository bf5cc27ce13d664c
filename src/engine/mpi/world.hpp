// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include "engine/exchange.hpp"
#include "engine/mpi/runtime.hpp"
#include "engine/world_state.hpp"

namespace rankmesh::detail {

/// One rank of an MPI communicator, on a duplicate of its own.
class MpiWorld final : public WorldState, private Exchange {
public:
    /// Takes over `comm`; collective over its ranks.
    MpiWorld(std::shared_ptr<Runtime> runtime, MPI_Comm comm, const WorldOptions& options);
    /// Uses a duplicate of `comm`, which the caller still owns.
    static std::shared_ptr<MpiWorld> over(std::shared_ptr<Runtime> runtime, MPI_Comm comm,
                                          const WorldOptions& options);
    ~MpiWorld() override;

    std::string engine() const override { return "mpi"; }
    Exchange& exchange() override { return *this; }
    void leave(const std::string& what) noexcept override { runtime_->leave(what); }
    std::shared_ptr<WorldState> sub(const std::vector<int>& ranks) override;
    std::shared_ptr<WorldState> survivors(Duration grace) override;
    std::shared_ptr<WorldState> grow(int most, Duration timeout) override;
    std::string host() override { return host_; }
    void record_in(std::shared_ptr<Recorder> recorder,
                   std::shared_ptr<const std::vector<int>> roots) override {
        runtime_->watchdog().record(*watched_call_, recorder);
        WorldState::record_in(std::move(recorder), std::move(roots));
    }

private:
    int rank() const override { return rank_; }
    int size() const override { return size_; }
    const std::vector<int>& local_ranks() const override { return local_ranks_; }
    void max(std::array<std::int64_t, 4>& values) override {
        runtime_->check_thread();
        const auto watched = WhileWatched(*watched_call_, "join or split, meeting all ranks", label_,
                                          options.timeout, joins_ = watched_call_->next_collective());
        MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_INT64_T, MPI_MAX,
                      comm_);
    }
    void send(int to, const std::string& bytes) override {
        const auto watched = WhileWatched(*watched_call_, "join or split, sending what this rank says",
                                          label_, options.timeout, joins_);
        MPI_Send(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, 0, comm_);
    }
    std::string receive(int from) override;
    void post(int to, const std::string& bytes) override;
    std::vector<std::pair<int, std::string>> collect(const std::string& phase, std::span<const int> from,
                                                     std::chrono::steady_clock::time_point until) override;
    std::shared_ptr<Channel> create(const ChannelRequest& request) override;

    std::vector<int> find_host();
    MPI_Comm create(const std::vector<int>& ranks, int tag) const;

    std::shared_ptr<Runtime> runtime_;
    MPI_Comm comm_;
    MPI_Group group_ = MPI_GROUP_NULL;
    int rank_ = 0;
    int size_ = 1;
    std::string host_;
    std::vector<int> local_ranks_;
    std::uint64_t joins_ = 0;  // how many plans were compared
    Label label_;              // the label of timeouts in join
    std::shared_ptr<PeerQuery> roll_call_;
    std::unique_ptr<WatchedCall> watched_call_;
    /// A message that MPI may still read.
    struct Sending {
        std::unique_ptr<std::string> bytes;
        MPI_Request request;
    };
    std::vector<Sending> sending_;
};

}  // namespace rankmesh::detail
