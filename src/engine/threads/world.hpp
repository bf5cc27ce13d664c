// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rankmesh/core/mesh.hpp>
#include <rankmesh/engine/world.hpp>

#include "engine/channel.hpp"
#include "engine/membership/rendezvous.hpp"
#include "engine/pending_buffers.hpp"
#include "engine/system.hpp"
#include "engine/threads/job.hpp"
#include "engine/world_state.hpp"

namespace rankmesh::detail {

/// One rank of a Job.
class ThreadsWorld final : public WorldState, private Exchange {
public:
    /// `pending`: what this rank's calls use, also those of the world that this one is a part of. `part`: the
    /// prefix of its entries where it is a part of another, "" where it is none.
    ThreadsWorld(std::shared_ptr<Job> job, std::shared_ptr<JobStore> store, int rank,
                 const WorldOptions& options,
                 std::shared_ptr<PendingBuffers> pending = std::make_shared<PendingBuffers>(),
                 std::string part = {})
        : WorldState(options),
          job_(std::move(job)),
          store_(std::move(store)),
          part_(std::move(part)),
          rank_(rank),
          pending_(std::move(pending)) {
        label_.mesh = "world";
        label_.axes = "join";
        label_.ranks.group = Mesh{{"world", job_->size}}.group(0, "world");
        for (int r = 0; r < job_->size; ++r) local_ranks_.push_back(r);
    }

    ~ThreadsWorld() override { job_->end(rank_); }

    std::string engine() const override { return "threads"; }
    Exchange& exchange() override { return *this; }
    void leave(const std::string& what) noexcept override {
        job_->left(rank_);
        job_->fail(rank_, cause->of_leaving(rank_, what));
    }
    std::shared_ptr<WorldState> sub(const std::vector<int>& ranks) override;
    std::shared_ptr<WorldState> survivors(Duration grace) override;
    std::shared_ptr<WorldState> grow(int most, Duration timeout) override;
    /// The world that a thread enters.
    static std::shared_ptr<WorldState> rejoin(const std::shared_ptr<JobStore>& store,
                                              std::optional<int> place, WorldOptions options);
    const std::shared_ptr<JobStore>& store() const { return store_; }
    std::string host() override { return host_name(); }
    void record_in(std::shared_ptr<Recorder> recorder,
                   std::shared_ptr<const std::vector<int>> roots) override {
        job_->record(rank_, recorder);
        WorldState::record_in(std::move(recorder), std::move(roots));
    }

private:
    int rank() const override { return rank_; }
    int size() const override { return job_->size; }
    const std::vector<int>& local_ranks() const override { return local_ranks_; }
    void max(std::array<std::int64_t, 4>& values) override;
    void send(int to, const std::string& bytes) override {
        job_->mailboxes[static_cast<std::size_t>(to)].put(rank_, bytes);
    }
    std::string receive(int from) override {
        return job_->mailboxes[static_cast<std::size_t>(rank_)].take(job_->departures, from, options.timeout);
    }
    void post(int to, const std::string& bytes) override {
        job_->mailboxes[static_cast<std::size_t>(to)].post(rank_, bytes);
    }
    std::vector<std::pair<int, std::string>> collect(const std::string& phase, std::span<const int> from,
                                                     std::chrono::steady_clock::time_point until) override {
        return job_->mailboxes[static_cast<std::size_t>(rank_)].collect(job_->departures, phase, from, until);
    }
    std::string doing(int rank) override {
        if (const auto recorder = job_->recorder(rank)) recorder->asked();
        return job_->doing(rank);
    }
    std::shared_ptr<Channel> create(const ChannelRequest& request) override;

    Rendezvous& rendezvous();
    /// The world of the ranks of a rendezvous that this one's have made.
    static std::shared_ptr<ThreadsWorld> over(std::unique_ptr<Rendezvous> rendezvous,
                                              const std::shared_ptr<JobStore>& store,
                                              const WorldOptions& options,
                                              std::shared_ptr<PendingBuffers> pending);

    std::shared_ptr<Job> job_;
    const std::shared_ptr<JobStore> store_;
    const std::string part_;
    std::unique_ptr<Rendezvous> rendezvous_;  // once it is needed
    int rank_;
    std::shared_ptr<PendingBuffers> pending_;
    std::vector<int> local_ranks_;           // all
    std::map<std::vector<int>, int> turns_;  // how often this rank has asked for a world of some ranks
    Label label_;                            // the label of timeouts in join
};

}  // namespace rankmesh::detail
